"""Passes over the training rows, a segment at a time: what each adds, as tasks that any process can run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from turnover.batches import Batch
from turnover.errors import InfluenceError
from turnover.influence._rows import Segment, TrainRows
from turnover.influence.estimators import Finish, Part, Tile
from turnover.influence.executors import Executor, LocalExecutor, is_remote
from turnover.layers import map_tensors

from ._calibration import TEMPERATURES, FisherPart, Objectives, losses_by_temperature
from ._gradients import LayerRun, Network
from ._kronecker import BatchSums, LayerCurvature, LayerInverse, LayerQueries, LayerSums, Rotated

_NEXT_SEGMENT = 2**32  # between the seeds of segments: more than there are members and draws
_QUERIES_AT_ONCE = 64
_ROWS_AT_A_TIME = 1024  # of a task that scores rows: some megabytes of scores come back
AtLayers = dict[str, LayerQueries]
"""Some queries at every layer, by its path."""


@dataclass(frozen=True)
class Reader:
    """Reads training rows in batches of at most so many rows, with the place of each row's instance among all."""

    train: TrainRows
    rows_at_once: int

    def segments(self, rows: int, executor: Executor) -> Iterator[Segment]:
        return self.train.segments(self.rows_at_once, rows, streamed=isinstance(executor, LocalExecutor))

    def batches(self, segment: Segment) -> Iterator[tuple[Batch, np.ndarray]]:
        """Yield the batches of a segment and the places of their rows."""
        for batch in self.train.batches_of(segment, self.rows_at_once):
            whole = batch.rows <= self.rows_at_once or not batch.can_be_split
            for start in range(0, batch.rows, batch.rows if whole else self.rows_at_once):
                part = batch if whole else batch.part(start, start + self.rows_at_once)
                yield part, self.train.places(part)


@dataclass(frozen=True)
class Calibration:
    """The places of rows and, where a temperature is to be found, the losses of every network by temperature."""

    reader: Reader
    networks: Sequence[Network]

    def __call__(self, segment: Segment) -> tuple[np.ndarray, Tensor, int]:
        """Return places, losses [networks, 2, temperatures + 1], the number of classes."""
        all_places: list[np.ndarray] = []
        losses = torch.zeros(len(self.networks), 2, len(TEMPERATURES) + 1, dtype=torch.float64)
        classes = 0
        for batch, places in self.reader.batches(segment):
            all_places.append(places)
            for number, network in enumerate(self.networks):
                moved = batch.to(network.member.device)
                outputs = network.outputs(moved)
                classes = outputs.shape[-1]
                losses[number] += losses_by_temperature(outputs, moved.target)
        return np.concatenate(all_places), losses, classes


Sums = list[dict[str, LayerSums]]
"""What the curvature of every network's layers is made of."""


@dataclass(frozen=True)
class Factors:
    """The sums of a segment that the curvature of every network's layers is made of."""

    reader: Reader
    networks: Sequence[Network]
    objectives: Sequence[Objectives]
    parts: tuple[FisherPart, ...]  # of the Fisher matrix, a backward pass each
    seed: int

    def __call__(self, segment: Segment) -> Sums:
        """Return the sums over a segment, for every network by layer."""
        sums: Sums = [{} for _ in self.networks]
        start = self.seed + _NEXT_SEGMENT * segment.number
        # A generator for each: what is drawn for a row must not depend on how rows are cut into batches.
        drawn = [
            [
                partial(objective.fisher, part=part, generator=torch.Generator().manual_seed(start + seed))
                for seed, part in enumerate(self.parts, len(self.parts) * number)
            ]
            for number, objective in enumerate(self.objectives)
        ]
        for batch, _ in self.reader.batches(segment):
            first: dict[str, BatchSums] = {}
            for network, of_member, kept in zip(self.networks, drawn, sums, strict=True):
                moved = batch.to(network.member.device)
                added: dict[str, BatchSums] = {}
                for _, runs in network.runs(moved, of_member):
                    for name, run in runs.items():
                        if name not in kept:
                            layer = network.layers[name]
                            kept[name] = LayerSums(layer.num_embeddings if isinstance(layer, nn.Embedding) else None)
                        if name in added:
                            kept[name].add_gradients(run, added[name])
                        else:
                            added[name] = kept[name].add(run, first.get(name))
                first = first or added
        return sums


