"""Labels that are numbers: their scale, and their distance from held-out predictions in units of the usual one."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._results import Result

LIKELY_ERROR = 3.0
"""From so many times the usual distance on, a label is a likely error: 0.3 % of normally distributed ones are."""

_MOST_BANDS, _ROWS_OF_A_BAND = 20, 50
# The median of the absolute value of a normal variable, as a share of its standard deviation.
_MEDIAN = 0.6745
# The spread of a band is never so small that the few rows in it decide.
_LEAST_SHARE = 0.5


@dataclass(frozen=True)
class NumberScale:
    """What the network learns in place of numbers: their distance from the mean in standard deviations.

    Example:
        >>> scale = NumberScale.of(np.array([10.0, 30.0]))
        >>> scale.standardized(np.array([20.0, 40.0])).tolist(), scale.restored(np.array([2.0])).tolist()
        ([0.0, 2.0], [40.0])
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, numbers: NDArray[np.float64]) -> "NumberScale":
        """Return the scale of training labels, which differ."""
        # In units of the largest: squares of very large numbers have no place in a float.
        largest = float(np.abs(numbers).max())
        return cls(largest * float((numbers / largest).mean()), largest * float((numbers / largest).std()))

    def standardized(self, numbers: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return numbers as the network learns them."""
        return ((numbers - self.mean) / self.deviation).astype(np.float32)

    def restored(self, outputs: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return outputs of the network as numbers."""
        return outputs.astype(np.float64) * self.deviation + self.mean


@dataclass(frozen=True)
class NumberFit(Result):
    """How well numbers are predicted.

    Attributes:
        rmse: root of the mean squared error, in units of the label.
        mae: mean absolute error.
        r2: share of the variance of the labels that predictions explain; below 0: worse than their mean.
        baseline_rmse: that of always predicting the mean of the training labels.
    """

    rows: int
    rmse: float
    mae: float
    r2: float | None
    baseline_rmse: float

    @classmethod
    def of(cls, predicted: NDArray[np.float64], labels: NDArray[np.float64], *, baseline: float) -> "NumberFit":
        """Return it for one row or more.

        Example:
            >>> fit = NumberFit.of(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 5.0]), baseline=2.0)
            >>> round(fit.mae, 3), round(fit.r2, 3)
            (0.667, 0.538)
        """
        squared = float(np.square(predicted - labels).mean())
        variance = float(labels.var())
        return cls(
            rows=len(labels),
            rmse=squared**0.5,
            mae=float(np.abs(predicted - labels).mean()),
            r2=1 - squared / variance if variance else None,
            baseline_rmse=float(np.square(labels - baseline).mean()) ** 0.5,
        )


@dataclass(frozen=True, eq=False)
class Residuals:
    """Held-out predictions of numbers and how far labels lie from them.

    The usual distance is that of training rows with about the same prediction: a large number is often less certain
    than a small one. It is a median, so that wrong labels, as long as they are few, do not stretch it.

    Args:
        predicted: held-out predictions [n].
        labels: given numbers [n].

    Example:
        >>> rng = np.random.default_rng(0)
        >>> predicted = rng.uniform(0, 10, 200)
        >>> labels = predicted + rng.normal(0, 0.1, 200)
        >>> labels[7] += 3
        >>> likely = Residuals(predicted, labels).likely
        >>> bool(likely[7]), int(likely.sum()) < 6  # three times the usual distance: some correct labels lie as far off
        (True, True)
    """

    predicted: NDArray[np.float64]
    labels: NDArray[np.float64]

    @cached_property
    def standardized(self) -> NDArray[np.float64]:
        """Return label minus held-out prediction, in units of the usual distance [n]."""
        return self.standardized_at(self.predicted, self.labels)

    def standardized_at(self, predicted: ArrayLike, labels: ArrayLike) -> NDArray[np.float64]:
        """Return the same for other rows, predicted in the same way."""
        return (np.asarray(labels, np.float64) - np.asarray(predicted, np.float64)) / self.spread_at(predicted)

    def spread_at(self, predicted: ArrayLike) -> NDArray[np.float64]:
        """Return the usual distance, as a standard deviation, of labels from these predictions."""
        centers, spreads = self._bands
        return np.interp(np.asarray(predicted, np.float64), centers, spreads)

    @property
    def likely(self) -> NDArray[np.bool_]:
        """Return which labels are likely errors [n]."""
        return np.abs(self.standardized) > LIKELY_ERROR

    @property
    def order(self) -> NDArray[np.int64]:
        """Return the places of all rows, the likeliest label error first."""
        return np.argsort(-np.nan_to_num(np.abs(self.standardized), nan=0.0), kind="stable")

    @cached_property
    def _bands(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the middle of every band of predictions, and the spread of its residuals."""
        finite = np.isfinite(self.predicted)
        predicted, residuals = self.predicted[finite], (self.labels - self.predicted)[finite]
        order = np.argsort(predicted, kind="stable")
        bands = np.array_split(order, np.clip(len(order) // _ROWS_OF_A_BAND, 1, _MOST_BANDS))
        whole = _spread(residuals)
        # A network that predicts most rows to the last bit leaves no distance to compare with.
        least = max(_LEAST_SHARE * whole, 1e-9 * float(np.abs(self.labels).max()), np.finfo(np.float64).tiny)
        centers = np.array([np.median(predicted[band]) for band in bands])
        return centers, np.array([max(_spread(residuals[band]), least) for band in bands])


def _spread(residuals: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(residuals - np.median(residuals)))) / _MEDIAN
