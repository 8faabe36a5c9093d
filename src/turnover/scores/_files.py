"""Results on disk: a folder (zarr) that is read in part, or one .npz file that NumPy alone reads.

Both hold the same arrays and attributes, format 1. Scores: `values` float32 [n, m] or [n] and, where scores are of
several replicas, `stderr` of the same shape, in a folder both in tiles of any shape; `ids` int64 [n], the mask ids;
where instances are called otherwise, `names`, a JSON list in ASCII as uint8; where known `offset`, `null_spread` and
`null`, float32. Attributes: `kind`, `format`, `queries`, `unit`, `path`, `replicas`,
`provenance` and `standardized`. The tokens of rows are `values` and `starts` in `tokens.npz` beside
the store, since rows of different length are no tiles; in a file, `token_values` and `token_starts`. Out-of-sample
predictions: `replicas`, `ids` and, where known, `labels`; attributes `path` and `provenance`.
"""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from turnover.errors import StoreDamagedError, StoreError, TooLargeError
from turnover.ids import Ints, names_from_bytes, names_to_bytes
from turnover.storage import (
    ArraySpec,
    Folder,
    StoredArrays,
    TileStore,
    arrays_in,
    atomic_file,
    is_path,
    open_arrays,
    open_folder,
)

from ._about import About
from ._arrays import Floats, Source, TokenScores, blocks, close, closed

Kind = Literal["scores", "out_of_sample"]
Arrays = dict[str, NDArray[Any]]
_Place = str | os.PathLike[str]

_FORMAT = 1
_TILE = 2**20
_TOKENS = "tokens.npz"
_WHOLE = ("ids", "names", "offset", "null_spread", "null")
_NEEDED: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "scores": (("values", "ids"), ("queries", "unit", "path", "replicas", "provenance", "standardized")),
    "out_of_sample": (("replicas", "ids"), ("path", "provenance")),
}
_DAMAGED = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