def joined(sums: Sums, others: Sums) -> Sums:
    """Return the sums over the rows of both, for every network by layer."""
    for one, other in zip(sums, others, strict=True):
        for name, part in other.items():
            one[name] = one[name] + part if name in one else part
    return sums


@dataclass(frozen=True)
class RowGradients:
    """One network, ready to give the gradients of training rows."""

    network: Network
    objectives: Objectives

    def gradients(self, batch: Batch) -> dict[str, LayerRun]:
        runs = self.network.gradients(batch.to(self.network.member.device), self.objectives.rows)
        return {name: run.with_gradient() for name, run in runs.items()}

    def scores(self, batch: Batch, queries: Sequence[AtLayers]) -> np.ndarray:
        """Return the scores [rows, queries] of training rows on queries with the inverse applied."""
        runs = self.gradients(batch)
        columns = [
            torch.stack([part.scores(runs[name]) for name, part in by_layer.items() if name in runs]).sum(0)
            for by_layer in queries
        ]
        return torch.cat(columns, 1).cpu().numpy()


@dataclass(frozen=True)
class FittedMember:
    """One network with the curvature of its layers and the dampings of its inverse."""

    rows: RowGradients
    layers: dict[str, LayerCurvature]
    damping: float
    mean_damping: float | None

    @cached_property
    def inverses(self) -> dict[str, LayerInverse]:
        return {name: LayerInverse(layer, self.damping) for name, layer in self.layers.items()}

    def applied(self, queries: Sequence[Batch]) -> list[AtLayers]:
        """Return queries with the inverse applied, a batch after the other."""
        batches = []
        for rotated in self._rotated(queries):
            factors = _factors(self.inverses, rotated)
            # What a layer was made of goes at once: with positions it is as large as what it is made into.
            batches.append({name: self.inverses[name].applied(rotated.pop(name), factors) for name in list(rotated)})
        return batches

    def applied_to_mean(self, queries: Sequence[Batch]) -> AtLayers:
        """Return the mean of all queries with the inverse applied, at both dampings where there are two."""
        means = [self.inverses]
        if self.mean_damping is not None:
            means.append({name: LayerInverse(layer, self.mean_damping) for name, layer in self.layers.items()})
        sums: list[dict[str, Tensor]] = [{} for _ in means]
        for rotated in self._rotated(queries):
            for inverses, whole in zip(means, sums, strict=True):
                factors = _factors(inverses, rotated) / (len(means) * len(queries))
                for name, part in rotated.items():
                    added = part.weighted_sum(factors, self.layers[name].tokens)
                    whole[name] = whole[name] + added if name in whole else added
        mean = {}
        for name in sums[0]:
            parts = [how[name].diagonal * part[name] for how, part in zip(means, sums, strict=True)]
            mean[name] = self.layers[name].as_query(torch.stack(parts).sum(0))
        return mean

    def own_scores(self, batch: Batch) -> Tensor:
        runs = self.rows.gradients(batch)
        return torch.stack(
            [self.layers[name].rotated(run).quadratic(self.inverses[name].diagonal) for name, run in runs.items()]
        ).sum(0)

    def _rotated(self, queries: Sequence[Batch]) -> Iterator[dict[str, Rotated]]:
        """Yield queries by layer, a batch at a time, in the eigenvectors of the curvature."""
        network = self.rows.network
        for batch in _batched(queries):
            runs = network.gradients(batch.to(network.member.device), self.rows.objectives.queries)
            yield {
                name: self.layers[name].rotated(run.with_gradient())
                for name, run in runs.items()
                if name in self.layers
            }


