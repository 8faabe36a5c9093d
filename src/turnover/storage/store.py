"""A store: arrays cut into tiles; make or resume a folder, write tiles in any order, finish; read it lazily or whole.

The format of arrays is zarr 3: chunks are tiles of little-endian numbers without compression, as scores hardly compress
and compressors change. `tiles.json` has the SHA-256 of every tile that is done.
"""

import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

import numpy as np

from turnover.errors import MissingExtraError, StoreDamagedError, StoreError

from .files import LOCK_FILES, FolderLock, check_memory, disk_errors, is_part, readable, sha256_of
from .folders import Folder, Lease, open_folder
from .records import Json, differences, from_record, parse, plain, to_record

if TYPE_CHECKING:
    import zarr

_T = TypeVar("_T")
_FORMAT = 1
_MANIFEST, _PROGRESS, _ARRAYS, _DESCRIPTION = "turnover-store.json", "tiles.json", "arrays", "zarr.json"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split(),
)
_MOST_DIMENSIONS = 32  # NumPy's arrays have no more
_LISTED = 20
# What a record of other values than ours fails with, where it is taken apart.
_WRONG_VALUES = (StoreError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_PARTS = "Read parts of it: .array(name)[rows]."
_AGAIN = "Run the call that made it again with this folder: it computes what is missing."


@dataclass(frozen=True)
class ArraySpec:
    """Shape, element type and tile shape of one stored array.

    Tiles are numbered row by row, the last dimension fastest. Those at the upper edges may be smaller than `tile`.
    """

    shape: tuple[int, ...]  # a dimension may be 0
    dtype: str  # one of numpy's names for booleans, integers and floats of up to 64 bits
    tile: tuple[int, ...]  # each dimension at least 1

    def __post_init__(self) -> None:
        if self.dtype not in _DTYPES:
            raise StoreError(f"dtype must be one of {', '.join(sorted(_DTYPES))}, got {self.dtype!r}.")
        # Plain integers, so that the sizes of a torch.Size or of numpy end up as such in the manifest.
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "tile", tuple(int(size) for size in self.tile))
        if (
            len(self.tile) != len(self.shape)
            or len(self.shape) > _MOST_DIMENSIONS
            or min(self.tile, default=1) < 1
            or min(self.shape, default=0) < 0
        ):
            raise StoreError(
                f"shape {self.shape} cannot be cut into tiles of {self.tile}. "
                "Give as many dimensions for both, and tiles of at least 1 in each."
            )

    @classmethod
    def whole(cls, array: np.ndarray) -> "ArraySpec":
        """Return the specification of an array that is stored as a single tile."""
        return cls(array.shape, array.dtype.name, tuple(max(1, size) for size in array.shape))

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of tiles along each dimension."""
        return tuple(-(-size // step) for size, step in zip(self.shape, self.tile, strict=True))

    @property
    def tiles(self) -> int:
        return math.prod(self.grid)

    @property
    def file_bytes(self) -> int:
        """The size of a tile's file; the tiles at the edges are filled up to full size."""
        return math.prod(self.tile) * np.dtype(self.dtype).itemsize

    @property
    def fill(self) -> float:
        """What an array shows where nothing is written yet."""
        return {"b": False, "f": math.nan}.get(np.dtype(self.dtype).kind, 0)

    def region(self, tile: int) -> tuple[slice, ...]:
        """Return where a tile lies in the array."""
        return tuple(
            slice(place * step, min((place + 1) * step, size))
            for place, step, size in zip(self._place(tile), self.tile, self.shape, strict=True)
        )

    def part_shape(self, tile: int) -> tuple[int, ...]:
        """Return the shape of the part of the array that a tile covers."""
        return tuple(where.stop - where.start for where in self.region(tile))

    def key(self, tile: int) -> str:
        """Return the path of a tile's file below its array's folder."""
        return ".".join(["c", *map(str, self._place(tile))])

    def _place(self, tile: int) -> tuple[int, ...]:
        if not 0 <= tile < self.tiles:
            raise StoreError(f"tile {tile} does not exist: tiles are numbered from 0, and there are {self.tiles}.")
        return tuple(int(place) for place in np.unravel_index(tile, self.grid)) if self.grid else ()


