"""Answers to a question: every pair, the mean over queries, or the top of each query."""

import numpy as np

from turnover.scores import Scores, Top

from .findings import warn_of_failed
from .options import NULL_IDS
from .pairs import FEWEST_MEMBERS, average, finite_mean, spread_of
from .progress import Progress
from .question import Question


def every_pair(question: Question, bar: Progress) -> Scores:
    """Return Scores [instances, queries], held in memory."""
    values = np.empty((len(question.ids), len(question.queries)), np.float32)
    errors = np.empty_like(values) if len(question.routes) >= FEWEST_MEMBERS else None
    offsets, nulls = [], []
    for columns, block in question.blocks():
        offsets.append(block.offset)
        nulls.append(block.null)
        for rows, members in question.tiles(block):
            values[rows, columns], spread = average(members)
            if errors is not None:
                errors[rows, columns] = spread
            bar.add(members[0].size)
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
    offsets = []
    for _, block in question.blocks():
        _add_finite(null_sums, null_counts, block.member_nulls)
        offsets.append(block.offset)
        for rows, members in question.tiles(block):
            _add_finite(sums[:, rows], counts[:, rows], members)
            bar.add(members[0].size)
    values, errors = average(_divided(sums, counts))
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
    for columns, block in question.blocks():
        parts: list[Top] = []
        for rows, members in question.tiles(block):
            values, errors = average(members)
            failed += int((~np.isfinite(values)).sum())
            if only is not None:
                values = np.where(labels[rows, None] == only[None, columns], values, np.nan)
            found = Scores(
                values=values,
                ids=question.ids[rows].numpy(),
                queries=question.names[columns],
                stderr=errors,
                null_spread=spread_of(block.null),
                **question.about,
            ).top(k)
            parts = [Top.merge(*parts, found)]
            bar.add(members[0].size)
        tops += parts
    warn_of_failed(failed, question.pairs)
    return Top.concat(tops)
