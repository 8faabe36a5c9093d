"""`Influence`: what the training instances do to predictions, with forward passes only."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.errors import InfluenceError
from turnover.layers.as_ids import as_ids
from turnover.scores import OutOfSample, Scores, Top
from turnover.wrapping.rows import Loss

from .executor import Executor, LocalExecutor
from .findings import warn_of_nan
from .fingerprint import fingerprint_of
from .forward import Pass, predicted
from .measures import Goodness, Measure
from .members import call_description, evaluating, open_members
from .options import NULL_IDS, Options, memory_in_bytes
from .pairs import Block, Tile, average, null_ids, spread_of
from .progress import Progress
from .queries import Batch, single_queries
from .route import Route, find_route, site_numbers
from .rows_pass import check_ids, class_labels, null_for, self_scores, unseen_outputs
from .stored import store_pairs
from .train import TrainRows

AtLabel = Literal["given", "predicted"]
QUERIES_PER_BLOCK = 128
IDS_PER_TILE = 8192


class Influence:
    """Influence of training instances on predictions; positive means the instance helps.

    Args:
        model: a wrapped and trained model, or several with different mask seeds.
        loss: `loss(outputs, targets) -> [rows]`; None: cross-entropy for integer targets, squared error for floats.
        train: the training data with ids; the default for `ids` and for the labels of `top`.
        against: compare the flipped network with the kept half ("keep") or with the whole network ("full").
        measure: "loss", "probability", "margin" (log-odds of the target), or a function, larger meaning better.
        center: subtract the mean score of never-trained ids, query by query.
        sites: flip only these sites; None: all.
        targets: name of the target in dict batches; None: "labels", else "label".
        device: move the model there; None: where it is.
        dtype: run under autocast in this type, torch.bfloat16 for example.
        memory: bytes that a chunk of work may take; None: 256 MiB.
        compile: run the model through torch.compile.
        executor: who works on tiles; None: this process.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(8)):
        ...     _ = net(torch.randn(8, 4))  # training goes here
        >>> scores = turnover.Influence(net).pairwise((torch.randn(3, 4), torch.tensor([0, 1, 0])), ids=range(8))
        >>> scores.values.shape
        (8, 3)
    """

    def __init__(
        self,
        model: nn.Module | Sequence[nn.Module],
        *,
        loss: Loss | None = None,
        train: Any = None,
        against: Literal["keep", "full"] = "keep",
        measure: Measure = "loss",
        center: bool = True,
        sites: Sequence[str] | None = None,
        targets: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        memory: int | None = None,
        compile: bool = False,
        executor: Executor | None = None,
    ) -> None:
        """Check everything that can be checked before the first query."""
        wanted = None if sites is None else tuple([sites] if isinstance(sites, str) else sites)
        self._options = Options(against, center, wanted, dtype, memory_in_bytes(memory), compile)
        self._goodness = Goodness(measure, loss)
        self._members = open_members(model, device)
        for member in self._members:
            site_numbers(member, wanted)
        self._targets = targets
        self._train = None if train is None else TrainRows(train, targets)
        self._executor = executor or LocalExecutor()

    # Questions about queries

    def pairwise(
        self,
        queries: Any,
        *,
        ids: Any = None,
        at_label: AtLabel | None = None,
        out: str | None = None,
        progress: bool | None = None,
    ) -> Scores:
        """Return Scores [instances, queries]: what each training instance does to each query.

        Args:
            queries: tensors, a tuple (x, y), a dict, a Dataset or a DataLoader.
            ids: which instances; None: all of `train`.
            at_label: judge the queries at their "given" or "predicted" label; None: given where they have one.
            out: a folder; scores are written there tile by tile, and an interrupted run is resumed.
            progress: show a bar; None: on a terminal.
        """
        wanted = self._ids(ids)
        with evaluating(self._members):
            opened, routes = self._open(queries, at_label, wanted)
            bar = Progress(len(wanted) * len(opened), progress, "pairs")
            if out is not None:
                provenance = self._provenance(opened, wanted)
                result = store_pairs(
                    out,
                    ids=wanted,
                    names=_names(opened),
                    members=len(routes),
                    queries_per_block=QUERIES_PER_BLOCK,
                    block_at=lambda start: self._block(opened, routes, start),
                    identity={
                        **provenance,
                        "paths": [route.path for route in routes],
                        "chunks": [route.ids_per_chunk for route in routes],
                    },
                    about={"unit": self._goodness.unit, "path": routes[0].path, "provenance": provenance},
                    centred=self._options.center,
                    bar=bar,
                )
            else:
                result = self._pairs(opened, routes, wanted, bar)
        warn_of_nan(result)
        return result

    def _pairs(self, queries: list[Batch], routes: list[Route], ids: Tensor, bar: Progress) -> Scores:
        values = np.empty((len(ids), len(queries)), np.float32)
        errors = np.empty_like(values) if len(routes) > 1 else None
        offsets, nulls = [], []
        for start, block in self._blocks(queries, routes):
            columns = slice(start, start + len(block.offset))
            offsets.append(block.offset)
            nulls.append(block.null)
            for tile, (mean, stderr) in self._tiles(block, ids):
                values[tile.start : tile.stop, columns] = mean
                if errors is not None:
                    errors[tile.start : tile.stop, columns] = stderr
                bar.add(mean.size)
        bar.close()
        null = np.concatenate(nulls, 1)
        return Scores(
            values=values,
            ids=ids.numpy(),
            queries=_names(queries),
            unit=self._goodness.unit,
            stderr=errors,
            offset=np.concatenate(offsets) if self._options.center else None,
            null=null,
            path=routes[0].path,
            replicas=len(routes),
            provenance=self._provenance(queries, ids),
        )

    def mean(
        self, queries: Any, *, ids: Any = None, at_label: AtLabel | None = None, progress: bool | None = None
    ) -> Scores:
        """Return Scores [instances]: the mean influence of each training instance on a set of queries."""
        wanted = self._ids(ids)
        with evaluating(self._members):
            opened, routes = self._open(queries, at_label, wanted)
            bar = Progress(len(wanted) * len(opened), progress, "pairs")
            sums = np.zeros((len(routes), len(wanted)))
            null_sums = np.zeros((len(routes), NULL_IDS))
            offset = 0.0
            for _, block in self._blocks(opened, routes):
                null_sums += block.member_nulls.sum(2)
                offset += float(block.offset.sum())
                for start in range(0, len(wanted), IDS_PER_TILE):
                    part = block.members(wanted[start : start + IDS_PER_TILE])
                    sums[:, start : start + part.shape[1]] += part.sum(2)
                    bar.add(part[0].size)
            bar.close()
            values, errors = average((sums / len(opened)).astype(np.float32))
            null = (null_sums / len(opened)).mean(0).astype(np.float32)
            result = Scores(
                values=values,
                ids=wanted.numpy(),
                queries=None,
                unit=self._goodness.unit,
                stderr=errors,
                offset=np.float32(offset / len(opened)) if self._options.center else None,
                null=null,
                path=routes[0].path,
                replicas=len(routes),
                provenance=self._provenance(opened, wanted),
            )
        warn_of_nan(result)
        return result

    def top(
        self,
        queries: Any,
        *,
        k: int = 10,
        ids: Any = None,
        labels: Any = None,
        label: Any = None,
        exclude: Any = None,
        at_label: AtLabel | None = None,
        progress: bool | None = None,
    ) -> Top:
        """Return the k most helpful and the k most harmful instances of each query; not all pairs are ever held.

        Args:
            queries: as for `pairwise`.
            k: how many of each.
            ids: which instances; None: all of `train`.
            labels: the label of each instance, in the order of `ids`; None: those of `train`.
            label: only instances of this label, or "predicted": of the label that the full network gives the query.
            exclude: ids to leave out.
            at_label: as for `pairwise`.
            progress: as for `pairwise`.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InfluenceError(f"k={k!r} is no number of instances. Give an integer of at least 1: k=10.")
        wanted = self._ids(ids)
        if exclude is not None:
            wanted = wanted[~torch.isin(wanted, as_ids(exclude))]
        kept_labels = self._labels(labels, label, ids, exclude)
        with evaluating(self._members):
            opened, routes = self._open(queries, at_label, wanted)
            only = self._only_labels(label, opened, routes)
            bar = Progress(len(wanted) * len(opened), progress, "pairs")
            tops, names = [], _names(opened)
            for start, block in self._blocks(opened, routes):
                best: Top | None = None
                for tile, (mean, stderr) in self._tiles(block, wanted):
                    if only is not None:
                        chosen = only[None, start : start + mean.shape[1]]
                        mean = np.where(kept_labels[tile.start : tile.stop, None] == chosen, mean, np.nan)
                    some = Scores(
                        values=mean,
                        ids=wanted[tile.start : tile.stop].numpy(),
                        queries=names[start : start + mean.shape[1]],
                        unit=self._goodness.unit,
                        stderr=stderr,
                        null_spread=spread_of(block.null),
                        path=routes[0].path,
                        replicas=len(routes),
                    ).top(k)
                    best = some if best is None else Top.merge(best, some)
                    bar.add(mean.size)
                if best is not None:
                    tops.append(best)
            bar.close()
        return Top.concat(tops)

    def null(self, queries: Any, *, n: int = NULL_IDS, at_label: AtLabel | None = None) -> Scores:
        """Return Scores [n, queries] of ids that were never trained: what pure noise looks like."""
        return self._without_train().pairwise(queries, ids=null_ids(n), at_label=at_label, progress=False)

    # Questions about training rows

    def self_influence(self, data: Any = None, *, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to its own prediction, in one pass over the data.

        With `center` the mean score of never-trained ids, one on each row, is subtracted from all; their spread is the
        standard error of a single model.
        """
        rows = self._data(data)
        bar = Progress(rows.length, progress, "rows")
        ids, values, nulls = [], [], []
        with evaluating(self._members):
            works = self._works()
            done = 0
            for batch, some in check_ids(rows.batches()):
                other = null_for(len(some), done)
                values.append([self_scores(w, batch.to(w.member.device), some).numpy() for w in works])
                nulls.append([self_scores(w, batch.to(w.member.device), other).numpy() for w in works])
                ids.append(some)
                done += len(some)
                bar.add(len(some))
        bar.close()
        if not ids:
            raise InfluenceError("there are no rows: the data is empty.")
        member_nulls = np.concatenate(nulls, 1)
        offsets = member_nulls.astype(np.float64).mean(1).astype(np.float32)
        if not self._options.center:
            offsets = np.zeros_like(offsets)
        mean, stderr = average(np.concatenate(values, 1) - offsets[:, None])
        null = (member_nulls - offsets[:, None]).mean(0)
        result = Scores(
            values=mean,
            ids=torch.cat(ids).numpy(),
            queries=None,
            unit=self._goodness.unit,
            stderr=stderr,
            offset=offsets.mean() if self._options.center else None,
            null=null,
            path="both views of each row",
            replicas=len(self._members),
            provenance=self._provenance([], torch.cat(ids)),
        )
        warn_of_nan(result)
        return result

    def out_of_sample(
        self, data: Any = None, *, predict: Callable[[Tensor], Tensor] | None = None, progress: bool | None = None
    ) -> OutOfSample:
        """Return predictions of every row by the part of the network that never saw it.

        Args:
            data: rows with ids; None: `train`.
            predict: maps outputs to predictions; None: softmax over the last dimension.
            progress: show a bar; None: on a terminal.
        """
        rows = self._data(data)
        turn = predict or (lambda outputs: functional.softmax(outputs.float(), -1))
        bar = Progress(rows.length, progress, "rows")
        ids, replicas, labels = [], [], []
        with evaluating(self._members):
            works = self._works()
            for batch, some in check_ids(rows.batches()):
                outputs = [turn(unseen_outputs(w, batch.to(w.member.device), some)) for w in works]
                replicas.append(torch.stack([o.float().cpu() for o in outputs]).numpy())
                ids.append(some)
                labels.append(batch.target)
                bar.add(len(some))
        bar.close()
        if not ids:
            raise InfluenceError("there are no rows: the data is empty.")
        predictions = np.concatenate(replicas, 1)
        return OutOfSample(
            replicas=predictions,
            ids=torch.cat(ids).numpy(),
            labels=class_labels(labels, predictions.shape[-1]),
            path="flipped view of each row",
            provenance=self._provenance([], torch.cat(ids)),
        )

    # Inside

    def _without_train(self) -> "Influence":
        twin = object.__new__(Influence)
        twin.__dict__.update(self.__dict__, _train=None)
        return twin

    def _works(self) -> list[Pass]:
        return [
            Pass(m, self._goodness, self._options.against, site_numbers(m, self._options.sites), self._options.dtype)
            for m in self._members
        ]

    def _ids(self, ids: Any) -> Tensor:
        if ids is None:
            if self._train is None:
                raise InfluenceError(
                    "which instances? Give ids=..., or the training data: Influence(model, train=data)."
                )
            return self._train.ids
        wanted = as_ids(ids).cpu()
        if self._train is not None:
            self._train.check_known(wanted)
        return wanted

    def _data(self, data: Any) -> TrainRows:
        if data is not None:
            return TrainRows(data, self._targets)
        if self._train is None:
            raise InfluenceError("which rows? Give the data with ids, or Influence(model, train=data).")
        return self._train

    def _open(self, queries: Any, at_label: AtLabel | None, ids: Tensor) -> tuple[list[Batch], list[Route]]:
        """Return the queries with their targets and how each model is asked; what can fail, fails here."""
        if at_label not in (None, "given", "predicted"):
            raise InfluenceError(f"at_label={at_label!r} is unknown. Give 'given' or 'predicted'.")
        if len(ids) == 0:
            raise InfluenceError("no instances are left to score. Give at least one id.")
        device = self._members[0].device
        opened = single_queries(queries, targets=self._targets, device=device)
        works = self._works()
        missing = opened[0].target is None
        if missing and at_label == "given":
            raise InfluenceError("the queries have no targets. Give (x, y), or at_label='predicted'.")
        if missing or at_label == "predicted":
            opened = [predicted(works[0], query) for query in opened]
        routes = [find_route(m, self._goodness, self._options, opened[0], ids) for m in self._members]
        return opened, routes

    def _blocks(self, queries: list[Batch], routes: list[Route]) -> Iterator[tuple[int, Block]]:
        """Yield blocks of queries with their place."""
        for start in range(0, len(queries), QUERIES_PER_BLOCK):
            yield start, self._block(queries, routes, start)

    def _block(self, queries: list[Batch], routes: list[Route], start: int) -> Block:
        """Return the block of queries that begins at a place."""
        return Block(routes, queries[start : start + QUERIES_PER_BLOCK], center=self._options.center)

    def _tiles(self, block: Block, ids: Tensor) -> Iterator[tuple[Tile, tuple[np.ndarray, np.ndarray | None]]]:
        """Yield the scores of one block, tile by tile."""
        tiles = [Tile(start, min(start + IDS_PER_TILE, len(ids))) for start in range(0, len(ids), IDS_PER_TILE)]
        work = self._executor.map(lambda tile: block.mean_and_stderr(ids[tile.start : tile.stop]), tiles)
        yield from zip(tiles, work, strict=True)

    def _labels(self, labels: Any, label: Any, ids: Any, exclude: Any) -> np.ndarray:
        """Return the labels of the instances that are left, or nothing where no label is asked for."""
        if label is None:
            return np.empty(0)
        everyone = self._ids(ids)
        if labels is None:
            if self._train is None:
                raise InfluenceError(
                    "label= needs the labels of the instances. Give labels=[...] or Influence(train=data)."
                )
            found = self._train.labels_of(everyone)
        else:
            found = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
        if len(found) != len(everyone):
            raise InfluenceError(
                f"{len(found)} labels for {len(everyone)} instances. Give one label for each, in their order."
            )
        return found if exclude is None else found[~torch.isin(everyone, as_ids(exclude)).numpy()]

    def _only_labels(self, label: Any, queries: list[Batch], routes: list[Route]) -> np.ndarray | None:
        """Return the label that instances must have, one a query."""
        if label is None:
            return None
        if isinstance(label, str) and label == "predicted":
            return np.array([int(predicted(routes[0].work, query).target) for query in queries])
        return np.full(len(queries), label)

    def _provenance(self, queries: Sequence[Batch], ids: Tensor) -> dict[str, Any]:
        return {
            "turnover": turnover.__version__,
            "recipes": [m.masking.recipe.to_json() for m in self._members],
            "weights": [m.digest() for m in self._members],
            "options": self._options.as_data(),
            "measure": call_description(self._goodness.measure),
            "loss": call_description(self._goodness.loss),
            "ids": fingerprint_of(ids),
            "queries": fingerprint_of([(q.args, q.kwargs, q.target) for q in queries]),
        }


def _names(queries: Sequence[Batch]) -> tuple[int | str, ...]:
    """Return the name of each query: its id where all have one of their own, else its place."""
    ids = [int(query.ids[0]) for query in queries if query.ids is not None]
    return tuple(ids) if len(set(ids)) == len(queries) else tuple(range(len(queries)))
