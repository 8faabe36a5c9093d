"""Reading a store: lazily through zarr, or whole with every checksum verified."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnover.errors import StoreDamagedError, StoreError

from .files import disk_errors, holds, read_bytes
from .geometry import ArraySpec
from .manifest import Manifest, read_complete, read_manifest
from .marks import read_marks
from .zarr_files import ARRAYS_NAME, METADATA_NAME, array_metadata, open_array, require_zarr

if TYPE_CHECKING:
    import zarr

_AGAIN = "Run the call that made it again with this folder: it computes what is missing."


class StoredArrays:
    """The arrays of a store, complete or not, as they were when it was opened. No lock is needed.

    Attributes:
        folder: where they are.
        identity: what the store was made for.
        attributes: what `TileStore.finish` was given; empty before that.
        complete: whether `TileStore.finish` has run.
        arrays: names and geometry of all arrays that can be read.
        tiles: the number of tiles.
        done: numbers of the tiles that are written.

    Example:
        >>> import tempfile
        >>> from turnover.storage import TileStore
        >>> folder = tempfile.mkdtemp()
        >>> with TileStore.open_for_writing(folder, identity={"seed": 0}, arrays={}) as store:
        ...     store.finish({"unit": "nats"}, whole={"offset": np.arange(3)})
        >>> stored = StoredArrays(folder)
        >>> stored.attributes["unit"], stored.read("offset").tolist()
        ('nats', [0, 1, 2])
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        require_zarr()
        self.folder = Path(folder).absolute()
        with disk_errors(self.folder, to="read"):
            manifest = read_manifest(self.folder)
            if manifest is None:
                raise StoreError(f"there is no store at {str(self.folder)!r}. Give a folder of stored results.")
            # In this order: a writer that finishes now adds the one before it removes the other.
            marks = read_marks(self.folder)
            end = read_complete(self.folder)
            self.identity: dict[str, Any] = manifest.identity
            self.attributes: dict[str, Any] = {} if end is None else end.attributes
            self.complete = end is not None
            self.arrays: dict[str, ArraySpec] = {**manifest.arrays, **({} if end is None else end.whole)}
            self.tiles = manifest.tiles
            self._marks = marks if end is None else end.marks
            self._whole_checksums = {} if end is None else end.whole_checksums
            self._check_sizes(manifest)
            self.done: list[int] = sorted(self._marks)

    def array(self, name: str) -> "zarr.Array[Any]":
        """Return an array that is read as it is indexed; zarr verifies the crc32c of each tile that it touches.

        What is not done yet shows as NaN in arrays of floats and as 0 in others; see `done`.
        """
        spec = self._spec(name)
        with disk_errors(self.folder, to="read"):
            if read_bytes(self.folder / ARRAYS_NAME / name / METADATA_NAME) != array_metadata(spec):
                raise self._damaged([f"{ARRAYS_NAME}/{name}/{METADATA_NAME}"])
            return open_array(self.folder / ARRAYS_NAME / name)

    def read(self, name: str) -> np.ndarray:
        """Return a whole array, with the SHA-256 of every tile verified."""
        spec = self._spec(name)
        if not self.complete:
            raise StoreError(
                f"{str(self.folder)!r} is not complete: {len(self.done)} of {self.tiles} tiles are done. {_AGAIN}"
            )
        array = self.array(name)
        result = np.empty(spec.shape, spec.dtype)
        for tile in range(spec.tiles):
            checksum = self._whole_checksums.get(name) or self._marks[tile][name]
            file = self._tile(name, tile)
            if not holds(self.folder / file, checksum):
                raise self._damaged([file])
            # Directly after the check: the tile comes from memory now.
            result[spec.region(tile)] = array[spec.region(tile)]
        return result

    def _spec(self, name: str) -> ArraySpec:
        if name not in self.arrays:
            known = ", ".join(map(repr, self.arrays)) or "none"
            raise StoreError(f"{str(self.folder)!r} has no array {name!r}; it has {known}.")
        return self.arrays[name]

    def _check_sizes(self, manifest: Manifest) -> None:
        """Find missing and truncated tiles at once: zarr would show a missing one as NaN or 0."""
        bad: list[str] = []
        for tile in sorted(self._marks):
            wrong = [self._tile(name, tile) for name in manifest.arrays if not self._has_size(name, tile)]
            if wrong:
                bad += wrong
                del self._marks[tile]
        bad += [self._tile(name, 0) for name in self._whole_checksums if not self._has_size(name, 0)]
        # In an unfinished store such a tile is merely not done.
        if bad and self.complete:
            raise self._damaged(bad)

    def _tile(self, name: str, tile: int) -> str:
        return f"{ARRAYS_NAME}/{name}/{self.arrays[name].key(tile)}"

    def _has_size(self, name: str, tile: int) -> bool:
        try:
            return (self.folder / self._tile(name, tile)).stat().st_size == self.arrays[name].file_bytes
        except FileNotFoundError:
            return False

    def _damaged(self, files: list[str]) -> StoreDamagedError:
        shown = ", ".join(map(repr, files[:3])) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        return StoreDamagedError(f"in {str(self.folder)!r} these files are missing or damaged: {shown}. {_AGAIN}")
