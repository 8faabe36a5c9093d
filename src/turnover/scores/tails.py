"""Tails of the normal and of Student's distribution, and the limits that a share of them lies beyond."""

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_MOST_TERMS = 1000
_TINY = 1e-300
_LARGEST = 1e150  # its square is still a float64


def normal_tail(z: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the probability that a standard normal number is at least as far from 0 as each of these."""
    far = np.abs(np.asarray(z, np.float64)) / math.sqrt(2)
    return np.array([math.erfc(one) for one in far.ravel().tolist()], np.float64).reshape(far.shape)


def student_tail(t: NDArray[np.floating], df: float) -> NDArray[np.float64]:
    """Return the probability that a number of Student's distribution is at least as far from 0 as each of these.

    Args:
        t: any numbers; NaN stays NaN.
        df: degrees of freedom, more than 0.
    """
    square = np.square(np.minimum(np.abs(np.asarray(t, np.float64)), _LARGEST))
    # P(|T| ≥ t) = I_x(df / 2, 1 / 2), the regularized incomplete beta function at x = df / (df + t²).
    return _incomplete_beta(df / 2, 0.5, df / (df + square), square / (df + square))


def normal_limit(p: float) -> float:
    """Return the distance from 0 that a standard normal number has or exceeds with probability p."""
    return -NormalDist().inv_cdf(p / 2)


@lru_cache
def student_limit(p: float, df: float) -> float:
    """Return the distance from 0 that a number of Student's distribution has or exceeds with probability p."""
    low, high = 0.0, 1.0
    while _tail_of_one(high, df) > p and high < _LARGEST:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _tail_of_one(middle, df) > p else (low, middle)
    return (low + high) / 2


def _tail_of_one(t: float, df: float) -> float:
    return float(student_tail(np.array(t), df))


def _incomplete_beta(a: float, b: float, x: NDArray[np.float64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return I_x(a, b), given x and rest = 1 − x, each to full precision."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    with np.errstate(divide="ignore"):
        front = np.exp(a * np.log(x) + b * np.log(rest) - log_beta)
    # The fraction converges fast on one side of the mean; on the other, I_x(a, b) = 1 − I_(1−x)(b, a).
    left = x < (a + 1) / (a + b + 2)
    one = front * _beta_fraction(a, b, np.where(left, x, 0.0)) / a
    other = 1 - front * _beta_fraction(b, a, np.where(left, 0.0, rest)) / b
    return np.where(np.isnan(x), np.nan, np.where(left, one, other))


def _beta_fraction(a: float, b: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
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


def _not_zero(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.abs(x) < _TINY, _TINY, x)
