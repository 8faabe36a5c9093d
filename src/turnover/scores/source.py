"""Where scores are read from: an array in memory, or something of which only the rows in use are read."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Floats, Ints, close, floats

_BLOCK = 2**22
"""Numbers worked on at a time: enough to be fast, and never a second copy of a large result."""


class Source(ABC):
    """Numbers [n] or [n, m] that can be read in part."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Return [n] or [n, m]."""

    @property
    @abstractmethod
    def whole(self) -> Floats:
        """Return all numbers, closed to writing."""

    @property
    @abstractmethod
    def folder(self) -> str | None:
        """Return where the numbers still have to be read from; None: they are in memory."""

    @property
    @abstractmethod
    def step(self) -> int:
        """Return how many rows are best read together."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> Floats:
        """Return the rows from `start` to `stop`."""

    @abstractmethod
    def take(self, rows: Ints | None, columns: Ints | None) -> Floats:
        """Return these rows and columns in this order; None stands for all."""


class InMemory(Source):
    """Numbers that are at hand."""

    def __init__(self, array: Floats) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Return [n] or [n, m]."""
        return self._array.shape

    @property
    def folder(self) -> str | None:
        """Return None: nothing is left to be read."""
        return None

    @property
    def step(self) -> int:
        """Return 1: rows are equally well read in any number."""
        return 1

    @property
    def whole(self) -> Floats:
        """Return all numbers, closed to writing."""
        return self._array

    def rows(self, start: int, stop: int) -> Floats:
        """Return the rows from `start` to `stop`."""
        return self._array[start:stop]

    def take(self, rows: Ints | None, columns: Ints | None) -> Floats:
        """Return these rows and columns in this order; None stands for all."""
        if rows is not None and columns is not None:
            return self._array[np.ix_(rows, columns)]
        if columns is not None:
            return self._array[:, columns]
        return self._array if rows is None else self._array[rows]

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(close(state))


def source_of(given: ArrayLike | Source, name: str) -> Source:
    """Return the source given, or one of the numbers given.

    Args:
        given: a source, or numbers in any form.
        name: what to call them in messages.
    """
    return given if isinstance(given, Source) else InMemory(floats(cast(ArrayLike, given), name))


def blocks(source: Source) -> Iterator[tuple[int, int, Floats]]:
    """Yield all rows in order, some at a time, with the number of the first and of the one after the last."""
    width = max(1, int(np.prod(source.shape[1:])))
    height = max(1, _BLOCK // width // source.step) * source.step
    for start in range(0, source.shape[0], height):
        stop = min(start + height, source.shape[0])
        yield start, stop, source.rows(start, stop)
