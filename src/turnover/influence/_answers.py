"""Answers to a question about pairs: every pair, in memory or in a folder; the mean over queries; the top of each."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from turnover.batches import Batch, batches_of
from turnover.errors import InfluenceError, TurnOverWarning
from turnover.ids import Name, Names
from turnover.scores import Scores, Top, finish_store
from turnover.storage import ArraySpec, KeptArrays, TileStore, TileWriter

from .ensemble import Ensemble
from .estimators import FEWEST_MEMBERS, Block, Blocks, Finish, Fitted, Part, Tile, average, finite_mean, spread_of
from .executors import is_remote, threads_of

AtLabel = Literal["given", "predicted"]

_IDS_PER_TILE = 8192
_IDS_PER_STORED_TILE = 4096
_SHOWN = 5


def open_queries(data: Any, ensemble: Ensemble, *, targets: str | None, at_label: AtLabel | None) -> list[Batch]:
    """Return every query as a batch of one, at the label that is asked about, or raise where there is none."""
    if at_label not in (None, "given", "predicted"):
        raise InfluenceError(f"at_label={at_label!r} is unknown. Give 'given' or 'predicted'.")
    batches = (batch.to(ensemble.whole[0].device) for batch in batches_of(data, targets=targets))
    queries = [batch.row(index) for batch in batches for index in range(batch.rows)]
    if not queries:
        raise InfluenceError("there are no queries: the data is empty. Give at least one row.")
    ensemble.measure.check_shifted(queries[0].kwargs.get("input_ids"), queries[0].target)
    missing = queries[0].target is None
    if missing and at_label == "given":
        raise InfluenceError("the queries have no targets. Give (x, y), or at_label='predicted'.")
    if missing or at_label == "predicted":
        return [replace(query, target=_predicted(ensemble, query)) for query in queries]
    return queries


def _predicted(ensemble: Ensemble, query: Batch) -> Tensor:
    outputs = [query.logits(member.model) for member in ensemble.members]
    if not all(isinstance(output, Tensor) and output.dim() > 1 for output in outputs):
        raise InfluenceError("at_label='predicted' needs class scores [rows, classes]. Give the queries targets.")
    return torch.stack([output.float() for output in outputs]).mean(0).argmax(-1)


@dataclass(frozen=True)
class Question:
    """What each of some instances does to each of some queries."""

    queries: Sequence[Batch]  # single queries
    ids: Tensor  # mask ids
    ensemble: Ensemble
    fitted: Fitted
    blocks: Blocks
    provenance: dict[str, Any]  # all that the scores depend on
    names: Names  # what instances are called

    @property
    def pairs(self) -> int:
        return len(self.ids) * self.blocks.count

    @property
    def query_names(self) -> tuple[Name, ...]:
        """Return the name of each query: its id where all have one of their own, else its place."""
        ids = [
            query.names[0] if query.names is not None else int(query.ids[0])
            for query in self.queries
            if query.ids is not None
        ]
        return tuple(ids) if len(set(ids)) == len(self.queries) else tuple(range(len(self.queries)))

    def about(self) -> dict[str, Any]:
        """Return what scores say of themselves."""
        unit, scaled = self.ensemble.measure.unit, self.blocks.standardized
        return {
            "unit": f"the usual effect on the {unit} of each query" if scaled else unit,
            "path": self.blocks.path,
            "replicas": self.ensemble.count,
            "provenance": self.provenance,
            "standardized": scaled,
        }

    def instances(self) -> dict[str, Any]:
        """Return ids of instances as scores take them: what users call them, and mask ids."""
        mask_ids = self.ids.numpy()
        return {"ids": self.names.shown(mask_ids), "mask_ids": mask_ids}

    def tiles(
        self, block: Block, finish: Finish, bar: Any, numbered: Sequence[tuple[int, slice]] | None = None
    ) -> Iterator[tuple[Part, Any]]:
        """Yield ranges of instances and what `finish` makes of their scores on one block.

        `numbered` are the ranges, each with the number of its tile; None: all instances.
        """
        if numbered is None:
            starts = range(0, len(self.ids), _IDS_PER_TILE)
            numbered = [(place, slice(at, min(at + _IDS_PER_TILE, len(self.ids)))) for place, at in enumerate(starts)]
        parts = [Part(number, rows, self.ids[rows]) for number, rows in numbered]
        for part, finished in zip(parts, block.tiles(parts, self.fitted.executor, finish), strict=True):
            yield part, finished
            bar.update(len(part.ids) * len(block.offset))


def _null_of(block: Block) -> np.ndarray | None:
    """Return the scores [nulls, queries] of null ids, averaged over members; None: there are none."""
    return None if block.member_nulls is None else finite_mean(block.member_nulls, 0).astype(np.float32)


def _joined(nulls: Sequence[np.ndarray | None]) -> np.ndarray | None:
    known = [null for null in nulls if null is not None]
    return np.concatenate(known, 1) if known else None


def every_pair(question: Question, bar: Any) -> Scores:
    """Return Scores [instances, queries], held in memory."""
    values = np.empty((len(question.ids), len(question.queries)), np.float32)
    errors = np.empty_like(values) if question.ensemble.count >= FEWEST_MEMBERS else None
    offsets, nulls = [], []
    for columns, block in question.blocks:
        offsets.append(block.offset)
        nulls.append(_null_of(block))
        for part, (mean, stderr) in question.tiles(block, _mean_of, bar):
            values[part.rows, columns] = mean
            if errors is not None:
                errors[part.rows, columns] = stderr
    null = _joined(nulls)
    return Scores(
        values=values,
        **question.instances(),
        queries=question.query_names,
        stderr=errors,
        offset=np.concatenate(offsets) if question.blocks.centered else None,
        null=null,
        null_spread=spread_of(null),
        **question.about(),
    )


def _mean_of(part: Part, tile: Tile) -> tuple[np.ndarray, np.ndarray | None]:
    return tile.mean


# In a folder


def kept_fit(folder: str | os.PathLike[str], provenance: dict[str, Any]) -> KeptArrays:
    """Return where a folder keeps what the estimator fitted: it depends on all but queries and ids."""
    fitted_on = {name: value for name, value in provenance.items() if name not in ("queries", "ids")}
    return KeptArrays(folder, "factors.npz", fitted_on)


def store_pairs(folder: str | os.PathLike[str], question: Question, bar: Any) -> Scores:
    """Compute what a folder still lacks and return its scores, which are read when they are used.

    Pairs are written tile by tile, so that an interrupted run is resumed. All that determines the bytes is fixed in the
    folder's identity before the first tile: models, data, options, paths, tile geometry and the number of threads.
    """
    shape = (len(question.ids), len(question.queries))
    tile = (min(_IDS_PER_STORED_TILE, shape[0]), min(question.blocks.step, shape[1]))
    spec = ArraySpec(shape=shape, dtype="float32", tile=tile)
    arrays = {"values": spec, "stderr": spec} if question.ensemble.count >= FEWEST_MEMBERS else {"values": spec}
    executor = question.fitted.executor
    identity = {
        **question.provenance,
        "path": question.blocks.path,
        "nulls": question.blocks.nulls,
        "memory": question.ensemble.memory,
        "threads": threads_of(executor),
    }
    with TileStore.open_for_writing(folder, identity=identity, arrays=arrays) as store:
        if not store.complete:
            if is_remote(executor):
                executor.check_folder(str(store.folder))
            if fitted := question.fitted.arrays():
                kept_fit(folder, question.provenance).write(fitted)
            nulls, offsets = _fill(store, question, bar)
            finish_store(
                store,
                **question.instances(),
                queries=question.query_names,
                null=_joined(nulls),
                offset=np.concatenate(offsets) if question.blocks.centered else None,
                **question.about(),
            )
    return Scores.open(folder)


def _fill(store: TileStore, question: Question, bar: Any) -> tuple[list[np.ndarray | None], list[np.ndarray]]:
    """Compute all pending tiles, one block of queries after the other; return null and offset of every block."""
    pending: dict[int, list[tuple[int, slice]]] = {}
    for number in store.pending():
        rows, columns = store.region("values", number)
        pending.setdefault(columns.start, []).append((number, rows))
    count, nulls, offsets = 0, [], []
    places: list[tuple[int, int]] = []
    for columns, block in question.blocks:
        nulls.append(_null_of(block))
        offsets.append(block.offset)
        if columns.start not in pending:
            continue
        written = question.tiles(block, _Written(store.writer), bar, pending[columns.start])
        for part, (checksums, (failed, first)) in written:
            store.mark(part.number, checksums)
            count += failed
            places += [(part.rows.start + row, columns.start + column) for row, column in first]
    if count:
        shown = question.names.shown(question.ids.numpy())
        _warn_of_failed(count, places[:_SHOWN], shown, question.query_names, question.pairs, stacklevel=5)
    return nulls, offsets


@dataclass(frozen=True)
class _Written:
    """Writes a tile where it was computed, and says what was written and where it is not finite."""

    writer: TileWriter

    def __call__(self, part: Part, tile: Tile) -> tuple[dict[str, str], tuple[int, list[list[int]]]]:
        mean, stderr = tile.mean
        arrays = {"values": mean} if stderr is None else {"values": mean, "stderr": stderr}
        return self.writer.write(part.number, arrays), _failed(mean)


# Means and lists


def mean_over_queries(question: Question, bar: Any) -> Scores:
    """Return Scores [instances], averaged over queries within each member first."""
    members = question.ensemble.count
    sums, counts = np.zeros((2, members, len(question.ids)))
    null_sums, null_counts = np.zeros((2, members, question.blocks.nulls))
    offsets = []
    for _, block in question.blocks:
        if block.member_nulls is not None:
            total, count = _over_queries(block.member_nulls)
            null_sums += total
            null_counts += count
        offsets.append(block.offset)
        for part, (total, count) in question.tiles(block, _finite_sums, bar):
            sums[:, part.rows] += total
            counts[:, part.rows] += count
    values, errors = average(_divided(sums, counts))
    null = finite_mean(_divided(null_sums, null_counts), 0).astype(np.float32) if question.blocks.nulls else None
    return Scores(
        values=values,
        **question.instances(),
        stderr=errors,
        offset=np.float32(finite_mean(np.concatenate(offsets), 0)) if question.blocks.centered else None,
        null=null,
        null_spread=spread_of(null),
        **question.about(),
    )


def _finite_sums(part: Part, tile: Tile) -> tuple[np.ndarray, np.ndarray]:
    return _over_queries(tile.members)


def _over_queries(members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sums and counts over the queries of scores [members, instances, queries]; failed pairs do not count."""
    finite = np.isfinite(members)
    return np.where(finite, members, 0).sum(2), finite.sum(2)


