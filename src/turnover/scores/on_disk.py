"""Numbers in a folder of results, of which only what is asked for is read."""

from contextlib import contextmanager
from collections.abc import Iterator
from typing import Any

import numpy as np

from turnover.errors import StoreDamagedError
from turnover.storage import StoredArrays

from .arrays import Floats, Ints, closed
from .source import Source


class OnDisk(Source):
    """One array of a store; read in part as long as it has not been read as a whole.

    Args:
        stored: the store, complete.
        name: the array's name.
    """

    def __init__(self, stored: StoredArrays, name: str) -> None:
        self._stored = stored
        self._name = name
        self._spec = stored.arrays[name]
        self._array = stored.array(name)
        self._whole: Floats | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return [n] or [n, m]."""
        return self._spec.shape

    @property
    def whole(self) -> Floats:
        """Return all numbers, with every checksum verified; they are read once."""
        if self._whole is None:
            self._whole = closed(self._stored.read(self._name))
        return self._whole

    @property
    def folder(self) -> str | None:
        """Return where the numbers still have to be read from; None: they are in memory."""
        return str(self._stored.folder) if self._whole is None else None

    @property
    def step(self) -> int:
        """Return the number of rows of a tile."""
        return self._spec.tile[0]

    def rows(self, start: int, stop: int) -> Floats:
        """Return the rows from `start` to `stop`."""
        if self._whole is not None:
            return self._whole[start:stop]
        with self._damage():
            return np.asarray(self._array[start:stop])
