"""Arrays in one file that a later run may take instead of computing them: only under the same identity, only whole."""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np

from .files import disk_errors
from .folders import open_folder
from .json_values import Json, plain
from .sizes import arrays_in

_IDENTITY = "identity"


class KeptArrays:
    """One npz file in a folder, of named arrays that belong to an identity: what they were computed from, as JSON."""

    def __init__(self, folder: str | os.PathLike[str], name: str, identity: Mapping[str, Json]) -> None:
        self._folder, self._name = open_folder(folder), name
        self._identity = json.dumps(plain(identity, where="identity"), sort_keys=True)

    def beside(self, name: str, identity: Mapping[str, Json]) -> "KeptArrays":
        """Return another file of the same folder, whose arrays belong to this identity and to what is added to it."""
        return KeptArrays(str(self._folder), name, {**json.loads(self._identity), **identity})

    @property
    def room(self) -> int | None:
        """Return how many bytes are free in the folder; None: that is not known."""
        return self._folder.room()

    def remove(self) -> None:
        """Remove the file if it is there."""
        with disk_errors(self._folder):
            self._folder.remove(self._name)

    def read(self) -> dict[str, np.ndarray] | None:
        """Return the arrays; None: there are none, they are damaged, or they belong to another identity."""
        try:
            with self._folder.reading(self._name) as file, arrays_in(file, self._name) as kept:
                if str(kept[_IDENTITY]) != self._identity:
                    return None
                return {name: kept[name] for name in kept.files if name != _IDENTITY}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error):
            return None

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Write the arrays in place of those that are there, whole or not at all."""
        with disk_errors(self._folder), self._folder.writing(self._name) as file:
            named: dict[str, np.ndarray] = {_IDENTITY: np.array(self._identity), **arrays}
            np.savez(file, **named)  # pyright: ignore[reportArgumentType]