def _divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)


def top_of_each(question: Question, bar: Any, *, k: int, label: Any, labels: np.ndarray) -> Top:
    """Return the k most helpful and most harmful instances of each query, tile after tile.

    Instances must have this label among `labels`, or the "predicted" one of the query; None: any.
    """
    only = None if label is None else _needed_labels(label, labels, question)
    tops: list[Top] = []
    failed, about = 0, question.about()
    for columns, block in question.blocks:
        null, best = _null_of(block), []
        of_block = None if only is None else only[columns]
        finish = _Best(k, labels, of_block, question.query_names[columns], spread_of(null), about)
        for _, (top, wrong) in question.tiles(block, finish, bar):
            failed += wrong
            best = [Top.merge(*best, top)]
        tops += best if null is None else [part.against(null) for part in best]
    if failed:
        warnings.warn(
            f"{failed:,} of {question.pairs:,} scores are not finite and are skipped in the lists; `pairwise` names "
            "them.",
            TurnOverWarning,
            stacklevel=3,
        )
    return Top.concat(tops).named(question.names)


def _needed_labels(label: Any, labels: np.ndarray, question: Question) -> np.ndarray:
    """Return the label that instances must have, per query."""
    if isinstance(label, str) and label == "predicted":
        if labels.dtype.kind not in "biu":
            raise InfluenceError(
                "label='predicted' needs labels that are class numbers. Give labels=[...] as integers."
            )
        return np.array([int(_predicted(question.ensemble, query)) for query in question.queries])
    if not (labels == label).any():
        known = ", ".join(repr(one) for one in np.unique(labels)[:8].tolist())
        raise InfluenceError(f"no instance has the label {label!r}. There are {known}; or label='predicted'.")
    return np.full(len(question.queries), label)


