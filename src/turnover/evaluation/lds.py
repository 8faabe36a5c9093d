"""The linear datamodeling score: do summed scores rank the losses of models trained on subsets of the rows?

For each query the scores of a subset's rows are added up and compared by rank with the loss that a model trained on
that subset has on the query (Park et al. 2023). Retraining is noisy, so that even the truth does not reach 1: the
ceiling says what it would reach.
"""

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError

from .statistics import (
    AnyScores,
    Bootstrap,
    Floats,
    Interval,
    correlation_or_zero,
    drawn,
    interval_of,
    matrix_of,
    mean_interval,
    mean_of_known,
    numbers_of,
    spearman,
)

_MIN_SUBSETS = 3


@dataclass(frozen=True)
class Ceiling:
    """What an attribution that knows the expected outcome of every subset would reach.

    Attributes:
        value: the linear datamodeling score it would have.
        interval: bootstrap interval over queries.
        between_seeds: mean rank correlation of one retraining of the subsets with another.
    """

    value: float
    interval: Interval
    between_seeds: float


@dataclass(frozen=True)
class LDS:
    """The linear datamodeling score of an attribution.

    Attributes:
        value: mean over queries; 1 for a perfect attribution, 0 for a random one.
        interval: bootstrap interval.
        per_query: rank correlation of every query; NaN where all subsets had the same outcome.
        ceiling: what retraining noise allows; None for a single retraining of each subset.
        subsets: how many.
        seeds: retrainings of each.
        unjudged: queries without a value, because their outcomes are all equal; the mean skips them.
        constant: queries for which the attribution predicts one value for all subsets; they count as 0.
    """

    value: float
    interval: Interval
    per_query: Floats
    ceiling: Ceiling | None
    subsets: int
    seeds: int
    unjudged: int
    constant: int


def lds(
    scores: AnyScores,
    subsets: ArrayLike,
    outcomes: ArrayLike,
    *,
    ids: ArrayLike | None = None,
    better: Literal["low", "high"] = "low",
    over: Literal["queries", "queries and subsets"] = "queries",
    bootstrap: Bootstrap | None = None,
) -> LDS:
    """Return the linear datamodeling score of scores, with its interval and its ceiling.

    Args:
        scores: [rows, queries], positive where a row helps; from turnover or from another library.
        subsets: bool [subsets, rows]: on which rows each model was trained.
        outcomes: [subsets, queries], or [seeds, subsets, queries] for several retrainings of each subset.
        ids: instance id of every row of the subsets; None: row numbers. Plain arrays are in this order already.
        better: which outcomes are better: "low" for losses, "high" for margins or probabilities.
        over: what the interval draws anew.
        bootstrap: how the interval is made; None: 1,000 draws, 95 %.

    Raises:
        ScoresError: shapes or ids do not fit, or there are fewer than 3 subsets.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> helps, subsets = rng.normal(size=(20, 4)), rng.random((50, 20)) < 0.5
        >>> lds(helps, subsets, -(subsets @ helps)).value  # losses that fall as the rows' help adds up
        1.0
    """
    bootstrap = bootstrap or Bootstrap()
    runs = _runs(outcomes)
    members = _membership(subsets, runs.shape[1])
    values = matrix_of(scores, ids=ids)
    if values.shape != (members.shape[1], runs.shape[2]):
        raise ScoresError(
            f"scores are {list(values.shape)}, subsets {list(members.shape)} and outcomes {list(runs.shape[1:])}. "
            "Give [rows, queries], [subsets, rows] and [subsets, queries]."
        )
    if better not in ("low", "high") or over not in ("queries", "queries and subsets"):
        raise ScoresError(
            "`better` must be 'low' or 'high', `over` 'queries' or 'queries and subsets', got "
            f"better={better!r}, over={over!r}."
        )
    predicted = members.astype(np.float64) @ values
    measured = runs.mean(0) * (-1.0 if better == "low" else 1.0)
    per_query = correlation_or_zero(spearman, predicted, measured)
    unjudged = int(np.isnan(per_query).sum())
    if unjudged == len(per_query):
        raise ScoresError("all subsets have the same outcome for every query; there is nothing to rank.")
    if over == "queries":
        interval = mean_interval(per_query, bootstrap)
    else:
        interval = interval_of(lambda rng: _of_sample(predicted, measured, rng), bootstrap)
    return LDS(
        value=mean_of_known(per_query),
        interval=interval,
        per_query=per_query,
        ceiling=retraining_ceiling(runs, bootstrap=bootstrap) if len(runs) > 1 else None,
        subsets=len(members),
        seeds=len(runs),
        unjudged=unjudged,
        constant=int(((np.ptp(predicted, 0) == 0) & (np.ptp(measured, 0) > 0)).sum()),
    )


