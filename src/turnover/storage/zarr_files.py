"""The zarr format of a store, down to the byte, so that a resumed run cannot differ from an uninterrupted one.

Array descriptions are written from here and not by zarr, whose wording may change between versions. Chunks are tiles:
little-endian numbers without compression (scores hardly compress, and compressors change) and a crc32c, which zarr
checks whenever it reads.
"""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from turnover.errors import MissingExtraError

from .geometry import ArraySpec

if TYPE_CHECKING:
    import zarr

ARRAYS_NAME = "arrays"
METADATA_NAME = "zarr.json"
_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_CRC = {"name": "crc32c"}


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


def open_array(folder: Path) -> "zarr.Array[Any]":
    """Return the array in a folder, for reading."""
    import zarr
    from zarr.storage import LocalStore

    return cast("Any", zarr).open_array(LocalStore(folder, read_only=True), mode="r", zarr_format=3)


def _fill_value(dtype: str) -> bool | float:
    """Return what an array shows where nothing is written yet."""
    return {"b": False, "f": math.nan}.get(np.dtype(dtype).kind, 0)


def _as_bytes(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()