def _factors(inverses: dict[str, LayerInverse], rotated: dict[str, Rotated]) -> Tensor:
    squares = torch.stack([part.quadratic(inverses[name].expected) for name, part in rotated.items()]).sum(0)
    return torch.where(squares > 0, squares.clamp(min=torch.finfo(torch.float32).tiny).rsqrt(), 0.0)


def _batched(queries: Sequence[Batch]) -> Iterator[Batch]:
    """Yield single queries as larger batches, in their order, neighbors of the same shape together."""
    waiting: list[tuple[Batch, list[Any], Any]] = []
    form: Any = None
    for query in queries:
        leaves, structure = tree_flatten((query.args, query.kwargs, query.target))
        whole = query.can_be_split and all(isinstance(leaf, Tensor) for leaf in leaves)
        shape = (structure, [leaf.shape for leaf in leaves]) if whole else None
        if waiting and (shape is None or shape != form or len(waiting) == _QUERIES_AT_ONCE):
            yield _together(waiting)
            waiting = []
        waiting.append((query, leaves, structure))
        form = shape
    if waiting:
        yield _together(waiting)


def _together(queries: Sequence[tuple[Batch, list[Any], Any]]) -> Batch:
    if len(queries) == 1:
        return queries[0][0]
    leaves = [torch.cat(tensors) for tensors in zip(*(leaves for _, leaves, _ in queries), strict=True)]
    args, kwargs, target = tree_unflatten(leaves, queries[0][2])
    return Batch(args, kwargs, target, None, len(queries))


