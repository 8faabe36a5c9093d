"""A stored array: how it is cut into tiles, and its zarr format, down to the byte.

Array descriptions are written from here and not by zarr, whose wording may change between versions, so that a resumed
run cannot differ from an uninterrupted one. Chunks are tiles: little-endian numbers without compression (scores hardly
compress, and compressors change) and a crc32c, which zarr checks whenever it reads.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from turnover.errors import MissingExtraError, StoreError

from .files import sha256_of

if TYPE_CHECKING:
    import zarr

ARRAYS_NAME = "arrays"
METADATA_NAME = "zarr.json"
_DTYPES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split(),
)
_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_CRC = {"name": "crc32c"}
_CRC_BYTES = 4
# NumPy's arrays have no more.
_MOST_DIMENSIONS = 32


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
        """The number of tiles."""
        return math.prod(self.grid)

    @property
    def bytes(self) -> int:
        """The size of the array."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def file_bytes(self) -> int:
        """The size of a tile's file; zarr fills the tiles at the edges up to full size."""
        return math.prod(self.tile) * np.dtype(self.dtype).itemsize + _CRC_BYTES

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
        return "/".join(["c", *map(str, self._place(tile))])

    def _place(self, tile: int) -> tuple[int, ...]:
        if not 0 <= tile < self.tiles:
            raise StoreError(f"tile {tile} does not exist: tiles are numbered from 0, and there are {self.tiles}.")
        place: list[int] = []
        for count in reversed(self.grid):
            tile, index = divmod(tile, count)
            place.append(index)
        return tuple(reversed(place))


def tiles_of(arrays: Mapping[str, ArraySpec]) -> int:
    """Return the number of tiles that all arrays share; 0 where there is no array.

    Grids are the same if they differ in trailing ones only, so rows [n] may lie beside values [n, m] that are cut
    along n alone.
    """
    grids = {name: _without_trailing_ones(spec.grid) for name, spec in arrays.items()}
    if len(set(grids.values())) > 1:
        shown = ", ".join(f"{name!r} {arrays[name].grid}" for name in grids)
        raise StoreError(
            f"all arrays of a store must be cut into the same grid of tiles, got {shown}. "
            "Choose fitting tiles, or hand small arrays to finish(whole=...)."
        )
    return next((spec.tiles for spec in arrays.values()), 0)


def _without_trailing_ones(grid: tuple[int, ...]) -> tuple[int, ...]:
    while grid and grid[-1] == 1:
        grid = grid[:-1]
    return grid


def require_zarr() -> None:
    """Raise unless zarr 3 can be imported."""
    install = "pip install 'turnover[store]'"
    try:
        import zarr
    except ImportError as error:
        raise MissingExtraError(f"storing results in a folder needs zarr: {install}.") from error
    if int(zarr.__version__.partition(".")[0]) < 3:
        raise MissingExtraError(f"storing results needs zarr 3, found {zarr.__version__}: {install} --upgrade.")


def group_metadata() -> bytes:
    """Return the description of the folder that holds all arrays."""
    return _as_bytes({"zarr_format": 3, "node_type": "group", "attributes": {}})


def array_metadata(spec: ArraySpec) -> bytes:
    """Return the description of an array."""
    return _as_bytes(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": spec.shape,
            "data_type": spec.dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": spec.tile}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN" if spec.dtype.startswith("float") else _fill_value(spec.dtype),
            "codecs": [_BYTES, _CRC],
            "attributes": {},
            "storage_transformers": [],
        }
    )


def tile_bytes(spec: ArraySpec, part: np.ndarray) -> bytes:
    """Return the content of a tile's file; parts at the edges are filled up to a full tile."""
    import zarr
    from zarr.storage import MemoryStore

    # zarr writes to memory and not to the disk, which it would not wait for.
    files: dict[str, Any] = {}
    # zarr annotates its functions with types that are not always installed.
    array = cast("Any", zarr).create_array(
        MemoryStore(files),
        shape=spec.tile,
        chunks=spec.tile,
        dtype=spec.dtype,
        fill_value=_fill_value(spec.dtype),
        filters=None,
        serializer=_BYTES,
        compressors=[_CRC],
        # A tile that holds nothing but the fill value must have its file too, or it would look missing.
        config={"write_empty_chunks": True},
    )
    array[tuple(slice(size) for size in part.shape)] = part
    return files["/".join(["c", *("0" for _ in spec.tile)])].to_bytes()


def open_array(store: Any) -> "zarr.Array[Any]":
    """Return the array in what zarr calls a store, for reading."""
    import zarr

    return cast("Any", zarr).open_array(store, mode="r", zarr_format=3)


def verified(kind: Any, checksums: Mapping[str, str]) -> Any:
    """Return a kind of zarr's stores that hands out what was written: tiles whose SHA-256 is here, by their keys.

    The crc32c cannot tell a damaged tile from one of another store, or from another place.
    """

    def check(key: str, part: Any, found: Any) -> Any:
        if part is None and key in checksums and (found is None or sha256_of(found.to_bytes()) != checksums[key]):
            raise ValueError(f"{key} is missing, or its checksum is not that of what was written")
        return found

    async def get(self: Any, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        return check(key, byte_range, await kind.get(self, key, prototype, byte_range))

    def get_sync(self: Any, key: str, *, prototype: Any = None, byte_range: Any = None) -> Any:
        return check(key, byte_range, kind.get_sync(self, key, prototype=prototype, byte_range=byte_range))

    # zarr asks a store whether it can be read without an event loop.
    methods = {"get": get, "get_sync": get_sync} if hasattr(kind, "get_sync") else {"get": get}
    return type("VerifiedStore", (kind,), methods)


def _fill_value(dtype: str) -> bool | float:
    """Return what an array shows where nothing is written yet."""
    return {"b": False, "f": math.nan}.get(np.dtype(dtype).kind, 0)


def _as_bytes(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()
