"""Answers to a question about pairs: every pair, in memory or in a folder; the mean over queries; the top of each."""

import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from turnover.batches import null_ids
from turnover.errors import TurnOverWarning
from turnover.scores import Scores, Top, finish_store
from turnover.storage import ArraySpec, TileStore

from ._question import Question
from .blocks import NULL_IDS, average, finite_mean, joined_nulls, null_of, spread_of
from .execution import progress_bar
from .paths import FORMER_PATHS

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
        for rows, tile in question.tiles(block, bar):
            values[rows, columns], stderr = tile.mean
            if errors is not None:
                errors[rows, columns] = stderr
    null = joined_nulls(nulls)
    return Scores(
        values=values,
        ids=question.ids.numpy(),
        queries=question.names,
        stderr=errors,
        offset=np.concatenate(offsets) if question.is_centered else None,
        null=null,
        null_spread=spread_of(null),
        **question.about,
    )


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
        "threads": torch.get_num_threads(),
    }
    with TileStore.open_for_writing(folder, identity=identity, arrays=arrays, former=FORMER_PATHS) as store:
        if not store.complete:
            if question.kept is not None and question.options.estimator.keeps_fit:
                question.kept.write(question.estimate.arrays())
            ends = _fill(store, question, bar)
            for start in range(0, shape[1], tile[1]):
                if start not in ends:  # a block that an earlier run finished
                    block = question.block(start, bar)
                    ends[start] = null_of(block), block.offset
            nulls, offsets = zip(*(ends[start] for start in sorted(ends)), strict=True)
            finish_store(
                store,
                ids=question.ids.numpy(),
                queries=question.names,
                null=joined_nulls(nulls),
                offset=np.concatenate(offsets) if question.is_centered else None,
                **question.about,
            )
    return Scores.open(folder)


def _fill(store: TileStore, question: Question, bar: Any) -> dict[int, tuple[np.ndarray | None, np.ndarray]]:
    """Compute all pending tiles, one block of queries after the other; return null and offset by a block's start."""
    pending: dict[int, list[tuple[int, slice]]] = {}
    for number in store.pending():
        rows, columns = store.region("values", number)
        pending.setdefault(columns.start, []).append((number, rows))
    ends = {}
    for start, tiles in sorted(pending.items()):
        block = question.block(start, bar)
        ends[start] = null_of(block), block.offset
        scored = question.tiles(block, bar, [rows for _, rows in tiles])
        for (number, _), (_, tile) in zip(tiles, scored, strict=True):
            mean, stderr = tile.mean
            store.write(number, {"values": mean} if stderr is None else {"values": mean, "stderr": stderr})
    return ends


def mean_over_queries(question: Question, bar: Any) -> Scores:
    """Return Scores [instances], averaged over queries within each member first."""
    members = len(question.forwards)
    sums, counts = np.zeros((2, members, len(question.ids)))
    null_sums, null_counts = np.zeros((2, members, NULL_IDS))
    offsets, noise = [], np.zeros(())
    whole = question.estimate.mean_block(question.queries)
    for block in [whole] if whole is not None else (block for _, block in question.blocks(bar)):
        if block.member_nulls is not None:
            _add_finite(null_sums, null_counts, block.member_nulls)
        offsets.append(block.offset)
        block_noise = block.mean_noise()
        if block_noise is not None:
            noise = noise + block_noise / len(question.queries)
        for rows, tile in question.tiles(block, bar):
            _add_finite(sums[:, rows], counts[:, rows], tile.members)
    values, errors = average(_divided(sums, counts))
    if errors is None:
        errors = question.estimate.errors_of_mean(question.ids, noise)
    null = finite_mean(_divided(null_sums, null_counts), 0).astype(np.float32) if question.estimate.keeps_null else None
    return Scores(
        values=values,
        ids=question.ids.numpy(),
        stderr=errors,
        offset=np.float32(finite_mean(np.concatenate(offsets), 0)) if question.is_centered else None,
        null=null,
        null_spread=spread_of(null),
        **question.about,
    )


def _add_finite(sums: np.ndarray, counts: np.ndarray, members: np.ndarray) -> None:
    """Add scores [members, instances, queries] up over queries; failed pairs do not count, as for `Scores.mean`."""
    finite = np.isfinite(members)
    sums += np.where(finite, members, 0).sum(2)
    counts += finite.sum(2)


def _divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)


def top_of_each(question: Question, bar: Any, *, k: int, labels: np.ndarray, only: np.ndarray | None) -> Top:
    """Return the k most helpful and most harmful instances of each query, tile after tile.

    `only` is the label that instances must have, per query; None: any.
    """
    tops: list[Top] = []
    failed = 0
    about = {**question.about, "path": question.path}
    for columns, block in question.blocks(bar):
        null, parts = null_of(block), []
        spread = spread_of(null)
        for rows, tile in question.tiles(block, bar):
            values, errors = tile.mean
            failed += int((~np.isfinite(values)).sum())
            if only is not None:
                values = np.where(labels[rows, None] == only[None, columns], values, np.nan)
            scores = Scores(
                values=values,
                ids=question.ids[rows].numpy(),
                queries=question.names[columns],
                stderr=errors,
                null_spread=spread,
                **about,
            )
            parts = [Top.merge(*parts, scores.top(k))]
        tops += parts if null is None else [part.against(null) for part in parts]
    if failed:
        warnings.warn(
            f"{failed:,} of {question.pairs:,} scores are not finite and are skipped in the lists; `pairwise` names "
            "them.",
            TurnOverWarning,
            stacklevel=3,
        )
    return replace(Top.concat(tops), path=question.about["path"])


def null_of_rows(question: Question, count: int) -> Scores:
    """Return Scores [count, queries] of null ids in the place of training instances, denoised alike."""
    blocks = [block for _, block in question.blocks(progress_bar(None, False, "pairs"))]
    null = joined_nulls([null_of(block) for block in blocks])
    assert null is not None
    return Scores(
        values=null,
        ids=null_ids(count).numpy(),
        queries=question.names,
        offset=np.concatenate([block.offset for block in blocks]) if question.is_centered else None,
        null=null if count > 1 else None,
        **question.about,
    )


def warn_of_nan(scores: Scores) -> None:
    """Name queries and instances whose outputs were not numbers; all others are finished."""
    bad = np.argwhere(~np.isfinite(scores.values))
    if not len(bad):
        return
    named = [
        f"instance {scores.ids[place[0]]}" + (f" on query {scores.queries[place[1]]!r}" if scores.queries else "")
        for place in bad[:_SHOWN]
    ]
    more = f" and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    warnings.warn(
        f"{len(bad):,} of {scores.values.size:,} scores are not finite: {', '.join(named)}{more}. The model's "
        "outputs or the loss were NaN or infinite there; all other scores are finished.",
        TurnOverWarning,
        stacklevel=3,
    )
