"""Significance and noise of scores: p-values from null ids, intervals from replicas, false discovery rate, noise ratio.

**P-values from null ids.** Among j null ids the rank of a score gives no p-value below 1 / (j + 1), too much to be
significant among thousands of rows. And no bell curve serves: scores of null ids have heavy tails, heavier for some
queries than for others, and a normal distribution of the same variance finds "signal" in nearly every set of noise.
So the furthest tenth of the distances from their mean is described by a generalized Pareto distribution, which is the
limit that the tail of nearly any distribution has (Pickands 1975). Its shape is uncertain by about 0.1 when 100
distances are known, and a p-value far beyond them depends on it by orders of magnitude. The p-value is therefore the
predictive one: averaged over shapes and scales by how well they explain the distances and by a weak prior on the shape.
That makes it as large as needed for errors to be as frequent as stated.

**Significance** is Benjamini and Hochberg's step-up, over all p-values or over a list of the smallest. Of what is
marked at level 0.05, 5 % or less is expected to be noise; where all is noise, anything is marked in 5 % of cases or
less.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from turnover.errors import ScoresError
from turnover.ids import Ints

from ._arrays import Bools, Doubles, Floats, Source, blocks, closed, floats

FEWEST_REPLICAS = 3
"""Replicas that a standard error needs: the standard deviation of two numbers says next to nothing."""

_FEWEST_FOR_A_TAIL = 100
"""Null ids that a tail is fitted to at least; with fewer, p-values are ranks."""

_TAIL_SHARE = 0.1
"""Which share of the distances is the tail."""

# Prior of the shape: 0 is an exponential tail, 1 / 3 that of Student's distribution with 3 degrees of freedom. For
# null ids of digit classifiers it is between −0.2 and 0.3 on most queries.
_SHAPE_MEAN, _SHAPE_SPREAD = 0.1, 0.2

_MOST_TERMS = 1000
_TINY = 1e-300
_LARGEST = 1e150  # its square is still a float64


def normal_tail(z: NDArray[np.floating]) -> Doubles:
    """Return the probability that a standard normal number is at least as far from 0 as each of these."""
    distances = np.asarray(np.abs(np.asarray(z, np.float64)) / math.sqrt(2))
    return cast("Any", torch).special.erfc(cast("Any", torch).from_numpy(distances)).numpy()


def student_tail(t: NDArray[np.floating], df: float) -> Doubles:
    """Return the two-sided tail probability of each t in Student's distribution; NaN stays NaN."""
    square = np.square(np.minimum(np.abs(np.asarray(t, np.float64)), _LARGEST))
    # P(|T| ≥ t) = I_x(df / 2, 1 / 2), the regularized incomplete beta function at x = df / (df + t²).
    return _incomplete_beta(df / 2, 0.5, df / (df + square), square / (df + square))


def normal_limit(p: float) -> float:
    """Return the distance from 0 that a standard normal number has or exceeds with probability p."""
    return -NormalDist().inv_cdf(p / 2)


@lru_cache
def student_limit(p: float, df: float) -> float:
    """Return the distance from 0 that a number of Student's distribution has or exceeds with probability p."""

    def tail(t: float) -> float:
        return float(student_tail(np.array(t), df))

    low, high = 0.0, 1.0
    while tail(high) > p and high < _LARGEST:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > p else (low, middle)
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: Doubles, rest: Doubles) -> Doubles:
    """Return I_x(a, b), given x and rest = 1 − x, each to full precision."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    with np.errstate(divide="ignore"):
        front = np.exp(a * np.log(x) + b * np.log(rest) - log_beta)
    # The fraction converges fast on one side of the mean; on the other, I_x(a, b) = 1 − I_(1−x)(b, a).
    left = x < (a + 1) / (a + b + 2)
    below = front * _beta_fraction(a, b, np.where(left, x, 0.0)) / a
    above = 1 - front * _beta_fraction(b, a, np.where(left, 0.0, rest)) / b
    return np.where(np.isnan(x), np.nan, np.where(left, below, above))


def _beta_fraction(a: float, b: float, x: Doubles) -> Doubles:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    upper = np.ones_like(x)
    lower = 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = lower
    for term in range(1, _MOST_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        for step in (even, odd):
            lower = 1 / _not_zero(1 + step * lower)
            upper = _not_zero(1 + step / upper)
            value = value * lower * upper
        if not (np.abs(lower * upper - 1) > 1e-15).any():
            break
    return value


def _not_zero(x: Doubles) -> Doubles:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def interval_tails(values: Floats, stderr: Floats, df: int | None) -> Floats:
    """Return 1 − the level of the widest confidence interval of each value that excludes 0.

    By Student's distribution with `df` degrees of freedom; None: the normal one. Corrected like p-values
    (`discoveries`) they mark the values whose intervals, at a level that the others' allow for, exclude 0: the
    false-coverage-rate intervals of Benjamini and Yekutieli (2005).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.divide(values, stderr, dtype=np.float64)
    t[(values == 0) & (stderr == 0)] = 0  # all replicas agree that nothing happens
    return closed((normal_tail(t) if df is None else student_tail(t, df)).astype(np.float32))