@dataclass(frozen=True)
class _Best:
    """Keeps the k highest and lowest scores of each query in a tile, and counts those that are not finite."""

    k: int
    labels: np.ndarray
    only: np.ndarray | None  # the label that instances must have, per query of the block
    names: tuple[int | str, ...]
    spread: Any
    about: dict[str, Any]

    def __call__(self, part: Part, tile: Tile) -> tuple[Top, int]:
        values, errors = tile.mean
        failed = int((~np.isfinite(values)).sum())
        if self.only is not None:
            values = np.where(self.labels[part.rows, None] == self.only[None], values, np.nan)
        scores = Scores(
            values=values,
            ids=part.ids.numpy(),
            queries=self.names,
            stderr=errors,
            null_spread=self.spread,
            **self.about,
        )
        return scores.top(self.k), failed


# Scores that are not finite


def warn_of_nan(scores: Scores) -> None:
    """Name queries and instances whose outputs were not numbers; all others are finished."""
    count, places = _failed(scores.values)
    if count:
        _warn_of_failed(count, places, scores.ids, scores.queries, scores.values.size)


def _failed(values: np.ndarray) -> tuple[int, list[list[int]]]:
    places = np.argwhere(~np.isfinite(values))
    return len(places), places[:_SHOWN].tolist()


def _warn_of_failed(
    count: int,
    places: Sequence[Sequence[int]],
    ids: Any,
    queries: Sequence[Name] | None,
    pairs: int,
    *,
    stacklevel: int = 4,
) -> None:
    named = [f"instance {ids[row]}" + (f" on query {queries[at[0]]!r}" if queries else "") for row, *at in places]
    more = f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
    warnings.warn(
        f"{count:,} of {pairs:,} scores are not finite: {', '.join(named)}{more}. The model's outputs or the loss were "
        "NaN or infinite there; all other scores are finished.",
        TurnOverWarning,
        stacklevel=stacklevel,
    )
