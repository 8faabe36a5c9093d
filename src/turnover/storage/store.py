"""A store: make or resume a folder, write tiles in any order, finish; read it lazily, or whole and verified."""

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from turnover.errors import StoreDamagedError, StoreError

from ._manifest import (
    COMPLETE_NAME,
    Complete,
    Manifest,
    add_mark,
    check_name,
    check_same,
    read_complete,
    read_manifest,
    read_marks,
    remove_marks,
    rewrite_marks,
)
from .arrays import (
    ARRAYS_NAME,
    METADATA_NAME,
    ArraySpec,
    array_metadata,
    group_metadata,
    open_array,
    require_zarr,
    tile_bytes,
    tiles_of,
)
from .files import disk_errors, readable, sha256_of
from .folders import Folder, Lock, open_folder
from .json_values import Json, plain
from .sizes import check_memory

if TYPE_CHECKING:
    import zarr

_PARTS = "Read parts of it: .array(name)[rows]."
_AGAIN = "Run the call that made it again with this folder: it computes what is missing."


class StoredArrays:
    """The arrays of a store, complete or not, as they were when it was opened. No lock is needed.

    `attributes` are what `TileStore.finish` was given, empty before that; `done` are the tiles that are written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        require_zarr()
        self.folder = open_folder(folder)
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
        """Return an array that is read as it is indexed; the SHA-256 of each tile that it touches is verified.

        What is not done yet shows as NaN in arrays of floats and as 0 in others; see `done`.
        """
        spec = self._spec(name)
        with disk_errors(self.folder, to="read"):
            if self.folder.read(f"{ARRAYS_NAME}/{name}/{METADATA_NAME}") != array_metadata(spec):
                raise self._damaged([f"{ARRAYS_NAME}/{name}/{METADATA_NAME}"])
            return open_array(self.folder.zarr_store(f"{ARRAYS_NAME}/{name}", self._checksums(name)))

    def _checksums(self, name: str) -> dict[str, str]:
        """Return the SHA-256 of the tiles of an array by their keys."""
        spec, whole = self.arrays[name], self._whole_checksums.get(name)
        if whole is not None:
            return {spec.key(0): whole}
        return {spec.key(tile): marks[name] for tile, marks in self._marks.items() if name in marks}

    def read(self, name: str) -> np.ndarray:
        """Return a whole array, with the SHA-256 of every tile verified."""
        spec = self._spec(name)
        if not self.complete:
            raise StoreError(
                f"{str(self.folder)!r} is not complete: {len(self.done)} of {self.tiles} tiles are done. {_AGAIN}"
            )
        array = self.array(name)
        # A tile is read as a whole, which may be larger than the part of it that lies in the array.
        check_memory(
            spec.bytes + (spec.file_bytes if spec.tiles else 0), f"{name!r} of {str(self.folder)!r} has", cure=_PARTS
        )
        result = np.empty(spec.shape, spec.dtype)
        for tile in range(spec.tiles):
            try:
                result[spec.region(tile)] = array[spec.region(tile)]
            except (ValueError, OSError) as error:
                raise self._damaged([self._tile(name, tile)]) from error
        return result

    def _spec(self, name: str) -> ArraySpec:
        if name not in self.arrays:
            known = ", ".join(map(repr, self.arrays)) or "none"
            raise StoreError(f"{str(self.folder)!r} has no array {name!r}; it has {known}.")
        return self.arrays[name]

    def _check_sizes(self, manifest: Manifest) -> None:
        """Find missing and truncated tiles at once: zarr would show a missing one as NaN or 0."""
        bad: list[str] = []
        if self.complete and len(self._marks) != self.tiles:
            raise StoreDamagedError(
                f"in {str(self.folder)!r} {len(self._marks)} of {self.tiles} tiles have a checksum", cure=_AGAIN
            )
        self._marks = {tile: marks for tile, marks in self._marks.items() if 0 <= tile < self.tiles}
        sizes = self.folder.sizes(ARRAYS_NAME)

        def has_size(name: str, tile: int) -> bool:
            return sizes.get(self._tile(name, tile)) == self.arrays[name].file_bytes

        for tile in sorted(self._marks):
            wrong = [self._tile(name, tile) for name in manifest.arrays if not has_size(name, tile)]
            if wrong:
                bad += wrong
                del self._marks[tile]
        bad += [self._tile(name, 0) for name in self._whole_checksums if not has_size(name, 0)]
        # In an unfinished store such a tile is merely not done.
        if bad and self.complete:
            raise self._damaged(bad)

    def _tile(self, name: str, tile: int) -> str:
        return f"{ARRAYS_NAME}/{name}/{self.arrays[name].key(tile)}"

    def _damaged(self, files: list[str]) -> StoreDamagedError:
        shown = ", ".join(map(repr, files[:3])) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        return StoreDamagedError(f"in {str(self.folder)!r} these files are missing or damaged: {shown}", cure=_AGAIN)


@dataclass(frozen=True)
class TileWriter:
    """Writes tiles of a store that another process has opened: serializable, and without a right to anything else.

    Tiles are written whole or not at all, so that several processes may write the same one, if with the same content.
    """

    folder: Folder
    arrays: Mapping[str, ArraySpec]

    def write(self, tile: int, parts: Mapping[str, np.ndarray]) -> dict[str, str]:
        """Write one tile of every array, and return the checksums with which the store marks it done."""
        self._check_parts(tile, parts)
        with disk_errors(self.folder, needs=self._needs):
            return {name: _write_tile(self.folder, name, spec, tile, parts[name]) for name, spec in self.arrays.items()}

    def _needs(self) -> str:
        return _needs(self.folder, self.arrays, len(read_marks(self.folder)))

    def _check_parts(self, tile: int, parts: Mapping[str, np.ndarray]) -> None:
        if parts.keys() != self.arrays.keys():
            raise StoreError(f"tile {tile} must have parts of {sorted(self.arrays)}, got {sorted(parts)}.")
        for name, spec in self.arrays.items():
            needed, part = spec.part_shape(tile), parts[name]
            if part.shape != needed or part.dtype != np.dtype(spec.dtype):
                raise StoreError(
                    f"tile {tile} of {name!r} must be {spec.dtype} of shape {needed}, "
                    f"got {part.dtype} of shape {part.shape}."
                )


def _write_tile(folder: Folder, name: str, spec: ArraySpec, tile: int, part: np.ndarray) -> str:
    data = tile_bytes(spec, part)
    folder.write(_file(name, spec, tile), data)
    # Of the bytes that were meant, not of those that are found on the disk.
    return sha256_of(data)


def _file(name: str, spec: ArraySpec, tile: int) -> str:
    return f"{ARRAYS_NAME}/{name}/{spec.key(tile)}"


def _holds(folder: Folder, name: str, checksum: str | None) -> bool:
    """Tell whether a file is there, readable, and has this checksum."""
    try:
        data = folder.read(name)
    except OSError:
        return False
    return data is not None and sha256_of(data) == checksum


class TileStore:
    """A folder of named arrays, open for one writer; see `open_for_writing`."""

    def __init__(self, folder: Folder, manifest: Manifest, lock: Lock) -> None:
        self.folder = folder
        self.arrays = manifest.arrays
        self.tiles = manifest.tiles
        self._lock = lock
        self._one_at_a_time = threading.RLock()
        try:
            end = read_complete(folder)
        except StoreDamagedError:
            end = None
        marks = read_marks(folder) if end is None else end.marks
        self._marks = {
            tile: sums for tile, sums in marks.items() if 0 <= tile < self.tiles and self._tile_holds(tile, sums)
        }
        self._complete = end is not None and not self.pending() and self._rest_holds(end)
        self._tidy()

    @classmethod
    def open_for_writing(
        cls,
        folder: str | os.PathLike[str],
        *,
        identity: Mapping[str, Json],
        arrays: Mapping[str, ArraySpec],
        former: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a new store, or the one in the folder with all its intact tiles, locked for this writer.

        All tiles that are marked done are verified; a missing or damaged one becomes pending again. A folder of another
        identity (all that determines the content, as JSON) or geometry is rejected with every difference named, before
        anything is touched. All arrays are cut into the same grid. `former` are texts in the identity of an older
        version's store, and what they are called today.
        """
        require_zarr()
        given = Manifest.of(identity, arrays)
        place = open_folder(folder)
        with disk_errors(place):
            # Once before anything is touched, and once more when no other writer can come in between.
            _exists(place, given, former or {})
            place.make()
            lock = place.lock()
            try:
                if not _exists(place, given, former or {}):
                    given.write(place)
                store = cls(place, given, lock)
                store._check_room()
            except BaseException:
                lock.release()
                raise
        return store

    @classmethod
    def open_for_reading(cls, folder: str | os.PathLike[str]) -> StoredArrays:
        """Return the arrays in a folder, complete or not; needs no lock."""
        return StoredArrays(folder)

    @staticmethod
    def identity_of(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Return what a store was made for; None: there is none in the folder."""
        path = open_folder(folder)
        with disk_errors(path, to="read"):
            manifest = read_manifest(path)
        return None if manifest is None else manifest.identity

    @property
    def complete(self) -> bool:
        """Whether the store is finished and intact."""
        return self._complete

    def pending(self) -> list[int]:
        """Return the numbers of all tiles that are not done, lowest first."""
        return [tile for tile in range(self.tiles) if tile not in self._marks]

    def region(self, name: str, tile: int) -> tuple[slice, ...]:
        """Return where a tile lies in an array."""
        return self.arrays[name].region(tile)

    @property
    def writer(self) -> TileWriter:
        """What writes tiles in other processes, too; what it has written is marked here."""
        return TileWriter(self.folder, self.arrays)

    def write(self, tile: int, parts: Mapping[str, np.ndarray]) -> None:
        """Write one tile of every array, then mark it done; both are on the disk on return.

        May be called from several threads.
        """
        with self._one_at_a_time:
            self._check_open()
            self._check_incomplete()
            self._marks.pop(tile, None)
            self.mark(tile, self.writer.write(tile, parts))

    def mark(self, tile: int, checksums: Mapping[str, str]) -> None:
        """Mark a tile done whose files a `TileWriter` wrote, with the checksums that it returned."""
        with self._one_at_a_time:
            self._check_open()
            self._check_incomplete()
            with disk_errors(self.folder, needs=self._needs):
                add_mark(self.folder, tile, checksums)
            self._marks[tile] = dict(checksums)

    def finish(self, attributes: Mapping[str, Json], *, whole: Mapping[str, np.ndarray] | None = None) -> None:
        """Add attributes and small whole arrays, which are known only at the end, and mark the store complete."""
        with self._one_at_a_time:
            self._check_open()
            pending = self.pending()
            if pending:
                raise StoreError(
                    f"{str(self.folder)!r} cannot be finished: {len(pending)} of {self.tiles} tiles are pending, "
                    f"the first is {pending[0]}. Write them first."
                )
            content = plain(attributes, where="attributes")
            extra = dict(whole or {})
            specs = {name: self._whole_spec(name, array) for name, array in extra.items()}
            checksums: dict[str, str] = {}
            with disk_errors(self.folder, needs=self._needs):
                for name, spec in specs.items():
                    self.folder.write(f"{ARRAYS_NAME}/{name}/{METADATA_NAME}", array_metadata(spec))
                    if spec.tiles:
                        checksums[name] = _write_tile(self.folder, name, spec, 0, extra[name])
                Complete(content, self._marks, specs, checksums).write(self.folder)
                self._complete = True
                remove_marks(self.folder)

    def close(self) -> None:
        """Release the folder for other writers."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _tile_holds(self, tile: int, checksums: Mapping[str, str]) -> bool:
        files = [(_file(name, spec, tile), checksums.get(name)) for name, spec in self.arrays.items()]
        return all(_holds(self.folder, file, checksum) for file, checksum in files)

    def _rest_holds(self, end: Complete) -> bool:
        files = [(_file(name, end.whole[name], 0), sha) for name, sha in end.whole_checksums.items()]
        return all(_holds(self.folder, file, checksum) for file, checksum in files) and all(
            self.folder.read(name) == data for name, data in self._metadata({**self.arrays, **end.whole}).items()
        )

    def _metadata(self, arrays: Mapping[str, ArraySpec]) -> dict[str, bytes]:
        by_array = {f"{ARRAYS_NAME}/{name}/{METADATA_NAME}": array_metadata(spec) for name, spec in arrays.items()}
        return {f"{ARRAYS_NAME}/{METADATA_NAME}": group_metadata(), **by_array}

    def _tidy(self) -> None:
        """Bring the folder into the state that was found: a killed writer may have left it between two."""
        self.folder.remove_parts()
        if self._complete:
            remove_marks(self.folder)
            return
        # The marks are there before the other list of checksums goes.
        rewrite_marks(self.folder, self._marks)
        self.folder.remove(COMPLETE_NAME)
        left = self.folder.sizes(ARRAYS_NAME)
        for tile in self.pending():
            for file in (_file(name, spec, tile) for name, spec in self.arrays.items()):
                if file in left:
                    self.folder.remove(file)
        for name, data in self._metadata(self.arrays).items():
            if self.folder.read(name) != data:
                self.folder.write(name, data)

    def _check_open(self) -> None:
        if not self._lock.held:
            raise StoreError(
                f"the store {str(self.folder)!r} is closed, or was opened by another process. "
                "Write within `with TileStore.open_for_writing(...)`, in the process that opened it."
            )

    def _check_incomplete(self) -> None:
        if self._complete:
            raise StoreError(f"{str(self.folder)!r} is complete; no tile of it can be written.")

    def _whole_spec(self, name: str, array: np.ndarray) -> ArraySpec:
        check_name(name)
        if name in self.arrays:
            raise StoreError(f"array {name!r} is written tile by tile and cannot be given whole. Use another name.")
        if not array.dtype.isnative:
            raise StoreError(f"array {name!r} must have native byte order, got {array.dtype.str}. Use .astype first.")
        return ArraySpec.whole(array)

    def _needs(self) -> str:
        return _needs(self.folder, self.arrays, len(self._marks))

    def _check_room(self) -> None:
        """Raise now if the disk cannot hold what is pending, and not after hours of work."""
        free = self.folder.room()
        if free is not None and _room(self.arrays, len(self._marks)) > free:
            raise StoreError(
                f"there is no room for {str(self.folder)!r}{self._needs()}. Make room and run the same call again."
            )


def _room(arrays: Mapping[str, ArraySpec], done: int) -> int:
    """Return how many bytes are still to be written."""
    return (tiles_of(arrays) - done) * sum(spec.file_bytes for spec in arrays.values())


def _needs(folder: Folder, arrays: Mapping[str, ArraySpec], done: int) -> str:
    """Return how much room is missing on a full disk, and what is kept, in words."""
    free, room = folder.room(), _room(arrays, done)
    rest = f"{readable(room)} are still to be written and " if room else ""
    return f": {rest}{readable(free or 0)} are free; the {done} tiles that are done are kept"


def _exists(folder: Folder, given: Manifest, former: Mapping[str, str]) -> bool:
    """Tell whether the folder already is the store that is asked for; reject every other content."""
    stored = read_manifest(folder)
    if stored is not None:
        check_same(folder, stored, given, former)
    return stored is not None