def tiles_of(arrays: Mapping[str, ArraySpec]) -> int:
    """Return the number of tiles that all arrays share; 0 where there is no array.

    Grids are the same if they differ in trailing ones only, so rows [n] may lie beside values [n, m] that are cut
    along n alone.
    """
    grids = {name: spec.grid for name, spec in arrays.items()}
    longest = max(map(len, grids.values()), default=0)
    if len({grid + (1,) * (longest - len(grid)) for grid in grids.values()}) > 1:
        raise StoreError(
            f"all arrays of a store must be cut into the same grid of tiles, got "
            f"{', '.join(f'{name!r} {grid}' for name, grid in grids.items())}. "
            "Choose fitting tiles, or hand small arrays to finish(whole=...)."
        )
    return next((spec.tiles for spec in arrays.values()), 0)


def _require_zarr() -> None:
    install = "pip install 'turnover[store]'"
    try:
        import zarr
    except ImportError as error:
        raise MissingExtraError(f"storing results in a folder needs zarr: {install}.") from error
    if int(zarr.__version__.partition(".")[0]) < 3:
        raise MissingExtraError(f"storing results needs zarr 3, found {zarr.__version__}: {install} --upgrade.")


def _description(spec: ArraySpec | None) -> bytes:
    """Return the file that makes an array readable for anyone with zarr, or the group of all arrays."""
    import zarr
    from zarr.storage import MemoryStore

    files: dict[str, Any] = {}
    if spec is None:
        cast("Any", zarr).create_group(MemoryStore(files), zarr_format=3)
    else:
        cast("Any", zarr).create_array(
            MemoryStore(files),
            shape=spec.shape,
            chunks=spec.tile,
            dtype=spec.dtype,
            fill_value=spec.fill,
            filters=None,
            serializer={"name": "bytes", "configuration": {"endian": "little"}},
            compressors=None,
            # All tiles of an array in one folder: each new folder would have to be waited for.
            chunk_key_encoding={"name": "default", "separator": "."},
        )
    return files[_DESCRIPTION].to_bytes()


def _descriptions(arrays: Mapping[str, ArraySpec]) -> dict[str, bytes]:
    files = {f"{_ARRAYS}/{name}/{_DESCRIPTION}": _description(spec) for name, spec in arrays.items()}
    return {f"{_ARRAYS}/{_DESCRIPTION}": _description(None), **files}


def _write_tile(folder: Folder, name: str, spec: ArraySpec, tile: int, part: np.ndarray) -> str:
    whole = np.full(spec.tile, spec.fill, np.dtype(spec.dtype).newbyteorder("<"))
    whole[tuple(slice(size) for size in part.shape)] = part
    data = whole.tobytes()
    folder.write(_file(name, spec, tile), data)
    # Of the bytes that were meant, not of those that are found on the disk.
    return sha256_of(data)


def _file(name: str, spec: ArraySpec, tile: int) -> str:
    return f"{_ARRAYS}/{name}/{spec.key(tile)}"


def _verified(store: Any, checksums: Mapping[str, str], description: bytes) -> Any:
    """Return a store of zarr with tiles of the given SHA-256, by their keys, and our own description of the array."""
    from zarr.storage import WrapperStore

    class VerifiedStore(WrapperStore[Any]):
        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            if key == _DESCRIPTION:
                return prototype.buffer.from_bytes(description)
            found = await self._store.get(key, prototype, byte_range)
            if key in checksums and (found is None or sha256_of(found.to_bytes()) != checksums[key]):
                raise ValueError(f"{key} is missing, or its checksum is not that of what was written")
            return found

    return VerifiedStore(store)


def _record(folder: Folder, name: str, cure: str, build: Callable[[dict[str, Any]], _T]) -> _T | None:
    """Return what is made of a record in a folder; None: there is none."""
    data = folder.read(name)
    if data is None:
        return None
    content = from_record(data)
    if content is None:
        raise StoreDamagedError(f"{name} in {str(folder)!r} is damaged", cure=cure)
    try:
        return build(content)
    except _WRONG_VALUES as error:
        raise StoreDamagedError(f"{name} in {str(folder)!r} is damaged ({error})", cure=cure) from error


