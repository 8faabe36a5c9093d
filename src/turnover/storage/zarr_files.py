"""The zarr format of a store, down to the byte, so that a resumed run cannot differ from an uninterrupted one.

Array descriptions are written from here and not by zarr, whose wording may change between versions. Chunks are tiles:
little-endian numbers without compression (scores hardly compress, and compressors change) and a crc32c, which zarr
checks whenever it reads.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from turnover.errors import MissingExtraError

from .geometry import ArraySpec

if TYPE_CHECKING:
    import zarr
    from zarr.abc.store import Store

METADATA_NAME = "zarr.json"


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
            "fill_value": _fill_value(spec.dtype),
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "attributes": {},
            "storage_transformers": [],
        }
    )


def tile_bytes(spec: ArraySpec, part: np.ndarray) -> bytes:
    """Return the content of a tile's file; parts at the edges are filled up to a full tile."""
    from zarr.buffer import cpu
    from zarr.storage import MemoryStore

    # zarr writes to memory and not to the disk: it would leave half a file on a full disk and never syncs.
    one_tile = ArraySpec(spec.tile, spec.dtype, spec.tile)
    files: dict[str, Any] = {METADATA_NAME: cpu.Buffer.from_bytes(array_metadata(one_tile))}
    # A tile that holds nothing but the fill value must have its file too, or it would look missing.
    array = _open(MemoryStore(files), mode="r+", config={"write_empty_chunks": True})
    array[tuple(slice(size) for size in part.shape)] = part
    return files[one_tile.key(0)].to_bytes()


def open_array(folder: Path) -> "zarr.Array[Any]":
    """Return the array in a folder, for reading."""
    from zarr.storage import LocalStore

    return _open(LocalStore(folder, read_only=True), mode="r")


def _open(store: "Store", **options: Any) -> "zarr.Array[Any]":
    import zarr

    # zarr annotates its own function with types that are not always installed.
    return cast("Any", zarr).open_array(store, zarr_format=3, **options)


def _fill_value(dtype: str) -> bool | int | str:
    """Return what an array shows where nothing is written yet."""
    kind = np.dtype(dtype).kind
    return "NaN" if kind == "f" else False if kind == "b" else 0


def _as_bytes(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()
