"""The one order of scores: from most helpful to most harmful, among equals the smaller id first, failed pairs last.

The helpful list is the head of this order and the harmful list its tail, read from the end. With one order for both,
no instance stands in both lists unless there are fewer than 2k, and lists of parts merge into the lists of the whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnover.ids import Ints

from ._arrays import Floats


def ranks(values: Floats, ids: Ints) -> Ints:
    """Return the place of every row of scores [n, m] in its query's order, 0 for the most helpful."""
    # Sorted by id once, a stable sort by score leaves equals in order of id.
    by_id = np.argsort(ids, kind="stable")
    result = np.empty(values.shape, np.int64)
    places = np.arange(len(ids))
    for query in range(values.shape[1]):
        order = by_id[np.argsort(-values[by_id, query], kind="stable")]
        result[order, query] = places
    return result


@dataclass(frozen=True)
class Entries:
    """Instances that belong to each of m queries, in any order, [m, j]."""

    ids: Ints  # −1: no entry
    scores: Floats  # NaN: no entry
    stderr: Floats | None  # None: not known
    p: Floats | None = None  # p-values; None: not known

    def helpful(self, k: int) -> "Entries":
        """Return the first k of each query's order; −1 where there are fewer."""
        return self._at(_first(-self.scores, self.ids, k, smaller_id_first=True))

    def harmful(self, k: int) -> "Entries":
        """Return the last k of each query's order, the last first; −1 where there are fewer."""
        return self._at(_first(self.scores, self.ids, k, smaller_id_first=False))

    def _at(self, places: NDArray[np.intp]) -> "Entries":
        nan = np.float32(np.nan)
        return Entries(
            _taken(self.ids, places, np.int64(-1)),
            _taken(self.scores, places, nan),
            None if self.stderr is None else _taken(self.stderr, places, nan),
            None if self.p is None else _taken(self.p, places, nan),
        )


@dataclass(frozen=True)
class Lists:
    """The k most helpful and the k most harmful instances of m queries, the strongest first."""

    helpful: Entries  # the head of each query's order
    harmful: Entries  # its tail, read from the end
    counts: Ints  # how many scores each query's lists were chosen from [m]; failed ones do not count


def lists_of(values: Floats, ids: Ints, stderr: Floats | None, k: int) -> Lists:
    """Return the lists of scores [n, m] of the instances `ids` [n]."""
    by_query = np.ascontiguousarray(values.T)
    # Only k entries of each row are looked at, so views of the whole serve.
    entries = Entries(np.broadcast_to(ids, by_query.shape), by_query, None if stderr is None else stderr.T)
    counts = np.count_nonzero(~np.isnan(by_query), axis=1).astype(np.int64)
    return Lists(entries.helpful(k), entries.harmful(k), counts)


def merged(parts: Sequence[Lists], k: int) -> Lists:
    """Return the lists of the union of the instances that the parts were chosen from."""
    return Lists(
        _side_by_side([part.helpful for part in parts]).helpful(k),
        _side_by_side([part.harmful for part in parts]).harmful(k),
        np.stack([part.counts for part in parts]).sum(axis=0),
    )


def _side_by_side(parts: Sequence[Entries]) -> Entries:
    return Entries(
        np.concatenate([part.ids for part in parts], axis=1),
        np.concatenate([part.scores for part in parts], axis=1),
        _if_all_known([part.stderr for part in parts]),
        _if_all_known([part.p for part in parts]),
    )


def _if_all_known(parts: Sequence[Floats | None]) -> Floats | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis=1) if len(known) == len(parts) else None


def _taken(array: NDArray[Any], places: NDArray[np.intp], missing: np.generic) -> NDArray[Any]:
    """Return the numbers at these places [m, k] of each row; `missing` at −1."""
    taken = np.take_along_axis(array, places, axis=1) if array.shape[1] else missing
    return np.where(places < 0, missing, taken)


def _first(keys: Floats, ids: Ints, k: int, *, smaller_id_first: bool) -> NDArray[np.intp]:
    """Return the positions [m, k] of the k smallest keys of each row, among equals in the order of ids, never NaN."""
    result = np.full((len(keys), k), -1, np.intp)
    if keys.shape[1] > k:
        # Finding the k-th key takes linear time; only what is not beyond it has to be sorted. NaN counts as largest.
        limit = np.partition(keys, k - 1, axis=1)[:, k - 1]
        candidates = keys <= np.where(np.isnan(limit), np.float32(np.inf), limit)[:, None]
    else:
        candidates = ~np.isnan(keys)
    rows, columns = np.nonzero(candidates)
    ties = ids[rows, columns]
    order = np.lexsort((ties if smaller_id_first else -ties, keys[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    starts = np.searchsorted(rows, np.arange(len(keys)))
    places = np.arange(len(rows)) - starts[rows]
    kept = places < k
    result[rows[kept], places[kept]] = columns[kept]
    return result