def null_p_values(scores: Floats, null: Floats) -> Floats:
    """Return the p-values of scores [n, m] against those of null ids on the same queries [j, m]."""
    result = np.empty(scores.shape, np.float32)
    for query in range(scores.shape[1]):
        known = null[np.isfinite(null[:, query]), query]
        result[:, query] = _p_of(scores[:, query].astype(np.float64), known.astype(np.float64))
    return closed(result)


def _p_of(scores: Doubles, null: Doubles) -> Doubles:
    """Return how probable it is, two-sided, that a null id scores as far out as each of these [n].

    By ranks, and beyond them by a fitted tail. NaN where a score failed, or where no null id was scored.
    """
    count = null.size
    if not count:
        return np.full(scores.shape, np.nan)
    center = null.mean()
    distances: Doubles = np.abs(scores - center)
    beside: Doubles = np.sort(np.abs(null - center))
    # An id that scores as far out counts, and so does the instance itself, which may be one more of them.
    if count < _FEWEST_FOR_A_TAIL:
        # Measured from the mean of all j + 1: from their own mean few null ids lie closer than one more of them would,
        # and p-values would be too small.
        ordered, is_above = np.sort(null - center), scores >= center
        opposite = distances * (count - 1) / (count + 1)
        above = count - np.searchsorted(ordered, np.where(is_above, distances, opposite))
        below = np.searchsorted(ordered, -np.where(is_above, opposite, distances), side="right")
        result: Doubles = (1.0 + np.minimum(above + below, count)) / (1 + count)
    else:
        result = (1.0 + count - np.searchsorted(beside, distances)) / (1 + count)
        size = round(_TAIL_SHARE * count)
        threshold = float(beside[count - size - 1])
        excesses = beside[count - size :] - threshold
        unit = float(np.median(excesses))
        if unit > 0:  # else most scores are the same number: ranks are all there is
            beyond = distances > threshold
            places, survival = _fitted_tail(excesses / unit)
            log_p: Doubles = np.log(np.maximum(survival * (size + 1) / (count + 1), 1e-300))
            result[beyond] = np.exp(np.interp((distances[beyond] - threshold) / unit, places, log_p))
    return np.where(np.isnan(distances), np.nan, result)


def _fitted_tail(excesses: Doubles) -> tuple[Doubles, Doubles]:
    """Return distances beyond the threshold, and how probable larger ones are, given those found."""
    shape, scale, log_prior, places, survival = _tails()
    inner = 1 + shape * excesses / scale
    with np.errstate(divide="ignore", invalid="ignore"):
        log_density = -np.log(scale) - (1 / shape + 1) * np.log(inner)
    # Tails of negative shape end somewhere; one that ends before the largest excess is impossible.
    weights = np.where(inner > 0, log_density, -np.inf).sum(axis=1) + log_prior
    weights = np.exp(weights - weights.max())
    return places, weights @ survival / weights.sum()