class _StoredSource(Source):
    """One array of a complete store; once it has been read as a whole, it stays in memory."""

    def __init__(self, stored: StoredArrays, name: str) -> None:
        self._stored = stored
        self._name = name
        self._spec = stored.arrays[name]
        self._lazy: Any = stored.array(name)
        self._read: Floats | None = None
        self.step = self._spec.tile[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._spec.shape

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


def save_scores(scores: Any, place: _Place) -> None:
    """Write scores to a folder, or to a file whose name ends with .npz."""
    attributes, whole, tokens = attributes_of(scores), whole_of(scores), scores.token_scores
    if _is_file(place):
        arrays = {name: source.whole for name, source in scores.sources.items()} | whole
        if tokens is not None:
            arrays |= {"token_values": tokens.values, "token_starts": tokens.starts}
        _write_file(place, attributes, arrays)
        return
    _write_folder(place, "scores", attributes, scores.sources, whole)
    if tokens is not None:
        with open_folder(place).writing(_TOKENS) as file:
            np.savez(file, values=tokens.values, starts=tokens.starts)


def open_scores(place: _Place) -> tuple[dict[str, Any], TokenScores | None]:
    """Return what the class `Scores` takes for saved scores, and their tokens; a folder is read when it is used."""
    if _is_file(place):
        attributes, arrays = _read_file(place, "scores")
        parts = {name: arrays.pop(f"token_{name}") for name in ("values", "starts") if f"token_{name}" in arrays}
        return {**attributes, **_with_names(arrays)}, TokenScores(**close(parts)) if parts else None
    stored = _open_folder(place, "scores")
    arguments = _known(stored.attributes, "scores")
    arguments |= _with_names({name: stored.read(name) for name in _WHOLE if name in stored.arrays})
    arguments |= {name: _StoredSource(stored, name) for name in ("values", "stderr") if name in stored.arrays}
    return arguments, _open_tokens(stored.folder, len(arguments["ids"]))


def save_predictions(place: _Place, attributes: Mapping[str, Any], arrays: Arrays) -> None:
    """Write out-of-sample predictions to a folder, or to a file whose name ends with .npz."""
    attributes = {"kind": "out_of_sample", "format": _FORMAT, **attributes}
    if _is_file(place):
        _write_file(place, attributes, arrays)
    else:
        _write_folder(place, "out_of_sample", attributes, {}, arrays)


def open_predictions(place: _Place) -> dict[str, Any]:
    """Return what the class `OutOfSample` takes for saved predictions."""
    if _is_file(place):
        attributes, arrays = _read_file(place, "out_of_sample")
        return attributes | _with_names(arrays)
    stored = _open_folder(place, "out_of_sample")
    arrays = {name: stored.read(name) for name in stored.arrays}
    return _known(stored.attributes, "out_of_sample") | _with_names(arrays)


def _is_file(place: _Place) -> bool:
    return is_path(place) and Path(place).suffix == ".npz"


def attributes_of(scores: Any) -> dict[str, Any]:
    about = vars(About.of(scores))
    queries = None if scores.queries is None else list(scores.queries)
    return {"kind": "scores", "format": _FORMAT, "queries": queries, **about}


def _known(attributes: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """Return the attributes that the class of the result takes."""
    return {name: attributes[name] for name in _NEEDED[kind][1]}


def whole_of(scores: Any) -> Arrays:
    arrays = {name: getattr(scores, name) for name in ("offset", "null_spread", "null")}
    known = {name: array for name, array in arrays.items() if array is not None}
    return id_arrays(scores) | known


def id_arrays(result: Any) -> Arrays:
    """Return the ids of a result as they are kept: mask ids and, where instances are called otherwise, their names."""
    return {"ids": result.mask_ids} | ({"names": names_to_bytes(result.ids)} if result.names else {})


def _with_names(arrays: Arrays) -> Arrays:
    """Return kept arrays with ids as results take them."""
    if "names" not in arrays:
        return arrays
    rest = {name: array for name, array in arrays.items() if name != "names"}
    return rest | {"ids": names_from_bytes(arrays["names"]), "mask_ids": arrays["ids"]}


def _write_folder(
    folder: _Place, kind: Kind, attributes: Mapping[str, Any], sources: Mapping[str, Source], whole: Arrays
) -> None:
    identity = {"kind": kind, "saved": _fingerprint(sources, attributes, whole)}
    specs = {name: _spec(source.shape) for name, source in sources.items()}
    with TileStore.open_for_writing(folder, identity=identity, arrays=specs) as store:
        for tile in store.pending():
            parts: Arrays = {}
            for name, source in sources.items():
                rows = specs[name].region(tile)[0]
                parts[name] = np.ascontiguousarray(source.rows(rows.start, rows.stop))
            store.write(tile, parts)
        if not store.complete:
            store.finish(attributes, whole=whole)


def _open_folder(folder: _Place, kind: Kind) -> StoredArrays:
    stored = TileStore.open_for_reading(folder)
    title = kind.replace("_", "-")
    if not stored.complete:
        raise StoreError(
            f"the {title} in {str(folder)!r} are not finished: {len(stored.done)} of {stored.tiles} tiles are done. "
            f"Run the call that began them again with out={str(folder)!r}: it resumes there."
        )
    _check_kind(folder, kind, stored.attributes, set(stored.arrays))
    return stored


def _write_file(file: _Place, attributes: Mapping[str, Any], arrays: Arrays) -> None:
    try:
        with atomic_file(file) as opened:
            cast("Any", np).savez_compressed(opened, attributes=np.array(json.dumps(attributes)), **arrays)
    except OSError as error:
        raise StoreError(
            f"cannot write {str(file)!r}: {error.strerror or error}. Give a file in a folder with room."
        ) from error


def _read_file(file: _Place, kind: Kind) -> tuple[dict[str, Any], Arrays]:
    try:
        arrays = _load(file)
        attributes: dict[str, Any] = json.loads(str(arrays.pop("attributes")))
    except FileNotFoundError as error:
        raise StoreError(f"there is no file {str(file)!r}. Give a file of saved results.") from error
    except TooLargeError:
        raise
    except _DAMAGED as error:
        raise StoreDamagedError(
            f"{str(file)!r} is damaged ({type(error).__name__}: {error})", cure="Compute its content again."
        ) from error
    _check_kind(file, kind, attributes, set(arrays))
    return _known(attributes, kind), close(arrays)


def _load(file: _Place) -> Arrays:
    with open_arrays(file) as opened:
        return {name: opened[name] for name in opened.files}


def _check_kind(place: _Place, kind: Kind, attributes: Mapping[str, Any], arrays: set[str]) -> None:
    title = kind.replace("_", "-")
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


def _open_tokens(folder: Folder, rows: int) -> TokenScores | None:
    """Return the tokens in a folder of scores; None where there are none."""
    file, cure = f"{folder}/{_TOKENS}", "Save the scores to another folder."
    try:
        with folder.reading(_TOKENS) as opened, arrays_in(opened, file) as arrays:
            tokens = TokenScores(**close({name: arrays[name] for name in arrays.files}))
    except FileNotFoundError:
        return None
    except TooLargeError:
        raise
    except _DAMAGED as error:
        raise StoreDamagedError(f"{file!r} is damaged ({error})", cure=cure) from error
    if len(tokens) != rows:
        raise StoreDamagedError(
            f"{file!r} has the tokens of {len(tokens)} rows, but there are {rows} scores", cure=cure
        )
    return tokens


def _spec(shape: tuple[int, ...]) -> ArraySpec:
    """Return tiles of whole rows, some megabytes each."""
    width = max(1, int(np.prod(shape[1:])))
    return ArraySpec(shape, "float32", (max(1, min(_TILE // width, shape[0])), *(max(1, size) for size in shape[1:])))


def _fingerprint(sources: Mapping[str, Source], attributes: Mapping[str, Any], whole: Arrays) -> str:
    """Return a checksum of everything: the same result may be saved again, others are rejected by the store."""
    digest = hashlib.sha256(json.dumps(attributes, sort_keys=True).encode())
    for name in sorted(whole):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(whole[name]).tobytes())
    for name in sorted(sources):
        digest.update(f"{name}{sources[name].shape}".encode())
        for _, _, part in blocks(sources[name]):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
