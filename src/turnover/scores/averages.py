"""Means and spreads of scores in which a pair may have failed (NaN)."""

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats
from .source import Source, blocks


def mean_without_failed(values: Floats) -> Floats:
    """Return the mean of every row, of the numbers in it that are not NaN; NaN where there are none."""
    valid = ~np.isnan(values)
    return _mean(values, valid).astype(np.float32)


def mean_over_queries(source: Source, offset: Floats | None) -> tuple[Floats, Floats | None]:
    """Return each row's mean over the queries, and the mean of the offsets that are in it.

    Args:
        source: scores [n, m].
        offset: what was subtracted from each query [m].

    Returns:
        Means [n]; and the offset, one number where no pair failed, else [n]: a failed pair takes its query's offset
        out of the row's mean.
    """
    means = np.empty(source.shape[0], np.float32)
    offsets = np.empty(source.shape[0], np.float32)
    failed = False
    for start, stop, values in blocks(source):
        valid = ~np.isnan(values)
        failed = failed or not valid.all()
        means[start:stop] = _mean(values, valid)
        if offset is not None:
            offsets[start:stop] = _mean(np.broadcast_to(offset, values.shape), valid)
    if offset is None:
        return means, None
    return means, offsets if failed else mean_without_failed(offset[None])[0]


def spread(null: Floats) -> Floats:
    """Return the standard deviation over never-trained ids (the first dimension), of those that are not NaN.

    NaN where there are fewer than two.
    """
    columns = null.reshape(len(null), -1).T
    valid = ~np.isnan(columns)
    centered = np.where(valid, columns - _mean(columns, valid)[:, None], 0.0)
    with np.errstate(all="ignore"):
        variance = np.square(centered).sum(axis=1) / (valid.sum(axis=1) - 1)
        variance[valid.sum(axis=1) < 2] = np.nan
        return np.sqrt(variance).astype(np.float32).reshape(null.shape[1:])


def _mean(values: Floats, valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    # 0 / 0 where all failed and inf − inf are NaN, which is what they should be.
    with np.errstate(all="ignore"):
        return np.where(valid, values, np.float32(0)).sum(axis=1, dtype=np.float64) / valid.sum(axis=1)
