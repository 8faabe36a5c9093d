"""Numbers in a folder of results, of which only what is asked for is read."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from turnover.errors import StoreDamagedError
from turnover.storage import StoredArrays

from .arrays import Floats, Ints, closed
from .source import InMemory, Source


class OnDisk(Source):
    """One array of a complete store; once it has been read as a whole, it stays in memory.

    Args:
        stored: the store.
        name: the array's name.
    """

    def __init__(self, stored: StoredArrays, name: str) -> None:
        self._stored = stored
        self._name = name
        self._spec = stored.arrays[name]
        self._array: Any = stored.array(name)
        self._read: InMemory | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return [n] or [n, m]."""
        return self._spec.shape

    @property
    def whole(self) -> Floats:
        """Return all numbers, with every checksum verified, closed to writing."""
        if self._read is None:
            self._read = InMemory(closed(self._stored.read(self._name)))
        return self._read.whole

    @property
    def folder(self) -> str | None:
        """Return where the numbers still have to be read from; None: they are in memory."""
        return str(self._stored.folder) if self._read is None else None

    @property
    def step(self) -> int:
        """Return how many rows a tile has."""
        return self._spec.tile[0]

    def rows(self, start: int, stop: int) -> Floats:
        """Return the rows from `start` to `stop`."""
        if self._read is not None:
            return self._read.rows(start, stop)
        with self._checked():
            return np.asarray(self._array[start:stop])

    def take(self, rows: Ints | None, columns: Ints | None) -> Floats:
        """Return these rows and columns in this order; None stands for all."""
        if self._read is not None:
            return self._read.take(rows, columns)
        if rows is None and columns is None:
            return self.whole
        chosen = [slice(None) if part is None else part for part in (rows, columns)]
        with self._checked():
            return np.asarray(self._array.oindex[tuple(chosen[: len(self.shape)])])

    @contextmanager
    def _checked(self) -> Generator[None]:
        """Say which folder is damaged where zarr finds that a checksum does not match."""
        try:
            yield
        except (ValueError, OSError) as error:
            raise StoreDamagedError(
                f"{self._name!r} in {str(self._stored.folder)!r} cannot be read: {error} "
                "Run the call that made the folder again with out= that folder: it computes what is damaged."
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the folder: another process reads it there."""
        return _reopened, (self._stored.folder, self._name)


def _reopened(folder: Any, name: str) -> OnDisk:
    return OnDisk(StoredArrays(folder), name)
