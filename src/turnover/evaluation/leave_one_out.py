"""Correlation of scores with what leaving one row out really does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.scores import Scores

from .correlation import Floats, pearson, spearman
from .intervals import Bootstrap, Interval, drawn, interval_of, mean_of_known
from .matrix import AnyScores, matrix_of, numbers_of

_FEWEST = 3


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
        leave_one_out_scores: Scores; a list of Scores, one a seed; or an array [rows, queries] or [seeds, rows,
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
        given = np.arange(len(numbers_of(scores, "scores"))) if ids is None else ids
        scores = Scores(numbers_of(scores, "scores"), ids=given)
    values = matrix_of(scores, ids=ids if rows is None else rows)
    if values.shape != truths.shape[1:]:
        raise ScoresError(
            f"scores are {list(values.shape)} and leave-one-out scores {list(truths.shape[1:])}. Give the same rows "
            "and queries."
        )
    if len(values) < _FEWEST:
        raise ScoresError(f"{len(values)} rows were left out. Leave out at least {_FEWEST}, one at a time.")
    how = bootstrap or Bootstrap()
    return LeaveOneOutCorrelation(
        pearson=_correlation(pearson, values, truths, how),
        spearman=_correlation(spearman, values, truths, how),
        rows=len(values),
        seeds=len(truths),
    )


def _truths(given: Any, ids: ArrayLike | None) -> tuple[Floats, np.ndarray | None]:
    """Return leave-one-out scores as [seeds, rows, queries], and the ids of the rows where they are known."""
    if isinstance(given, Scores):
        return matrix_of(given, ids=given.ids, name="leave-one-out scores")[None], given.ids
    if isinstance(given, list | tuple) and given and all(isinstance(one, Scores) for one in given):
        rows = given[0].ids
        parts = [matrix_of(one, ids=rows, name="leave-one-out scores") for one in given]
        if len({part.shape for part in parts}) > 1 or any(len(one.ids) != len(rows) for one in given):
            raise ScoresError("leave-one-out scores of the seeds differ in rows or queries. Give the same for all.")
        return np.stack(parts), rows
    values = numbers_of(given, "leave-one-out scores")
    if values.ndim == 3 and len(values):
        return np.stack([matrix_of(one, ids=ids, name="leave-one-out scores") for one in values]), None
    return matrix_of(values, ids=ids, name="leave-one-out scores")[None], None


def _correlation(measure: Any, values: Floats, truths: Floats, how: Bootstrap) -> Correlation:
    def per_query(truth: Floats) -> Floats:
        result = measure(values, truth)
        # A method without an answer must not gain by it: see the linear datamodeling score.
        result[(np.ptp(values, 0) == 0) & (np.ptp(truth, 0) > 0)] = 0.0
        return result

    each = per_query(truths.mean(0))
    if np.isnan(each).all():
        raise ScoresError("leaving rows out changes nothing for any query; there is nothing to compare with.")

    def anew(rng: np.random.Generator) -> float:
        # One seed says nothing about seeds; queries are drawn all the same.
        result = per_query(truths[drawn(rng, len(truths))].mean(0)) if len(truths) > 1 else each
        return mean_of_known(result[drawn(rng, len(each))])

    single = len(each) == 1 and len(truths) == 1
    return Correlation(
        mean=mean_of_known(each),
        interval=Interval(np.nan, np.nan, how.level) if single else interval_of(anew, how),
        pooled=float(measure(values.ravel(), truths.mean(0).ravel())),
        per_query=each,
        per_seed=np.array([mean_of_known(per_query(truth)) for truth in truths]),
    )
