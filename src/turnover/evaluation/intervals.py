"""Bootstrap intervals: how far a mean would move if other queries, or other trainings, had been drawn."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ScoresError

from .correlation import Floats

Draw = Callable[[np.random.Generator], float]


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made.

    Attributes:
        draws: how many times to draw anew.
        level: share of the draws that lies within the interval.
        seed: of the draws.
    """

    draws: int = 1000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that give no interval."""
        if self.draws < 1 or not 0 < self.level < 1:
            raise ScoresError(f"draws={self.draws}, level={self.level}: give draws from 1 and a level within (0, 1).")


@dataclass(frozen=True)
class Interval:
    """A percentile interval; both ends are NaN where there was one thing only to draw from.

    Attributes:
        low: lower end.
        high: upper end.
        level: share of the draws within.
    """

    low: float
    high: float
    level: float

    def __contains__(self, value: float) -> bool:
        """Tell whether a value lies within."""
        return self.low <= value <= self.high


def interval_of(draw: Draw, bootstrap: Bootstrap) -> Interval:
    """Return the interval of a number that is computed anew for every draw; draws that give NaN are left out."""
    rng = np.random.default_rng(bootstrap.seed)
    drawn = np.array([draw(rng) for _ in range(bootstrap.draws)])
    drawn = drawn[np.isfinite(drawn)]
    if not drawn.size:
        return Interval(np.nan, np.nan, bootstrap.level)
    outside = (1 - bootstrap.level) / 2
    low, high = np.quantile(drawn, [outside, 1 - outside])
    return Interval(float(low), float(high), bootstrap.level)


def mean_interval(values: Floats, bootstrap: Bootstrap) -> Interval:
    """Return the interval of the mean of some numbers, which are drawn with replacement; NaN are left out.

    Example:
        >>> interval = mean_interval(np.array([0.1, 0.3, 0.2, 0.4]), Bootstrap())
        >>> 0.1 < interval.low < 0.25 < interval.high < 0.4
        True
    """
    known = values[np.isfinite(values)]
    if known.size < 2:
        return Interval(np.nan, np.nan, bootstrap.level)
    return interval_of(lambda rng: float(known[drawn(rng, known.size)].mean()), bootstrap)


def drawn(rng: np.random.Generator, size: int) -> NDArray[np.int64]:
    """Return as many places as there are, drawn with replacement."""
    return rng.integers(0, size, size)


def mean_of_known(values: Floats) -> float:
    """Return the mean of the numbers that are not NaN; NaN where there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
