"""Pairs written to a folder tile by tile, so that an interrupted run goes on where it stopped.

All that determines the bytes is fixed in the folder's identity before the first tile: models, data, options, the path
taken, chunk and tile geometry and the number of threads.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.scores import Scores
from turnover.scores.stored import finish_store
from turnover.storage import ArraySpec, TileStore

from .pairs import Block
from .progress import Progress

IDS_PER_TILE = 4096


def store_pairs(
    folder: str,
    *,
    ids: Tensor,
    names: Sequence[int | str],
    members: int,
    queries_per_block: int,
    block_at: Callable[[int], Block],
    identity: dict[str, Any],
    about: dict[str, Any],
    centred: bool,
    bar: Progress,
) -> Scores:
    """Compute what a folder still lacks and return its scores.

    Args:
        folder: new, or left by an earlier run of the same work.
        ids: the instances.
        names: of the queries.
        members: number of models; with more than one, standard errors are stored too.
        queries_per_block: queries of a tile.
        block_at: makes the block of queries that begins at a place.
        identity: all that determines the scores.
        about: unit, path and provenance of the scores.
        centred: whether offsets were subtracted.
        bar: counts pairs.
    """
    shape = (len(ids), len(names))
    tile = (min(IDS_PER_TILE, shape[0]), min(queries_per_block, shape[1]))
    spec = ArraySpec(shape=shape, dtype="float32", tile=tile)
    arrays = {"values": spec, "stderr": spec} if members > 1 else {"values": spec}
    identity = {**identity, "threads": torch.get_num_threads(), "tile": list(tile)}
    with TileStore.open_for_writing(folder, identity=identity, arrays=arrays) as store:
        if not store.complete:
            seen: dict[int, tuple[np.ndarray, np.ndarray]] = {}
            _fill(store, ids, block_at, bar, seen)
            null, offset = _nulls(range(0, shape[1], tile[1]), block_at, seen)
            offsets = offset if centred else None
            finish_store(store, ids=ids.numpy(), queries=names, null=null, offset=offsets, replicas=members, **about)
    bar.close()
    return Scores.open(folder)


def _fill(
    store: TileStore,
    ids: Tensor,
    block_at: Callable[[int], Block],
    bar: Progress,
    seen: dict[int, tuple[np.ndarray, np.ndarray]],
) -> None:
    """Compute all pending tiles, block of queries after block, so that each block is made ready once."""
    by_block: dict[int, list[tuple[int, slice]]] = {}
    for tile in store.pending():
        rows, columns = store.region("values", tile)
        by_block.setdefault(columns.start, []).append((tile, rows))
    for start, tiles in sorted(by_block.items()):
        block = block_at(start)
        seen[start] = block.null, block.offset
        for tile, rows in tiles:
            mean, stderr = block.mean_and_stderr(ids[rows])
            store.write(tile, {"values": mean} if stderr is None else {"values": mean, "stderr": stderr})
            bar.add(mean.size)


def _nulls(
    starts: range, block_at: Callable[[int], Block], seen: dict[int, tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return null scores and offsets of all queries; blocks that an earlier run finished are made again."""
    for start in starts:
        if start not in seen:
            block = block_at(start)
            seen[start] = block.null, block.offset
    null, offset = zip(*(seen[start] for start in starts), strict=True)
    return np.concatenate(null, 1), np.concatenate(offset)
