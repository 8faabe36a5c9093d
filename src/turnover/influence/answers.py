"""Answers to a question: every pair, the mean over queries, or the top of each query."""

from dataclasses import replace

import numpy as np

from turnover.scores import Scores, Top

from .estimate.denoise import DenoisedBlock
from .findings import warn_of_failed
from .options import NULL_IDS, null_ids
from .pairs import average, finite_mean, spread_of
from .progress import Progress
from .question import Question


def every_pair(question: Question, bar: Progress) -> Scores:
    """Return Scores [instances, queries], held in memory."""
    values = np.empty((len(question.ids), len(question.queries)), np.float32)
    errors = np.empty_like(values) if question.has_errors else None
    offsets, nulls = [], []
    for columns, block in question.blocks(bar):
        offsets.append(block.offset)
        nulls.append(block.null)
        for rows, tile in question.tiles(block):
            values[rows, columns], spread = average(tile.members, tile.errors)
            if errors is not None:
                errors[rows, columns] = spread
            bar.add(tile.size)
    return Scores(
        values=values,
        ids=question.ids.numpy(),
        queries=question.names,
        stderr=errors,
        offset=np.concatenate(offsets) if question.options.center else None,
        null=np.concatenate(nulls, 1),
        null_spread=spread_of(np.concatenate(nulls, 1)),
        **question.about,
    )


def mean_over_queries(question: Question, bar: Progress) -> Scores:
    """Return Scores [instances], averaged over queries within each member first."""
    sums, counts = np.zeros((2, len(question.routes), len(question.ids)))
    null_sums, null_counts = np.zeros((2, len(question.routes), NULL_IDS))
    offsets, noise = [], np.zeros(())
    for _, block in question.blocks(bar):
        _add_finite(null_sums, null_counts, block.member_nulls)
        offsets.append(block.offset)
        if isinstance(block, DenoisedBlock):
            noise = noise + block.mean_noise / len(question.queries)
        for rows, tile in question.tiles(block):
            _add_finite(sums[:, rows], counts[:, rows], tile.members)
            bar.add(tile.size)
    values, errors = average(_divided(sums, counts))
    if errors is None and question.denoising is not None:
        errors = question.denoising.errors_of_mean(question.ids, noise)
    null = finite_mean(_divided(null_sums, null_counts), 0).astype(np.float32)
    return Scores(
        values=values,
        ids=question.ids.numpy(),
        stderr=errors,
        offset=np.float32(finite_mean(np.concatenate(offsets), 0)) if question.options.center else None,
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


def top_of_each(question: Question, bar: Progress, *, k: int, labels: np.ndarray, only: np.ndarray | None) -> Top:
    """Return the k most helpful and most harmful instances of each query, tile after tile.

    Args:
        question: what was asked.
        bar: counts pairs.
        k: how many of each.
        labels: of the instances.
        only: the label that instances must have, one a query; None: any.
    """
    tops: list[Top] = []
    failed = 0
    told = {**question.about, "path": question.path}
    for columns, block in question.blocks(bar):
        parts: list[Top] = []
        for rows, tile in question.tiles(block):
            values, errors = average(tile.members, tile.errors)
            failed += int((~np.isfinite(values)).sum())
            if only is not None:
                values = np.where(labels[rows, None] == only[None, columns], values, np.nan)
            found = Scores(
                values=values,
                ids=question.ids[rows].numpy(),
                queries=question.names[columns],
                stderr=errors,
                null_spread=spread_of(block.null),
                **told,
            ).top(k)
            parts = [Top.merge(*parts, found)]
            bar.add(tile.size)
        tops += [part.against(block.null) for part in parts]
    warn_of_failed(failed, question.pairs)
    return replace(Top.concat(tops), path=question.about["path"])


def denoised_null(question: Question, count: int) -> Scores:
    """Return Scores [count, queries] of never-trained ids in the place of training instances, denoised alike."""
    bar = Progress(None, False, "pairs")
    blocks = [block for _, block in question.blocks(bar)]
    null = np.concatenate([block.null for block in blocks], 1)
    return Scores(
        values=null,
        ids=null_ids(count).numpy(),
        queries=question.names,
        offset=np.concatenate([block.offset for block in blocks]) if question.options.center else None,
        null=null if count > 1 else None,
        **question.about,
    )