@lru_cache(maxsize=1)
def _tails() -> tuple[Doubles, Doubles, Doubles, Doubles, Doubles]:
    """Return generalized Pareto tails to average over, one per row, in units of the median excess.

    Shape and scale [tails, 1], logarithms of the prior [tails], distances beyond the threshold [points] and, at these,
    survival [tails, points].
    """
    shapes = np.linspace(-1.0, 0.9, 39)
    shapes[np.abs(shapes) < 1e-6] = 1e-6  # the exponential tail, without a formula of its own
    # A tail's median excess is scale · (2^shape − 1) / shape; that of a sample is uncertain by 0.14 in its logarithm.
    scales = shapes[:, None] / (2 ** shapes[:, None] - 1) * np.exp(np.linspace(-0.7, 0.7, 21))
    shape = np.repeat(shapes, scales.shape[1])[:, None]
    scale = scales.reshape(-1, 1)
    places = np.concatenate([[0.0], np.geomspace(0.02, 1e4, 120)])
    inner = np.maximum(1 + shape * places / scale, 1e-300)
    survival = np.where(inner > 1e-300, np.exp(-np.log(inner) / shape), 0.0)
    log_prior = -0.5 * np.square((shape[:, 0] - _SHAPE_MEAN) / _SHAPE_SPREAD)
    return shape, scale, log_prior, places, survival


def checked_level(level: Any) -> float:
    """Return a share between 0 and 1, or raise."""
    try:
        share = float(level)
    except (TypeError, ValueError):
        share = 0.0
    if not 0 < share < 1:
        raise ScoresError(f"level must be a share between 0 and 1, such as 0.05, got {level!r}.")
    return share


def discoveries(p: Floats, level: float, counts: Ints | None = None) -> Bools:
    """Tell which p-values [n, m] of each query are significant at a level of false discoveries; NaN does not count.

    With `counts` [m] given, p are only some of each query's p-values. The r-th smallest of some is at least the r-th
    smallest of all, so all that is marked would be marked with the others known too: some may be missed, none added.
    """
    ordered = np.sort(p, axis=0)  # NaN last
    total = np.count_nonzero(~np.isnan(p), axis=0) if counts is None else counts
    ranks = np.arange(1, len(p) + 1, dtype=np.float64)[:, None]
    passed: Bools = ordered <= level * ranks / np.maximum(total, 1)
    limit = np.where(passed, ordered, -1.0).max(axis=0, initial=-1.0)
    return p <= limit


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """How much of the standard deviation of scores is noise, for each query [m], or one number for scores [n].

    Attributes:
        std: standard deviation of pure noise: that of null ids where they were scored, else the standard error that
            the replicas show.
        ratio: `std` divided by the standard deviation of the scores. 1: they vary as if no instance had been
            trained.
        signal: share of the variance of scores that noise does not explain, 1 − ratio², at least 0.
    """

    std: Floats
    ratio: Floats
    signal: Floats

    def __repr__(self) -> str:
        """Return both shares, in the middle of all queries."""
        which = "" if self.ratio.ndim == 0 else " (median of the queries)"
        return (
            f"noise is {_median(self.ratio):.2f} of the standard deviation of scores, "
            f"signal {_median(self.signal):.0%} of their variance{which}"
        )


def noise_of(values: Source, stderr: Source | None, null_spread: Floats | None) -> Noise:
    """Return how much of the standard deviation of scores is noise."""
    if null_spread is not None:
        noise = np.asarray(null_spread, np.float64)
        if len(values.shape) == 1 and noise.ndim == 1:  # every row is its own query
            noise = _mean_square_and_variance(Source(null_spread))[0] ** 0.5
    elif stderr is not None:
        noise = _mean_square_and_variance(stderr)[0] ** 0.5
    else:
        raise ScoresError(
            "the noise of these scores is not known: they have neither scores of null ids nor standard errors. "
            "Compute them with turnover.Influence, which keeps both, or give null= or stderr=."
        )
    _, variance = _mean_square_and_variance(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = noise / np.sqrt(variance)
    signal = np.maximum(1 - np.square(ratio), 0)
    return Noise(floats(noise, "std"), floats(ratio, "ratio"), floats(signal, "signal"))


def _mean_square_and_variance(source: Source) -> tuple[Doubles, Doubles]:
    """Return both for each query, of the numbers that are finite; NaN where there are too few."""
    count, total, squares = np.zeros((3, *source.shape[1:]))
    for _, _, part in blocks(source):
        finite = np.isfinite(part)
        known = np.where(finite, part, np.float32(0)).astype(np.float64)
        count = count + finite.sum(axis=0)
        total = total + known.sum(axis=0)
        squares = squares + np.square(known).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.maximum(squares - np.square(total) / count, 0) / (count - 1)
        return squares / count, np.where(count > 1, variance, np.nan)


def _median(numbers: Floats) -> float:
    known = numbers[np.isfinite(numbers)]
    return float(np.median(known)) if known.size else float("nan")