def _specs_to_json(arrays: Mapping[str, ArraySpec]) -> dict[str, Any]:
    return {
        name: {"shape": list(spec.shape), "dtype": spec.dtype, "tile": list(spec.tile)} for name, spec in arrays.items()
    }


def _specs_from_json(content: Mapping[str, Any]) -> dict[str, ArraySpec]:
    arrays = {
        name: ArraySpec(tuple(entry["shape"]), entry["dtype"], tuple(entry["tile"])) for name, entry in content.items()
    }
    _check_names(arrays)
    return arrays


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            raise StoreError(f"the name of an array must be letters, digits and _, with no digit first, got {name!r}.")


def _read_manifest(folder: Folder) -> tuple[dict[str, Any], dict[str, ArraySpec]] | None:
    """Return identity and tiled arrays of a store, None where it is missing or empty; reject anything else."""
    folder.check()
    raw = parse(folder.read(_MANIFEST) or b"")
    # Before the checksum: another format may compute that in another way.
    if raw is not None and isinstance(raw.get("format"), int) and raw["format"] != _FORMAT:
        raise StoreError(
            f"the store {str(folder)!r} has format {raw['format']}; this version of turnover reads and writes "
            f"format {_FORMAT}. Use the version that made it, or give another folder."
        )

    def build(content: dict[str, Any]) -> tuple[dict[str, Any], dict[str, ArraySpec]]:
        arrays = _specs_from_json(content["arrays"])
        tiles_of(arrays)
        return dict(content["identity"]), arrays

    cure = "Nobody can tell what the folder was made for: give another folder, or delete this one."
    stored = _record(folder, _MANIFEST, cure, build)
    if stored is None:
        # A writer that was killed before its manifest was there leaves locks and parts.
        foreign = [name for name in folder.names() if name not in LOCK_FILES and not is_part(name)]
        if foreign:
            shown = ", ".join(map(repr, foreign[:3])) + (", ..." if len(foreign) > 3 else "")
            raise StoreError(
                f"{str(folder)!r} must be empty or a store of turnover, but holds {shown}. Give a new or an empty "
                "folder."
            )
    return stored


