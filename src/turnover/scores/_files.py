"""Results on disk: a folder (zarr) that is read in part, or one .npz file that NumPy alone reads.

Both hold the same arrays and attributes, format 1. Scores: `values` float32 [n, m] or [n] and, where scores are of
several replicas, `stderr` of the same shape, in a folder both in tiles of any shape; `ids` int64 [n], the mask ids;
where instances are called otherwise, `names`, a JSON list in ASCII as uint8; where known `offset`, `null_spread` and
`null`, float32; where tokens are known, `token_values` of all rows one after the other and `token_starts`. Attributes:
`kind`, `format`, `queries`, `unit`, `path`, `replicas`, `provenance` and `standardized`. Out-of-sample predictions:
`replicas`, `ids` and, where known, `names` and `labels`; attributes `kind`, `format`, `path` and `provenance`.
"""

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from turnover.errors import StoreDamagedError, StoreError, TooLargeError
from turnover.ids import Ints, id_array
from turnover.storage import ArraySpec, StoredArrays, TileStore, atomic_file, is_path, open_arrays

from ._arrays import Floats, Source, blocks, close, closed

Kind = Literal["scores", "out_of_sample"]
Arrays = dict[str, NDArray[Any]]
Place = str | os.PathLike[str]

_FORMAT = 1
_TILE = 2**20
_TILED = ("values", "stderr")
_NEEDED: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "scores": (("values", "ids"), ("queries", "unit", "path", "replicas", "provenance", "standardized")),
    "out_of_sample": (("replicas", "ids"), ("path", "provenance")),
}


