"""The head and the tail of every query's order as lists, and lists of parts joined to lists of the whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats, Ints
from .ranking import most_harmful, most_helpful


@dataclass(frozen=True)
class Entries:
    """Instances that belong to each of m queries, in any order.

    Attributes:
        ids: instance ids [m, j]; −1: no entry.
        scores: their scores [m, j]; NaN: no entry.
        stderr: their standard errors [m, j]; None: not known.
        p: their p-values [m, j]; None: not known.
    """

    ids: Ints
    scores: Floats
    stderr: Floats | None
    p: Floats | None = None

    def at(self, places: NDArray[np.intp]) -> "Entries":
        """Return the entries at these places [m, k]; none at −1."""
        none = places < 0
        if self.ids.shape[1] == 0:
            nothing = np.full(places.shape, np.nan, np.float32)
            stderr, p = (None if part is None else nothing for part in (self.stderr, self.p))
            return Entries(np.full(places.shape, -1, np.int64), nothing, stderr, p)
        return Entries(
            np.where(none, -1, np.take_along_axis(self.ids, places, axis=1)),
            _at(self.scores, places, none),
            None if self.stderr is None else _at(self.stderr, places, none),
            None if self.p is None else _at(self.p, places, none),
        )


@dataclass(frozen=True)
class Lists:
    """The k most helpful and the k most harmful instances of m queries, the strongest first.

    Attributes:
        helpful: the head of each query's order.
        harmful: its tail, read from the end.
        counts: how many scores each query's lists were chosen from [m]; failed ones do not count.
    """

    helpful: Entries
    harmful: Entries
    counts: Ints


def lists_of(values: Floats, ids: Ints, stderr: Floats | None, k: int) -> Lists:
    """Return the lists of scores [n, m] of the instances `ids` [n]."""
    by_query = np.ascontiguousarray(values.T)
    # Only k entries of each row are looked at, so views of the whole serve.
    everything = Entries(np.broadcast_to(ids, by_query.shape), by_query, None if stderr is None else stderr.T)
    helpful = everything.at(most_helpful(by_query, ids, k))
    harmful = everything.at(most_harmful(by_query, ids, k))
    return Lists(helpful, harmful, np.count_nonzero(~np.isnan(by_query), axis=1).astype(np.int64))


def merged(parts: Sequence[Lists], k: int) -> Lists:
    """Return the lists of the union of the instances that the parts were chosen from."""
    helpful = _side_by_side(part.helpful for part in parts)
    harmful = _side_by_side(part.harmful for part in parts)
    return Lists(
        helpful.at(most_helpful(helpful.scores, helpful.ids, k)),
        harmful.at(most_harmful(harmful.scores, harmful.ids, k)),
        np.stack([part.counts for part in parts]).sum(axis=0),
    )


def _side_by_side(parts: Iterable[Entries]) -> Entries:
    parts = list(parts)
    return Entries(
        np.concatenate([part.ids for part in parts], axis=1),
        np.concatenate([part.scores for part in parts], axis=1),
        _if_all_known([part.stderr for part in parts]),
        _if_all_known([part.p for part in parts]),
    )


def _if_all_known(parts: Sequence[Floats | None]) -> Floats | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known, axis=1) if len(known) == len(parts) else None


def _at(values: Floats, places: NDArray[np.intp], none: NDArray[np.bool_]) -> Floats:
    return np.where(none, np.float32(np.nan), np.take_along_axis(values, places, axis=1))
