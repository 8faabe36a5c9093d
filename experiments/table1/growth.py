"""How fast something grows: the slope of a straight line through logarithms."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Growth:
    """An exponent k of y ~ x^k, its standard error, and the exponent at the three largest x alone."""

    exponent: float
    stderr: float
    largest: float


def growth(x: ArrayLike, y: ArrayLike) -> Growth:
    """Return the exponent by least squares on logarithms; three points are needed for a standard error.

    Example:
        >>> growth([1, 10, 100], [5, 500, 50_000]).exponent
        2.0
    """
    x, y = np.log(x), np.log(y)
    exponent, stderr = _line(x, y)
    return Growth(round(exponent, 6), round(stderr, 6), round(_line(x[-3:], y[-3:])[0], 6))


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the slope and its standard error."""
    if len(x) < 3:
        raise ValueError(f"{len(x)} sizes give no standard error of a slope. Give three or more.")
    x, y = x - x.mean(), y - y.mean()
    slope = (x @ y) / (x @ x)
    rest = y - slope * x
    return float(slope), float(np.sqrt((rest @ rest) / (len(x) - 2) / (x @ x)))
