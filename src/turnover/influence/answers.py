"""Answers to a question: every pair, the mean over queries, or the top of each query."""

import numpy as np

from turnover.scores import Scores, Top

from .options import NULL_IDS
from .pairs import FEWEST_MEMBERS, average, spread_of
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
        **question.about,
    )


def mean_over_queries(question: Question, bar: Progress) -> Scores:
    """Return Scores [instances], averaged over queries within each member first."""
    count = len(question.queries)
    sums = np.zeros((len(question.routes), len(question.ids)))
    null_sums = np.zeros((len(question.routes), NULL_IDS))
    offset = 0.0
    for _, block in question.blocks():
        null_sums += block.member_nulls.sum(2)
        offset += float(block.offset.sum())
        for rows, members in question.tiles(block):
            sums[:, rows] += members.sum(2)
            bar.add(members[0].size)
    values, errors = average((sums / count).astype(np.float32))
    return Scores(
        values=values,
        ids=question.ids.numpy(),
        stderr=errors,
        offset=np.float32(offset / count) if question.options.center else None,
        null=(null_sums / count).mean(0).astype(np.float32),
        **question.about,
    )


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
    for columns, block in question.blocks():
        parts: list[Top] = []
        for rows, members in question.tiles(block):
            values, errors = average(members)
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
    return Top.concat(tops)
