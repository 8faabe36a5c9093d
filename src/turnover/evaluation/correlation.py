"""Correlation of columns: Pearson's, and Spearman's with ties at their mean rank."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def average_ranks(values: Floats) -> Floats:
    """Return the rank of every value within its column, from 1; equal values share the mean of their ranks.

    Args:
        values: [n, ...]; ranked along the first dimension.

    Example:
        >>> average_ranks(np.array([3.0, 1.0, 3.0]))
        array([2.5, 1. , 2.5])
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    places = np.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
    differs = ordered[1:] != ordered[:-1]
    edge = np.ones((1, *values.shape[1:]), bool)
    first = np.maximum.accumulate(np.where(np.concatenate([edge, differs]), places, 0), axis=0)
    last = np.where(np.concatenate([differs, edge]), places, len(values))
    last = np.minimum.accumulate(last[::-1], axis=0)[::-1]
    result = np.empty(values.shape)
    np.put_along_axis(result, order, (first + last) / 2 + 1, axis=0)
    return result


def pearson(one: Floats, other: Floats) -> Floats:
    """Return Pearson's correlation of every column of one array with the same column of the other.

    Args:
        one: [n, ...].
        other: [n, ...].

    Returns:
        [...]; NaN where a column is constant: it has no correlation.

    Example:
        >>> round(float(pearson(np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 40.0]))), 6)
        1.0
    """
    a, b = _centered(one), _centered(other)
    with np.errstate(invalid="ignore", divide="ignore"):
        result = (a * b).sum(0) / np.sqrt((a * a).sum(0) * (b * b).sum(0))
    return np.asarray(np.clip(result, -1.0, 1.0))


def spearman(one: Floats, other: Floats) -> Floats:
    """Return Spearman's rank correlation of every column of one array with the same column of the other.

    Args:
        one: [n, ...].
        other: [n, ...].

    Returns:
        [...]; NaN where a column is constant.

    Example:
        >>> round(float(spearman(np.array([1.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3]))), 6)
        1.0
    """
    return pearson(average_ranks(one), average_ranks(other))


def _centered(values: Floats) -> Floats:
    """Return columns with mean 0 and largest magnitude 1, so that squares neither vanish nor overflow."""
    # The mean of a constant column may differ from it in the last bit; exactly 0 makes its correlation NaN.
    scale = np.abs(values).max(0)
    scaled = values / np.where(scale > 0, scale, 1.0)
    centered = np.where(values.max(0) > values.min(0), scaled - scaled.mean(0), 0.0)
    largest = np.abs(centered).max(0)
    return centered / np.where(largest > 0, largest, 1.0)
