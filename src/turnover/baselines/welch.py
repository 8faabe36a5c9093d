"""The difference between models with and without a row, and its standard error from the spread within both groups."""

from collections.abc import Callable

import numpy as np

Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]


def welch(inside: np.ndarray, good: np.ndarray, sums: Sums = np.matmul) -> tuple[np.ndarray, np.ndarray]:
    """Return the difference of group means and its standard error; NaN where a group is too small.

    Args:
        inside: bool [models, rows].
        good: [models, queries].
        sums: from weights [rows, models] and numbers [models, queries] to the weighted sums wanted.

    Example:
        >>> inside = np.array([[True], [True], [False], [False]])
        >>> difference, stderr = welch(inside, np.array([[3.0], [5.0], [1.0], [1.0]]))
        >>> float(difference[0, 0]), float(stderr[0, 0])
        (3.0, 1.0)
    """
    # The difference does not change, and sums of squares lose no digits.
    good = good - good.mean(0)
    means, variances = [], []
    with np.errstate(invalid="ignore", divide="ignore"):
        for group in (inside, ~inside):
            weights = group.T.astype(np.float64)
            count = sums(weights, np.ones_like(good))
            mean = sums(weights, good) / count
            spread = np.maximum(sums(weights, good**2) - count * mean**2, 0) / (count - 1)
            means.append(mean)
            variances.append(np.where(count > 1, spread, np.nan) / count)
    return means[0] - means[1], np.sqrt(variances[0] + variances[1])


def row_by_row(weights: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the sums of each row's weights with the numbers of the same place: each row as its own query."""
    return (weights * numbers.T).sum(1)