def retraining_ceiling(outcomes: ArrayLike, *, bootstrap: Bootstrap | None = None) -> Ceiling:
    """Return the score that retraining noise allows, from independent retrainings of the same subsets.

    The correlation r of two retrainings tells which share of the outcomes' variance is not noise. The mean of R
    retrainings has the reliability R r / (1 + (R − 1) r) (Spearman–Brown), and its correlation with the noiseless
    outcome is the square root of that. It is taken of the mean r over queries and pairs of seeds: the root of each
    query's own r would be biased.

    Args:
        outcomes: [seeds, subsets, queries] with two seeds or more.
        bootstrap: how the interval is made.

    Example:
        >>> outcomes = np.random.default_rng(0).normal(size=(1, 50, 8)).repeat(2, 0)  # retraining without noise
        >>> round(retraining_ceiling(outcomes).value, 6)
        1.0
    """
    runs = _runs(outcomes)
    if len(runs) < 2:
        raise ScoresError("one retraining of each subset says nothing about noise. Give [seeds, subsets, queries].")
    each = np.mean([spearman(run, other) for run, other in itertools.combinations(runs, 2)], axis=0)
    known = each[~np.isnan(each)]

    def reach(values: Floats) -> float:
        r = max(mean_of_known(values), 0.0)
        return float(np.sqrt(len(runs) * r / (1 + (len(runs) - 1) * r)))

    bootstrap = bootstrap or Bootstrap()
    interval = Interval(np.nan, np.nan, bootstrap.level)
    if known.size > 1:
        interval = interval_of(lambda rng: reach(known[drawn(rng, known.size)]), bootstrap)
    return Ceiling(reach(known), interval, mean_of_known(known))


def _of_sample(predicted: Floats, measured: Floats, rng: np.random.Generator) -> float:
    """Return the score of a bootstrap sample of subsets and queries."""
    subsets, queries = drawn(rng, len(measured)), drawn(rng, measured.shape[1])
    chosen = np.ix_(subsets, queries)
    return mean_of_known(correlation_or_zero(spearman, predicted[chosen], measured[chosen]))


def _runs(outcomes: ArrayLike) -> Floats:
    """Return outcomes as [seeds, subsets, queries]."""
    runs = numbers_of(outcomes, "outcomes")
    runs = runs[None] if runs.ndim == 2 else runs
    if runs.ndim != 3 or not runs.size:
        raise ScoresError(
            f"outcomes have shape {list(runs.shape)}. Give [subsets, queries] or [seeds, subsets, queries]."
        )
    if runs.shape[1] < _MIN_SUBSETS:
        raise ScoresError(f"{runs.shape[1]} subsets cannot be ranked. Give at least {_MIN_SUBSETS}; 50 are usual.")
    if not np.isfinite(runs).all():
        raise ScoresError(f"{int((~np.isfinite(runs)).sum())} outcomes are not finite: a training diverged.")
    return runs


def _membership(subsets: ArrayLike, count: int) -> NDArray[np.bool_]:
    members = np.asarray(subsets)
    if members.dtype != np.bool_ or members.ndim != 2:
        raise ScoresError(f"subsets are {members.dtype} of shape {list(members.shape)}. Give bool [subsets, rows].")
    if len(members) != count:
        raise ScoresError(f"there are {len(members)} subsets and outcomes of {count}. Give one outcome per subset.")
    return members
