"""Correlation of scores with leave-one-out retraining."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.evaluation import (
    AnyScores,
    Bootstrap,
    Floats,
    Interval,
    correlation_or_zero,
    drawn,
    interval_of,
    matrix_of,
    mean_of_known,
    numbers_of,
    pearson,
    spearman,
)
from turnover.scores import Scores

_MIN_ROWS = 3


@dataclass(frozen=True)
class Correlation:
    """One kind of correlation with leave-one-out retraining.

    Attributes:
        mean: over queries, with the scores of retraining averaged over seeds.
        interval: bootstrap interval of the mean, over queries and seeds.
        pooled: of all pairs of row and query at once.
        per_query: of every query, over the rows; NaN where retraining changes nothing.
        per_seed: mean over queries, with one seed's retraining each.
    """

    mean: float
    interval: Interval
    pooled: float
    per_query: Floats
    per_seed: Floats


@dataclass(frozen=True)
class LeaveOneOutCorrelation:
    """How well scores agree with retraining.

    Attributes:
        pearson: of the values: right up to a scale and an offset.
        spearman: of the ranks.
        rows: how many rows were left out, one at a time.
        seeds: over how many seeds retraining was averaged.
    """

    pearson: Correlation
    spearman: Correlation
    rows: int
    seeds: int


def loo_correlation(
    scores: AnyScores,
    leave_one_out_scores: AnyScores | Sequence[Scores],
    *,
    ids: ArrayLike | None = None,
    bootstrap: Bootstrap | None = None,
) -> LeaveOneOutCorrelation:
    """Return Pearson's and Spearman's correlation of scores with leave-one-out retraining.

    Args:
        scores: [rows, queries].
        leave_one_out_scores: Scores; a list of Scores, one per seed; or an array [rows, queries] or [seeds, rows,
            queries]. Scores may be of a part of the rows: those rows are compared.
        ids: instance id of every row of a plain array; None: row numbers.
        bootstrap: how intervals are made; None: 1,000 draws, 95 %.

    Raises:
        ScoresError: ids or shapes do not fit, or fewer than 3 rows were left out.

    Example:
        >>> truth = np.random.default_rng(0).normal(size=(30, 4))
        >>> round(loo_correlation(2 * truth + 1, truth).pearson.mean, 6)
        1.0
    """
    truths, rows = _truths(leave_one_out_scores, ids)
    if rows is not None and not isinstance(scores, Scores):
        numbers = numbers_of(scores)
        scores = Scores(numbers, ids=np.arange(len(numbers)) if ids is None else ids)
    values = matrix_of(scores, ids=ids if rows is None else rows)
    if values.shape != truths.shape[1:]:
        raise ScoresError(
            f"scores are {list(values.shape)} and leave-one-out scores {list(truths.shape[1:])}. Give the same rows "
            "and queries."
        )
    if len(values) < _MIN_ROWS:
        raise ScoresError(f"{len(values)} rows were left out. Leave out at least {_MIN_ROWS}, one at a time.")
    bootstrap = bootstrap or Bootstrap()
    return LeaveOneOutCorrelation(
        pearson=_correlation(pearson, values, truths, bootstrap),
        spearman=_correlation(spearman, values, truths, bootstrap),
        rows=len(values),
        seeds=len(truths),
    )


def _truths(scores: Any, ids: ArrayLike | None) -> tuple[Floats, np.ndarray | None]:
    """Return leave-one-out scores as [seeds, rows, queries], and the ids of the rows where they are known."""
    name = "leave-one-out scores"
    if isinstance(scores, Scores):
        return matrix_of(scores, ids=scores.mask_ids, name=name)[None], scores.mask_ids
    if isinstance(scores, list | tuple) and scores and all(isinstance(of_seed, Scores) for of_seed in scores):
        rows = scores[0].mask_ids
        parts = [matrix_of(of_seed, ids=rows, name=name) for of_seed in scores]
        if len({part.shape for part in parts}) > 1 or any(len(of_seed.mask_ids) != len(rows) for of_seed in scores):
            raise ScoresError("leave-one-out scores of the seeds differ in rows or queries. Give the same for all.")
        return np.stack(parts), rows
    values = numbers_of(scores)
    if values.ndim == 3 and len(values):
        return np.stack([matrix_of(of_seed, ids=ids, name=name) for of_seed in values]), None
    return matrix_of(values, ids=ids, name=name)[None], None


def _correlation(
    measure: Callable[[Floats, Floats], Floats], values: Floats, truths: Floats, bootstrap: Bootstrap
) -> Correlation:
    per_query = correlation_or_zero(measure, values, truths.mean(0))
    if np.isnan(per_query).all():
        raise ScoresError("leaving rows out changes nothing for any query; there is nothing to compare with.")

    def of_sample(rng: np.random.Generator) -> float:
        # One seed says nothing about seeds; queries are drawn all the same.
        result = per_query
        if len(truths) > 1:
            result = correlation_or_zero(measure, values, truths[drawn(rng, len(truths))].mean(0))
        return mean_of_known(result[drawn(rng, len(per_query))])

    single = len(per_query) == 1 and len(truths) == 1
    return Correlation(
        mean=mean_of_known(per_query),
        interval=Interval(np.nan, np.nan, bootstrap.level) if single else interval_of(of_sample, bootstrap),
        pooled=float(measure(values.ravel(), truths.mean(0).ravel())),
        per_query=per_query,
        per_seed=np.array([mean_of_known(correlation_or_zero(measure, values, truth)) for truth in truths]),
    )
