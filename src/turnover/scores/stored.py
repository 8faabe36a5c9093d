"""Scores in a folder: which arrays and attributes a store of scores has, saving and opening.

The format, version 1. Tiled, in tiles of any shape: `values` float32 [n, m] or [n] and, where scores are of several
replicas, `stderr` of the same shape. Whole: `ids` int64 [n] and, where known, `offset`, `null_spread` and `null`,
float32. Attributes: `kind` ("scores"), `format` (1), `queries`, `unit`, `path`, `replicas` and `provenance`.
"""

import hashlib
import json
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnover.errors import StoreDamagedError, StoreError
from turnover.storage import ArraySpec, TileStore

from .about import told_by
from .content import Content
from .on_disk import OnDisk
from .source import Source, blocks

KIND = "scores"
FORMAT = 1
_TILE = 2**20
_WHOLE = ("ids", "offset", "null_spread", "null")
_ATTRIBUTES = ("queries", "unit", "path", "replicas", "provenance")


def finish_store(store: TileStore, **given: Any) -> None:
    """Make a store whose tiles are all written one of scores, so that `Scores.open` reads it.

    Args:
        store: with the tiled array `values` and, if scores are of several replicas, `stderr`.
        **given: what the class `Scores` takes, without values and stderr.

    Example:
        >>> import tempfile
        >>> from turnover.scores import Scores
        >>> arrays = {"values": ArraySpec(shape=(2,), dtype="float32", tile=(2,))}
        >>> folder = tempfile.mkdtemp()
        >>> with TileStore.open_for_writing(folder, identity={"seed": 0}, arrays=arrays) as store:
        ...     store.write(0, {"values": np.array([1, 2], np.float32)})
        ...     finish_store(store, ids=[7, 8], unit="margin")
        >>> Scores.open(folder).values
        array([1., 2.], dtype=float32)
    """
    # One closed zero, seen as an array of the right shape, stands for the values: all the rest is checked with it.
    zero = np.zeros((), np.float32)
    zero.flags.writeable = False
    content = Content(np.broadcast_to(zero, store.arrays["values"].shape), **given)
    attributes, whole = _ending(content)
    store.finish(attributes, whole=whole)


def save(scores: Content, folder: str | os.PathLike[str]) -> None:
    """Write scores to a folder."""
    sources = dict(scores.sources)
    spec = _spec(scores.shape)
    attributes, whole = _ending(scores)
    identity = {"kind": KIND, "saved": _fingerprint(sources, attributes, whole)}
    with TileStore.open_for_writing(folder, identity=identity, arrays=dict.fromkeys(sources, spec)) as store:
        for tile in store.pending():
            rows = spec.region(tile)[0]
            parts = {name: np.ascontiguousarray(source.rows(rows.start, rows.stop)) for name, source in sources.items()}
            store.write(tile, parts)
        if not store.complete:
            store.finish(attributes, whole=whole)


def opened(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what the class `Scores` takes for the scores in a folder, with values that are read when used."""
    stored = TileStore.open_for_reading(folder)
    told = stored.attributes
    if not stored.complete:
        raise StoreError(
            f"the scores in {str(folder)!r} are not finished: {len(stored.done)} of {stored.tiles} tiles are done. "
            f"Run the call that began them again with out={str(folder)!r}: it goes on from there."
        )
    if told.get("kind") != KIND:
        raise StoreError(f"{str(folder)!r} holds {told.get('kind') or 'something else'!r} and no scores.")
    if told.get("format") != FORMAT:
        raise StoreError(
            f"the scores in {str(folder)!r} have format {told.get('format')}; this version of turnover reads format "
            f"{FORMAT}. Use the version that made them."
        )
    missing = [name for name in ("values", "ids") if name not in stored.arrays]
    missing += [name for name in _ATTRIBUTES if name not in told]
    if missing:
        raise StoreDamagedError(f"the scores in {str(folder)!r} have no {', '.join(missing)}. Compute them again.")
    given: dict[str, Any] = {name: told[name] for name in _ATTRIBUTES}
    given |= {name: stored.read(name) for name in _WHOLE if name in stored.arrays}
    return given | {name: OnDisk(stored, name) for name in ("values", "stderr") if name in stored.arrays}


def _ending(scores: Content) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the attributes and the whole arrays of a store of scores."""
    attributes: dict[str, Any] = {"kind": KIND, "format": FORMAT, **vars(told_by(scores))}
    attributes["queries"] = None if scores.queries is None else list(scores.queries)
    arrays = {name: getattr(scores, name) for name in _WHOLE}
    return attributes, {name: array for name, array in arrays.items() if array is not None}


def _spec(shape: tuple[int, ...]) -> ArraySpec:
    """Return tiles of whole rows, some megabytes each."""
    width = max(1, int(np.prod(shape[1:])))
    return ArraySpec(shape, "float32", (max(1, min(_TILE // width, shape[0])), *(max(1, size) for size in shape[1:])))


def _fingerprint(sources: dict[str, Source], attributes: dict[str, Any], whole: dict[str, NDArray[Any]]) -> str:
    """Return a checksum of everything: the same scores may be saved again, others are refused by the store."""
    digest = hashlib.sha256(json.dumps(attributes, sort_keys=True).encode())
    for name in sorted(whole):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(whole[name]).tobytes())
    for name in sorted(sources):
        digest.update(f"{name}{sources[name].shape}".encode())
        for _, _, part in blocks(sources[name]):
            digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