@dataclass(frozen=True)
class RowScores:
    """The scores of training rows on queries with the inverse curvature applied."""

    reader: Reader
    members: Sequence[RowGradients]
    queries: Sequence[Sequence[AtLayers]]  # of every member, a batch after the other
    chosen: np.ndarray | None = None  # which instances count, by their place; None: all of them

    def __call__(self, segment: Segment) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the places of rows and their scores [members, rows, queries], batch after batch."""
        found = []
        for batch, at in self.reader.batches(segment):
            inside = np.ones(len(at), bool) if self.chosen is None else self.chosen[at]
            if not inside.any():
                continue
            if not inside.all() and batch.can_be_split:
                batch, at = _rows_of(batch, inside), at[inside]
            pairs = zip(self.members, self.queries, strict=True)
            found.append((at, np.stack([member.scores(batch, queries) for member, queries in pairs])))
        return found


def _rows_of(batch: Batch, inside: np.ndarray) -> Batch:
    """Return some rows of a batch, all of whose tensors have rows."""
    chosen = torch.from_numpy(np.flatnonzero(inside))

    def cut(tensor: Tensor) -> Tensor:
        return tensor[chosen.to(tensor.device)] if tensor.dim() else tensor

    args, kwargs, target, ids = map_tensors((batch.args, batch.kwargs, batch.target, batch.ids), cut)
    return Batch(args, kwargs, target, ids, len(chosen))


class QueryBlock:
    """Queries with the inverse curvature applied, ready to score training rows in one pass, tile by tile."""

    member_nulls = None

    def __init__(
        self,
        reader: Reader,
        rows_of: np.ndarray,  # of each instance
        members: Sequence[FittedMember],
        queries: Sequence[Batch],
        *,
        of_mean: bool = False,
    ) -> None:
        self._reader, self._rows_of, self._members = reader, rows_of, members
        self._queries, self._of_mean = queries, of_mean
        self.offset = np.zeros(1 if of_mean else len(queries), np.float32)

    def tiles(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterator[Any]:
        """Yield what `finish` makes of each part of the instances, in their order: one pass over the training rows.

        Where tasks run in other processes and a part is a range of rows, the part is a task. Else tasks are ranges of
        rows, and their scores are added up here.
        """
        places = [self._reader.train.positions(part.ids) for part in parts]
        applied = [
            [member.applied_to_mean(self._queries)] if self._of_mean else member.applied(self._queries)
            for member in self._members
        ]
        score = RowScores(self._reader, [member.rows for member in self._members], applied)
        if is_remote(executor) and all(map(self._is_whole, places)):
            segments = [Segment(number, int(at[0]), int(at[-1]) + 1) for number, at in enumerate(places)]
            return executor.map(_FinishedRows(score, finish), list(zip(parts, segments, strict=True)))
        return self._added_up(score, parts, places, executor, finish)

    def _is_whole(self, places: np.ndarray) -> bool:
        """Tell whether instances are neighboring rows, one each, that begin and end where batches do."""
        rows, train = self._reader.rows_at_once, self._reader.train
        return (
            len(self._rows_of) == train.length
            and train.can_be_cut(rows)
            and bool((np.diff(places) == 1).all())
            and places[0] % rows == 0
            and (len(places) % rows == 0 or places[-1] + 1 == len(self._rows_of))
        )

    def _added_up(
        self, score: RowScores, parts: Sequence[Part], places: list[np.ndarray], executor: Executor, finish: Finish
    ) -> Iterator[Any]:
        waiting = [_Waiting(at, self._rows_of, (len(self._members), len(self.offset))) for at in places]
        chosen = np.zeros(len(self._rows_of), bool)
        together = np.concatenate([tile.places for tile in waiting])
        chosen[together] = True
        # An instance that was asked for twice may be in two tiles.
        order = np.argsort(together, kind="stable")
        together = together[order]
        owners = np.repeat(np.arange(len(waiting)), [len(tile.places) for tile in waiting])[order]
        segments = self._reader.segments(_ROWS_AT_A_TIME, executor)
        done = 0
        for at, scores in (batch for found in executor.map(replace(score, chosen=chosen), segments) for batch in found):
            first = np.searchsorted(together, at, "left")
            counts = np.searchsorted(together, at, "right") - first
            before = np.cumsum(counts) - counts
            for number in np.unique(owners[np.repeat(first - before, counts) + np.arange(counts.sum())]).tolist():
                waiting[number].add(at, scores)
            while done < len(waiting) and waiting[done].missing == 0:
                yield finish(parts[done], waiting[done].tile())
                done += 1
        if done < len(parts):
            raise InfluenceError(
                f"train showed fewer rows than when it was read before: {len(parts) - done} parts of the scores lack "
                "rows. Give data that can be read again and again, such as a Dataset."
            )


@dataclass(frozen=True)
class _FinishedRows:
    score: RowScores
    finish: Finish

    def __call__(self, item: tuple[Part, Segment]) -> Any:
        part, segment = item
        scores = np.concatenate([scores for _, scores in self.score(segment)], 1)
        return self.finish(part, Tile(scores + np.float32(0)))  # as a sum that begins with 0: of -0.0, too


class _Waiting:
    """A tile whose rows are being added up."""

    def __init__(self, asked: np.ndarray, rows_of: np.ndarray, shape: tuple[int, int]) -> None:
        self.places, back = np.unique(asked, return_inverse=True)
        self._back = back.reshape(-1)
        self.missing = int(rows_of[self.places].sum())
        self._shape = (shape[0], len(self.places), shape[1])
        self._sums = np.zeros(0, np.float32)  # made with the first rows: of a million instances few tiles are open

    def add(self, at: np.ndarray, scores: np.ndarray) -> None:
        """Add the scores [members, rows, queries] of rows at their places, as far as they belong here."""
        spot = np.minimum(np.searchsorted(self.places, at), len(self.places) - 1)
        mine = self.places[spot] == at
        if not len(self._sums):
            self._sums = np.zeros(self._shape, np.float32)
        spot = spot[mine]
        if len(np.unique(spot)) == len(spot):
            self._sums[:, spot] += scores[:, mine]
        else:  # rows of one instance meet: they add up, which plain indexing would not do
            np.add.at(self._sums.transpose(1, 0, 2), spot, scores[:, mine].transpose(1, 0, 2))
        self.missing -= int(mine.sum())

    def tile(self) -> Tile:
        sums, self._sums = self._sums, np.zeros(0, np.float32)
        return Tile(sums[:, self._back])