def _is_made_for(folder: Folder, identity: dict[str, Any], arrays: Mapping[str, ArraySpec]) -> bool:
    """Tell whether a store is there, made for this; raise an error that names every difference to anything else."""
    stored = _read_manifest(folder)
    if stored is None:
        return False
    lines = differences(stored[0], identity)
    lines += differences(_specs_to_json(stored[1]), _specs_to_json(arrays), where="arrays")
    if lines:
        more = [f"and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
        shown = "".join(f"\n  {line}" for line in lines[:_LISTED] + more)
        raise StoreError(
            f"the folder {str(folder)!r} holds results of something else:{shown}\n"
            "Choose another folder, or run again what this one was made for."
        )
    return True


class _Progress(NamedTuple):
    """Which tiles are done; when all are, attributes and whole arrays too."""

    tiles: dict[int, dict[str, str]]  # tile -> array -> SHA-256 of the tile's file
    complete: bool = False
    attributes: Mapping[str, Any] = MappingProxyType({})
    whole: Mapping[str, ArraySpec] = MappingProxyType({})
    checksums: Mapping[str, str] = MappingProxyType({})  # of whole arrays that have a tile

    @classmethod
    def read(cls, folder: Folder) -> "_Progress":
        def build(content: dict[str, Any]) -> _Progress:
            whole, checksums = _specs_from_json(content["whole"]), dict(content["checksums"])
            if checksums.keys() != {name for name, spec in whole.items() if spec.tiles == 1}:
                raise ValueError("whole arrays and their checksums do not fit")
            tiles = {int(tile): dict(sums) for tile, sums in content["tiles"].items()}
            return cls(tiles, bool(content["complete"]), dict(content["attributes"]), whole, checksums)

        return _record(folder, _PROGRESS, _AGAIN, build) or cls({})

    def write(self, folder: Folder) -> None:
        tiles = {str(tile): self.tiles[tile] for tile in sorted(self.tiles)}
        whole, given = _specs_to_json(self.whole), {"attributes": dict(self.attributes), "complete": self.complete}
        folder.write(_PROGRESS, to_record({**given, "tiles": tiles, "whole": whole, "checksums": dict(self.checksums)}))


class StoredArrays:
    """The arrays of a store, complete or not, as they were when it was opened. No lock is needed.

    `attributes` are what `TileStore.finish` was given, empty before that; `done` are the tiles that are written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        _require_zarr()
        self.folder = open_folder(folder)
        with disk_errors(self.folder, to="read"):
            manifest = _read_manifest(self.folder)
            if manifest is None:
                raise StoreError(f"there is no store at {str(self.folder)!r}. Give a folder of stored results.")
            self.identity, tiled = manifest
            self._progress = _Progress.read(self.folder)
            self.complete, self.attributes = self._progress.complete, dict(self._progress.attributes)
            self.arrays = {**tiled, **self._progress.whole}
            self.tiles = tiles_of(tiled)
            self.done: list[int] = self._done(tiled)

    def array(self, name: str) -> "zarr.Array[Any]":
        """Return an array that is read as it is indexed; the SHA-256 of each tile that it touches is verified.

        What is not done yet shows as NaN in arrays of floats and as 0 in others; see `done`.
        """
        import zarr

        if name not in self.arrays:
            known = ", ".join(map(repr, self.arrays)) or "none"
            raise StoreError(f"{str(self.folder)!r} has no array {name!r}; it has {known}.")
        spec = self.arrays[name]
        if name in self._progress.whole:
            checksums = {spec.key(0): self._progress.checksums[name]} if spec.tiles else {}
        else:
            checksums = {spec.key(tile): self._progress.tiles[tile][name] for tile in self.done}
        with disk_errors(self.folder, to="read"):
            store = self.folder.zarr_store(f"{_ARRAYS}/{name}")
            return cast("Any", zarr).open_array(
                _verified(store, checksums, _description(spec)), mode="r", zarr_format=3
            )

    def read(self, name: str) -> np.ndarray:
        """Return a whole array, with the SHA-256 of every tile verified."""
        array = self.array(name)
        if not self.complete:
            raise StoreError(
                f"{str(self.folder)!r} is not complete: {len(self.done)} of {self.tiles} tiles are done. {_AGAIN}"
            )
        spec = self.arrays[name]
        # A tile is read as a whole, which may be larger than the part of it that lies in the array.
        size = math.prod(spec.shape) * np.dtype(spec.dtype).itemsize + (spec.file_bytes if spec.tiles else 0)
        check_memory(size, f"{name!r} of {str(self.folder)!r} has", cure=_PARTS)
        result = np.empty(spec.shape, spec.dtype)
        for tile in range(spec.tiles):
            try:
                result[spec.region(tile)] = array[spec.region(tile)]
            except (ValueError, OSError) as error:
                raise self._damaged([_file(name, spec, tile)]) from error
        return result

    def _done(self, tiled: Mapping[str, ArraySpec]) -> list[int]:
        """Return the tiles that are there in full size: zarr would show a missing one as NaN or 0."""
        sizes, bad, done = self.folder.sizes(_ARRAYS), list[str](), list[int]()
        tiles, whole = self._progress.tiles, self._progress.whole
        if self.complete and (len(tiles) != self.tiles or not all(0 <= tile < self.tiles for tile in tiles)):
            raise StoreDamagedError(
                f"in {str(self.folder)!r} {len(tiles)} of {self.tiles} tiles have a checksum", cure=_AGAIN
            )

        def damaged(arrays: Mapping[str, ArraySpec], tile: int) -> list[str]:
            files = {_file(name, spec, tile): spec.file_bytes for name, spec in arrays.items()}
            return [file for file, size in files.items() if sizes.get(file) != size]

        for tile in sorted(tile for tile, sums in tiles.items() if tile < self.tiles and sums.keys() == tiled.keys()):
            wrong = damaged(tiled, tile)
            bad += wrong
            done += [] if wrong else [tile]
        bad += damaged({name: whole[name] for name in self._progress.checksums}, 0)
        # In an unfinished store such a tile is merely not done.
        if self.complete and (bad or len(done) < self.tiles):
            raise self._damaged(bad)
        return done

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
        if parts.keys() != self.arrays.keys():
            raise StoreError(f"tile {tile} must have parts of {sorted(self.arrays)}, got {sorted(parts)}.")
        for name, spec in self.arrays.items():
            needed, part = spec.part_shape(tile), parts[name]
            if part.shape != needed or part.dtype != np.dtype(spec.dtype):
                raise StoreError(
                    f"tile {tile} of {name!r} must be {spec.dtype} of shape {needed}, "
                    f"got {part.dtype} of shape {part.shape}."
                )
        with disk_errors(self.folder, needs=lambda: _missing(self.folder, self.arrays)[1]):
            return {name: _write_tile(self.folder, name, spec, tile, parts[name]) for name, spec in self.arrays.items()}


def _missing(folder: Folder, arrays: Mapping[str, ArraySpec]) -> tuple[int, str]:
    """Return how many bytes are still to be written; and that, what is free and what is kept, in words."""
    done, free = len(_Progress.read(folder).tiles), folder.room()
    size = (tiles_of(arrays) - done) * sum(spec.file_bytes for spec in arrays.values())
    rest = f"{readable(size)} are still to be written and " if size else ""
    return size, f": {rest}{readable(free or 0)} are free; the {done} tiles that are done are kept"


class TileStore:
    """A folder of named arrays, open for one writer; see `open_for_writing`."""

    def __init__(self, folder: Folder, arrays: dict[str, ArraySpec], lock: FolderLock | Lease) -> None:
        self.folder, self.arrays, self._lock = folder, arrays, lock
        self.tiles = tiles_of(arrays)
        self.writer = TileWriter(folder, arrays)
        """What writes tiles in other processes, too; what it has written is marked here."""
        self._one_at_a_time = threading.RLock()
        self._tidy()

    @classmethod
    def open_for_writing(
        cls, folder: str | os.PathLike[str], *, identity: Mapping[str, Json], arrays: Mapping[str, ArraySpec]
    ) -> Self:
        """Return a new store, or the one in the folder with all its intact tiles, locked for this writer.

        All tiles that are marked done are verified; a missing or damaged one becomes pending again. A folder of another
        identity (all that determines the content, as JSON) or geometry is rejected with every difference named, before
        anything is touched. All arrays are cut into the same grid.
        """
        _require_zarr()
        content, specs = plain(identity, where="identity"), dict(arrays)
        _check_names(specs)
        tiles_of(specs)
        place = open_folder(folder)
        with disk_errors(place):
            # Once before anything is touched, and once more when no other writer can come in between.
            _is_made_for(place, content, specs)
            place.make()
            lock = place.lock()
            try:
                if not _is_made_for(place, content, specs):
                    manifest = {"format": _FORMAT, "identity": content, "arrays": _specs_to_json(specs)}
                    place.write(_MANIFEST, to_record(manifest, indent=2))
                store = cls(place, specs, lock)
                free, (size, needs) = place.room(), _missing(place, specs)
                if free is not None and not store.complete and size > free:  # now, and not after hours of work
                    raise StoreError(
                        f"there is no room for {str(place)!r}{needs}. Make room and run the same call again."
                    )
            except BaseException:
                lock.release()
                raise
        return store

    @classmethod
    def open_for_reading(cls, folder: str | os.PathLike[str]) -> StoredArrays:
        return StoredArrays(folder)

    @staticmethod
    def identity_of(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Return what a store was made for; None: there is none in the folder."""
        path = open_folder(folder)
        with disk_errors(path, to="read"):
            manifest = _read_manifest(path)
        return None if manifest is None else manifest[0]

    @property
    def complete(self) -> bool:
        return self._progress.complete

    def pending(self) -> list[int]:
        return [tile for tile in range(self.tiles) if tile not in self._progress.tiles]

    def region(self, name: str, tile: int) -> tuple[slice, ...]:
        return self.arrays[name].region(tile)

    def write(self, tile: int, parts: Mapping[str, np.ndarray]) -> None:
        """Write one tile of every array, then mark it done; both are on the disk on return.

        May be called from several threads.
        """
        with self._one_at_a_time:
            self._check_open(for_tiles=True)
            self._progress.tiles.pop(tile, None)
            self.mark(tile, self.writer.write(tile, parts))

    def mark(self, tile: int, checksums: Mapping[str, str]) -> None:
        """Mark a tile done whose files a `TileWriter` wrote, with the checksums that it returned."""
        with self._one_at_a_time:
            self._check_open(for_tiles=True)
            tiles = {**self._progress.tiles, tile: dict(checksums)}
            self._write_progress(_Progress(tiles))

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
            content, extra = plain(attributes, where="attributes"), dict(whole or {})
            _check_names(extra)
            for name, array in extra.items():
                if name in self.arrays:
                    raise StoreError(
                        f"array {name!r} is written tile by tile and cannot be given whole. Use another name."
                    )
                if not array.dtype.isnative:
                    raise StoreError(
                        f"array {name!r} must have native byte order, got {array.dtype.str}. Use .astype first."
                    )
            specs = {name: ArraySpec.whole(array) for name, array in extra.items()}
            with disk_errors(self.folder, needs=lambda: _missing(self.folder, self.arrays)[1]):
                for file, data in _descriptions(specs).items():
                    self.folder.write(file, data)
                checksums = {
                    name: _write_tile(self.folder, name, spec, 0, extra[name])
                    for name, spec in specs.items()
                    if spec.tiles
                }
            self._write_progress(_Progress(self._progress.tiles, True, content, specs, checksums))

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _tidy(self) -> None:
        """Find what is intact, and bring the folder into that state: a killed writer may have left it between two."""
        folder = self.folder
        try:
            found = _Progress.read(folder)
        except StoreDamagedError:
            folder.remove(_PROGRESS)
            found = _Progress({})
        tiles = {
            tile: sums
            for tile, sums in found.tiles.items()
            if 0 <= tile < self.tiles
            and all(self._holds(_file(name, spec, tile), sums.get(name)) for name, spec in self.arrays.items())
        }
        whole = [self._holds(_file(name, found.whole[name], 0), sha) for name, sha in found.checksums.items()]
        is_complete = found.complete and len(tiles) == self.tiles and all(whole)
        self._progress = found if is_complete else _Progress(tiles)
        folder.remove_parts()
        if not is_complete:
            if tiles != found.tiles or found.complete or folder.read(_PROGRESS) is None:
                self._progress.write(folder)
            done = {_file(name, spec, tile) for tile in tiles for name, spec in self.arrays.items()}
            for file in folder.sizes(_ARRAYS).keys() - done:
                if not file.endswith(_DESCRIPTION):
                    folder.remove(file)
        for file, data in _descriptions({**self.arrays, **self._progress.whole}).items():
            if folder.read(file) != data:
                folder.write(file, data)

    def _write_progress(self, progress: _Progress) -> None:
        with disk_errors(self.folder, needs=lambda: _missing(self.folder, self.arrays)[1]):
            progress.write(self.folder)
        self._progress = progress

    def _holds(self, name: str, checksum: str | None) -> bool:
        """Tell whether a file is there, readable, and has this checksum."""
        try:
            data = self.folder.read(name)
        except OSError:
            return False
        return data is not None and sha256_of(data) == checksum

    def _check_open(self, *, for_tiles: bool = False) -> None:
        if not self._lock.held:
            raise StoreError(
                f"the store {str(self.folder)!r} is closed, or was opened by another process. "
                "Write within `with TileStore.open_for_writing(...)`, in the process that opened it."
            )
        if for_tiles and self.complete:
            raise StoreError(f"{str(self.folder)!r} is complete; no tile of it can be written.")
