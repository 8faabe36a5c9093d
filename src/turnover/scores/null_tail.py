"""How often a never-trained id scores as far out as a given score: ranks, and beyond them a fitted tail.

Among j never-trained ids the rank of a score gives no p-value below 1 / (j + 1), too much to stand out among thousands
of rows. And no bell curve serves: scores of never-trained ids have heavy tails, heavier for some queries than for
others, and a normal distribution of the same spread finds "signal" in nearly every set of pure noise. So the furthest
tenth of the distances from their mean is described by a generalized Pareto distribution, which is the limit that the
tail of nearly any distribution has (Pickands 1975).

Its shape is uncertain by about 0.1 when 100 distances are known, and a p-value far beyond them depends on it by orders
of magnitude. The p-value is therefore the predictive one: averaged over shapes and scales by how well they explain the
distances and by a weak prior on the shape. That makes it as large as needed for errors to be as frequent as stated.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats

FEWEST_FOR_A_TAIL = 100
"""Never-trained ids that a tail is fitted to at least; with fewer, p-values are ranks."""

_SHARE = 0.1
"""Which share of the distances is the tail."""

# Prior of the shape: 0 is an exponential tail, 1 / 3 that of Student's distribution with 3 degrees of freedom. For
# never-trained ids of digit classifiers it is between −0.2 and 0.3 on most queries.
_SHAPE_MEAN, _SHAPE_SPREAD = 0.1, 0.2

_Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class _Grid:
    """Tails to average over, in units of the median excess; one a row.

    Attributes:
        shape, scale: their parameters [tails, 1].
        log_prior: of each [tails].
        excesses: distances beyond the threshold [points] at which survival is tabulated.
        survival: of each tail there [tails, points].
    """

    shape: _Doubles
    scale: _Doubles
    log_prior: _Doubles
    excesses: _Doubles
    survival: _Doubles


class NullTail:
    """The distribution of one query's never-trained ids.

    Args:
        null: their scores [j]; failed ones are left out.
    """

    def __init__(self, null: Floats) -> None:
        known = np.asarray(null[np.isfinite(null)], np.float64)
        self._center = known.mean() if known.size else np.nan
        self._distances = np.sort(np.abs(known - self._center))
        self._tail: tuple[float, float, _Doubles] | None = None
        if known.size >= FEWEST_FOR_A_TAIL:
            self._fit(round(_SHARE * known.size))

    def p_values(self, scores: Floats) -> Floats:
        """Return how probable it is, two-sided, that a never-trained id scores as far out as each of these [n].

        NaN where a score failed, or where no never-trained id was scored.
        """
        count = self._distances.size
        if not count:
            return np.full(scores.shape, np.nan, np.float32)
        far = np.abs(np.asarray(scores, np.float64) - self._center)
        # An id that scores as far out counts, and so does the instance itself, which may be one more of them.
        result = (1.0 + count - np.searchsorted(self._distances, far)) / (1 + count)
        if self._tail is not None:
            threshold, unit, logs = self._tail
            beyond = far > threshold
            result[beyond] = np.exp(np.interp((far[beyond] - threshold) / unit, _grid().excesses, logs))
        return np.where(np.isnan(far), np.nan, result).astype(np.float32)

    def _fit(self, size: int) -> None:
        """Fit a tail to the `size` largest distances."""
        count = self._distances.size
        threshold = float(self._distances[count - size - 1])
        excesses = self._distances[count - size :] - threshold
        unit = float(np.median(excesses))
        if unit <= 0:  # most scores are the same number: ranks are all there is
            return
        grid = _grid()
        inner = 1 + grid.shape * (excesses / unit) / grid.scale
        with np.errstate(divide="ignore", invalid="ignore"):
            log_density = -np.log(grid.scale) - (1 / grid.shape + 1) * np.log(inner)
        # Tails of negative shape end somewhere; one that ends before the largest excess is impossible.
        log_density = np.where(inner > 0, log_density, -np.inf)
        weights = log_density.sum(axis=1) + grid.log_prior
        weights = np.exp(weights - weights.max())
        survival = weights @ grid.survival / weights.sum()
        self._tail = threshold, unit, np.log(np.maximum(survival * (size + 1) / (count + 1), 1e-300))


def null_p_values(scores: Floats, null: Floats) -> Floats:
    """Return the p-values of scores [n, m] against those of never-trained ids on the same queries [j, m]."""
    result = np.empty(scores.shape, np.float32)
    for query in range(scores.shape[1]):
        result[:, query] = NullTail(null[:, query]).p_values(scores[:, query])
    return result


@lru_cache(maxsize=1)
def _grid() -> _Grid:
    shapes = np.linspace(-1.0, 0.9, 39)
    shapes[np.abs(shapes) < 1e-6] = 1e-6  # the exponential tail, without a formula of its own
    # A tail's median excess is scale · (2^shape − 1) / shape; that of a sample is uncertain by 0.14 in its logarithm.
    scales = shapes[:, None] / (2 ** shapes[:, None] - 1) * np.exp(np.linspace(-0.7, 0.7, 21))
    shape = np.repeat(shapes, scales.shape[1])[:, None]
    scale = scales.reshape(-1, 1)
    excesses = np.concatenate([[0.0], np.geomspace(0.02, 1e4, 120)])
    inner = np.maximum(1 + shape * excesses / scale, 1e-300)
    survival = np.where(inner > 1e-300, np.exp(-np.log(inner) / shape), 0.0)
    log_prior = -0.5 * np.square((shape[:, 0] - _SHAPE_MEAN) / _SHAPE_SPREAD)
    return _Grid(shape, scale, log_prior, excesses, survival)