class _StoredSource(Source):
    """One array of a complete store; once it has been read as a whole, it stays in memory."""

    def __init__(self, stored: StoredArrays, name: str) -> None:
        self._stored = stored
        self._name = name
        self._lazy: Any = stored.array(name)
        self._read: Floats | None = None
        self.step = stored.arrays[name].tile[0]
        self.shape = stored.arrays[name].shape

    @property
    def whole(self) -> Floats:
        """Return all numbers, with every checksum verified, read-only."""
        if self._read is None:
            self._read = closed(self._stored.read(self._name))
        return self._read

    @property
    def folder(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return str(self._stored.folder) if self._read is None else None

    def rows(self, start: int, stop: int) -> Floats:
        if self._read is not None:
            return super().rows(start, stop)
        with self._checked():
            return np.asarray(self._lazy[start:stop])

    def take(self, rows: Ints | None, columns: Ints | None) -> Floats:
        if self._read is not None or (rows is None and columns is None):
            return super().take(rows, columns)
        chosen = [slice(None) if part is None else part for part in (rows, columns)]
        with self._checked():
            return np.asarray(self._lazy.oindex[tuple(chosen[: len(self.shape)])])

    @contextmanager
    def _checked(self) -> Generator[None]:
        """Say which folder is damaged where zarr finds that a checksum does not match."""
        try:
            yield
        except (ValueError, OSError) as error:
            raise StoreDamagedError(
                f"{self._name!r} in {str(self._stored.folder)!r} cannot be read ({error})",
                cure="Run the call that made the folder again with out= that folder: it computes what is damaged.",
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the folder: another process reads it there."""
        return _reopened, (str(self._stored.folder), self._name)


def _reopened(folder: str, name: str) -> _StoredSource:
    return _StoredSource(StoredArrays(folder), name)


def attributes_of(kind: Kind, about: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "format": _FORMAT, **about}


def arrays_of(result: Any, *others: str) -> Arrays:
    """Return the arrays of a result that are written whole: ids, names where instances have some, and known others."""
    ids: Arrays = {"ids": result.mask_ids}
    if result.names:
        ids["names"] = np.frombuffer(json.dumps(result.ids.tolist()).encode("ascii"), np.uint8)
    return ids | {name: array for name in others if (array := getattr(result, name)) is not None}


def write_result(place: Place, attributes: dict[str, Any], tiled: Mapping[str, Source], whole: Arrays) -> None:
    """Write a result to a folder, or to a file whose name ends with .npz."""
    if not _is_file(place):
        identity = {"kind": attributes["kind"], "saved": _fingerprint(tiled, attributes, whole)}
        specs = {name: _spec(source.shape) for name, source in tiled.items()}
        with TileStore.open_for_writing(place, identity=identity, arrays=specs) as store:
            for tile in store.pending():
                rows = {name: spec.region(tile)[0] for name, spec in specs.items()}
                parts = {name: source.rows(rows[name].start, rows[name].stop) for name, source in tiled.items()}
                store.write(tile, {name: np.ascontiguousarray(part) for name, part in parts.items()})
            if not store.complete:
                store.finish(attributes, whole=whole)
        return
    arrays: Arrays = {name: source.whole for name, source in tiled.items()} | whole
    try:
        with atomic_file(place) as opened:
            cast("Any", np).savez_compressed(opened, attributes=np.array(json.dumps(attributes)), **arrays)
    except OSError as error:
        raise StoreError(
            f"cannot write {str(place)!r}: {error.strerror or error}. Give a file in a folder with room."
        ) from error


def read_result(place: Place, kind: Kind) -> dict[str, Any]:
    """Return what the class of a result takes for a saved one; tiled arrays of a folder are read when they are used."""
    title = kind.replace("_", "-")
    stored = None if _is_file(place) else TileStore.open_for_reading(place)
    arrays: dict[str, Any]
    if stored is None:
        attributes, arrays = _read_file(place)
    else:
        if not stored.complete:
            raise StoreError(
                f"the {title} in {str(place)!r} are not finished: {len(stored.done)} of {stored.tiles} tiles are done. "
                f"Run the call that began them again with out={str(place)!r}: it resumes there."
            )
        attributes, arrays = stored.attributes, dict.fromkeys(stored.arrays)
    if attributes.get("kind") != kind:
        raise StoreError(f"{str(place)!r} must hold {title}, got {attributes.get('kind') or 'something else'!r}.")
    if attributes.get("format") != _FORMAT:
        raise StoreError(
            f"the {title} in {str(place)!r} have format {attributes.get('format')}; this version of turnover reads "
            f"format {_FORMAT}. Use the version that made them."
        )
    missing = [name for name in _NEEDED[kind][0] if name not in arrays]
    missing += [name for name in _NEEDED[kind][1] if name not in attributes]
    if missing:
        raise StoreDamagedError(
            f"the {title} in {str(place)!r} have no {', '.join(missing)}", cure="Compute them again."
        )
    if stored is not None:
        arrays = {name: _StoredSource(stored, name) if name in _TILED else stored.read(name) for name in arrays}
    if "names" in arrays:
        arrays |= {"ids": id_array(json.loads(arrays.pop("names").tobytes())), "mask_ids": arrays["ids"]}
    return {name: attributes[name] for name in _NEEDED[kind][1]} | arrays


def _is_file(place: Place) -> bool:
    return is_path(place) and Path(place).suffix == ".npz"


def _read_file(file: Place) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        with open_arrays(file) as opened:
            arrays = {name: opened[name] for name in opened.files}
        attributes: dict[str, Any] = json.loads(str(arrays.pop("attributes")))
    except FileNotFoundError as error:
        raise StoreError(f"there is no file {str(file)!r}. Give a file of saved results.") from error
    except TooLargeError:
        raise
    except (OSError, ValueError, TypeError) as error:
        raise StoreDamagedError(
            f"{str(file)!r} is damaged ({type(error).__name__}: {error})", cure="Compute its content again."
        ) from error
    return attributes, close(arrays)


def _spec(shape: tuple[int, ...]) -> ArraySpec:
    """Return tiles of whole rows, some megabytes each."""
    width = max(1, int(np.prod(shape[1:])))
    return ArraySpec(shape, "float32", (max(1, min(_TILE // width, shape[0])), *(max(1, size) for size in shape[1:])))


def _fingerprint(tiled: Mapping[str, Source], attributes: Mapping[str, Any], whole: Arrays) -> str:
    """Return a checksum of everything: the same result may be saved again, others are rejected by the store."""
    digest = hashlib.sha256(json.dumps(attributes, sort_keys=True).encode())
    for name in sorted(whole):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(whole[name]).tobytes())
    for name in sorted(tiled):
        digest.update(f"{name}{tiled[name].shape}".encode())
        for _, _, part in blocks(tiled[name]):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
