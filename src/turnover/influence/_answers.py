"""Answers to a question about pairs: every pair, in memory or in a folder; the mean over queries; the top of each."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from turnover.errors import InfluenceError, TurnOverWarning
from turnover.scores import Scores, Top, finish_store
from turnover.storage import ArraySpec, TileStore, TileWriter

from ._question import Question
from .blocks import Part, Tile, average, finite_mean, joined_nulls, null_of, spread_of
from .estimate import KeepsRows
from .execution import is_remote, threads_of
from .paths import with_predicted_target

_IDS_PER_STORED_TILE = 4096
_SHOWN = 5


def every_pair(question: Question, bar: Any) -> Scores:
    """Return Scores [instances, queries], held in memory."""
    values = np.empty((len(question.ids), len(question.queries)), np.float32)
    errors = np.empty_like(values) if question.has_errors else None
    offsets, nulls = [], []
    for columns, block in question.blocks(bar):
        offsets.append(block.offset)
        nulls.append(null_of(block))
        for part, (mean, stderr) in question.tiles(block, _mean_of, bar):
            values[part.rows, columns] = mean
            if errors is not None:
                errors[part.rows, columns] = stderr
    null = joined_nulls(nulls)
    return Scores(
        values=values,
        **question.instances,
        queries=question.names,
        stderr=errors,
        offset=np.concatenate(offsets) if question.is_centered else None,
        null=null,
        null_spread=spread_of(null),
        **question.about,
    )


def _mean_of(part: Part, tile: Tile) -> tuple[np.ndarray, np.ndarray | None]:
    return tile.mean


def store_pairs(folder: str | os.PathLike[str], question: Question, bar: Any) -> Scores:
    """Compute what a folder still lacks and return its scores, which are read when they are used.

    Pairs are written tile by tile, so that an interrupted run is resumed. All that determines the bytes is fixed in the
    folder's identity before the first tile: models, data, options, the paths, chunk and tile geometry and the number
    of threads.
    """
    shape = (len(question.ids), len(question.queries))
    tile = (min(_IDS_PER_STORED_TILE, shape[0]), min(question.estimate.queries_per_block, shape[1]))
    spec = ArraySpec(shape=shape, dtype="float32", tile=tile)
    arrays = {"values": spec, "stderr": spec} if question.has_errors else {"values": spec}
    identity = {
        **question.provenance,
        "paths": [route.path for route in question.routes],
        "chunks": [route.ids_per_chunk for route in question.routes],
        "memory": question.options.memory,
        "threads": threads_of(question.executor),
    }
    if question.routes:
        identity["nulls"] = question.nulls
    with TileStore.open_for_writing(folder, identity=identity, arrays=arrays) as store:
        if not store.complete:
            if is_remote(question.executor):
                question.executor.check_folder(str(store.folder))
            if question.kept is not None and question.options.estimator.keeps_fit:
                question.kept.write(question.estimate.arrays())
            pending = _pending(store)
            question = _with_rows(question, blocks=len(pending))
            ends, failed = _fill(store, question, pending, bar)
            if failed[0]:
                shown = question.instance_names.shown(question.ids.numpy())
                _warn_of_failed(*failed, shown, question.names, question.pairs)
            for start in range(0, shape[1], tile[1]):
                if start not in ends:  # a block that an earlier run finished
                    block = question.block(start, bar)
                    ends[start] = null_of(block), block.offset
            nulls, offsets = zip(*(ends[start] for start in sorted(ends)), strict=True)
            finish_store(
                store,
                **question.instances,
                queries=question.names,
                null=joined_nulls(nulls),
                offset=np.concatenate(offsets) if question.is_centered else None,
                **question.about,
            )
            if isinstance(question.estimate, KeepsRows):
                question.estimate.remove_rows()
    return Scores.open(folder)


def _pending(store: TileStore) -> dict[int, list[tuple[int, slice]]]:
    """Return the tiles that are not done, their numbers and rows, by the first column of their block of queries."""
    pending: dict[int, list[tuple[int, slice]]] = {}
    for number in store.pending():
        rows, columns = store.region("values", number)
        pending.setdefault(columns.start, []).append((number, rows))
    return pending


def _with_rows(question: Question, *, blocks: int) -> Question:
    """Return a question that keeps what it needs of rows where several blocks need it, and takes what is kept."""
    estimate = question.estimate
    if question.kept is None or not isinstance(estimate, KeepsRows):
        return question
    return replace(question, estimate=estimate.with_rows(question.kept, writes=blocks > 1))


def _fill(
    store: TileStore, question: Question, pending: dict[int, list[tuple[int, slice]]], bar: Any
) -> tuple[dict[int, tuple[np.ndarray | None, np.ndarray]], tuple[int, list[tuple[int, int]]]]:
    """Compute all pending tiles, one block of queries after the other.

    Return null and offset by a block's start; and how many scores are not finite, with the places of the first.
    """
    ends, count = {}, 0
    places: list[tuple[int, int]] = []
    for start, tiles in sorted(pending.items()):
        block = question.block(start, bar)
        ends[start] = null_of(block), block.offset
        for part, (checksums, (failed, first)) in question.tiles(block, _Written(store.writer), bar, tiles):
            store.mark(part.number, checksums)
            count += failed
            places += [(part.rows.start + row, start + column) for row, column in first]
    return ends, (count, places[:_SHOWN])


@dataclass(frozen=True)
class _Written:
    """Writes a tile where it was computed, and says what was written and where it is not finite."""

    writer: TileWriter

    def __call__(self, part: Part, tile: Tile) -> tuple[dict[str, str], tuple[int, list[list[int]]]]:
        mean, stderr = tile.mean
        arrays = {"values": mean} if stderr is None else {"values": mean, "stderr": stderr}
        return self.writer.write(part.number, arrays), _failed(mean)


def mean_over_queries(question: Question, bar: Any) -> Scores:
    """Return Scores [instances], averaged over queries within each member first."""
    members = len(question.forwards)
    sums, counts = np.zeros((2, members, len(question.ids)))
    null_sums, null_counts = np.zeros((2, members, question.nulls))
    offsets = []
    whole = question.estimate.mean_block(question.queries)
    for block in [whole] if whole is not None else (block for _, block in question.blocks(bar)):
        if block.member_nulls is not None:
            total, count = _over_queries(block.member_nulls)
            null_sums += total
            null_counts += count
        offsets.append(block.offset)
        for part, (total, count) in question.tiles(block, _finite_sums, bar):
            sums[:, part.rows] += total
            counts[:, part.rows] += count
    values, errors = average(_divided(sums, counts))
    null = finite_mean(_divided(null_sums, null_counts), 0).astype(np.float32) if question.estimate.keeps_null else None
    return Scores(
        values=values,
        **question.instances,
        stderr=errors,
        offset=np.float32(finite_mean(np.concatenate(offsets), 0)) if question.is_centered else None,
        null=null,
        null_spread=spread_of(null),
        **question.about,
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
    failed = 0
    about = {**question.about, "path": question.path}
    for columns, block in question.blocks(bar):
        null, best = null_of(block), []
        finish = _Best(
            k, labels, None if only is None else only[columns], question.names[columns], spread_of(null), about
        )
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
    return replace(Top.concat(tops), path=question.about["path"]).named(question.instance_names)


def _needed_labels(label: Any, labels: np.ndarray, question: Question) -> np.ndarray:
    """Return the label that instances must have, per query."""
    if isinstance(label, str) and label == "predicted":
        if labels.dtype.kind not in "biu":
            raise InfluenceError(
                "label='predicted' needs labels that are class numbers. Give labels=[...] as integers."
            )
        return np.array([int(with_predicted_target(question.forwards, query).target) for query in question.queries])
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


def warn_of_nan(scores: Scores) -> None:
    """Name queries and instances whose outputs were not numbers; all others are finished."""
    _warn_of_failed(*_failed(scores.values), scores.ids, scores.queries, scores.values.size)


def _failed(values: np.ndarray) -> tuple[int, list[list[int]]]:
    """Return how many values are not finite, and the places of the first."""
    places = np.argwhere(~np.isfinite(values))
    return len(places), places[:_SHOWN].tolist()


def _warn_of_failed(
    count: int,
    places: Sequence[Sequence[int]],
    ids: np.ndarray,
    queries: Sequence[int | str] | None,
    pairs: int,
) -> None:
    if not count:
        return
    named = [f"instance {ids[row]}" + (f" on query {queries[at[0]]!r}" if queries else "") for row, *at in places]
    more = f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
    warnings.warn(
        f"{count:,} of {pairs:,} scores are not finite: {', '.join(named)}{more}. The model's "
        "outputs or the loss were NaN or infinite there; all other scores are finished.",
        TurnOverWarning,
        stacklevel=4,
    )
