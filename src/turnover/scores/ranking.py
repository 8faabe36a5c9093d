"""The one order of scores: from most helpful to most harmful, among equals the smaller id first, failed pairs last.

The helpful list is the head of this order and the harmful list its tail, read from the end. With one order for both,
no instance stands in both lists unless there are fewer than 2k, and lists of parts merge into the lists of the whole.
"""

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats, Ints


def ranks(values: Floats, ids: Ints) -> Ints:
    """Return the place of every row in its query's order, 0 for the most helpful.

    Args:
        values: scores [n, m].
        ids: instance ids [n].
    """
    # Sorted by id once, a stable sort by score leaves equals in order of id.
    by_id = np.argsort(ids, kind="stable")
    result = np.empty(values.shape, np.int64)
    places = np.arange(len(ids))
    for query in range(values.shape[1]):
        order = by_id[np.argsort(-values[by_id, query], kind="stable")]
        result[order, query] = places
    return result


def most_helpful(values: Floats, ids: Ints, k: int) -> NDArray[np.intp]:
    """Return the positions [m, k] of the head of each query's order; −1 where there are fewer.

    Args:
        values: scores [m, n], one query a row.
        ids: instance ids [n], or [m, n] where queries have ids of their own.
        k: how many.
    """
    return _first(-values, np.broadcast_to(ids, values.shape), k)


def most_harmful(values: Floats, ids: Ints, k: int) -> NDArray[np.intp]:
    """Return the positions [m, k] of the tail of each query's order, the last first; −1 where there are fewer.

    Args:
        values: scores [m, n], one query a row.
        ids: instance ids [n], or [m, n] where queries have ids of their own.
        k: how many.
    """
    return _first(values, np.broadcast_to(-ids, values.shape), k)


def _first(keys: Floats, ties: Ints, k: int) -> NDArray[np.intp]:
    """Return the positions [m, k] of the k smallest keys of each row, smaller `ties` first among equals, never NaN."""
    result = np.full((len(keys), k), -1, np.intp)
    if keys.shape[1] > k:
        # Finding the k-th key takes linear time; only what is not beyond it has to be sorted. NaN counts as largest.
        limit = np.partition(keys, k - 1, axis=1)[:, k - 1]
        candidates = keys <= np.where(np.isnan(limit), np.float32(np.inf), limit)[:, None]
    else:
        candidates = ~np.isnan(keys)
    rows, columns = np.nonzero(candidates)
    order = np.lexsort((ties[rows, columns], keys[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    starts = np.searchsorted(rows, np.arange(len(keys)))
    places = np.arange(len(rows)) - starts[rows]
    kept = places < k
    result[rows[kept], places[kept]] = columns[kept]
    return result
