"""Pairs written to a folder tile by tile, so that an interrupted run goes on where it stopped.

All that determines the bytes is fixed in the folder's identity before the first tile: models, data, options, the path
taken, chunk and tile geometry and the number of threads.
"""

import os

import numpy as np
import torch

from turnover.scores import Scores, finish_store
from turnover.storage import ArraySpec, TileStore

from .estimate.denoise import DenoisedBlock
from .pairs import Block, average
from .progress import Progress
from .question import QUERIES_PER_BLOCK, Question

IDS_PER_TILE = 4096


def store_pairs(folder: str | os.PathLike[str], question: Question, bar: Progress) -> Scores:
    """Compute what a folder still lacks and return its scores, which are read when they are used."""
    shape = (len(question.ids), len(question.queries))
    tile = (min(IDS_PER_TILE, shape[0]), min(QUERIES_PER_BLOCK, shape[1]))
    spec = ArraySpec(shape=shape, dtype="float32", tile=tile)
    arrays = {"values": spec, "stderr": spec} if question.has_errors else {"values": spec}
    identity = {
        **question.provenance,
        "paths": [route.path for route in question.routes],
        "chunks": [route.ids_per_chunk for route in question.routes],
        "memory": question.options.memory,
        "threads": torch.get_num_threads(),
    }
    with TileStore.open_for_writing(folder, identity=identity, arrays=arrays) as store:
        if not store.complete:
            filling = _Filling(store, question, bar)
            filling.fill()
            finish_store(
                store,
                ids=question.ids.numpy(),
                queries=question.names,
                null=np.concatenate([filling.null(start) for start in range(0, shape[1], tile[1])], 1),
                offset=np.concatenate([filling.offset(start) for start in range(0, shape[1], tile[1])])
                if question.options.center
                else None,
                **question.about,
            )
    return Scores.open(folder)


class _Filling:
    """The work on what a store lacks; null scores of finished blocks are kept for the end."""

    def __init__(self, store: TileStore, question: Question, bar: Progress) -> None:
        self._store, self._question, self._bar = store, question, bar
        self._ends: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def fill(self) -> None:
        """Compute all pending tiles, block of queries after block, so that each block is made ready once."""
        by_block: dict[int, list[tuple[int, slice]]] = {}
        for tile in self._store.pending():
            rows, columns = self._store.region("values", tile)
            by_block.setdefault(columns.start, []).append((tile, rows))
        for start, tiles in sorted(by_block.items()):
            numbers, rows = [number for number, _ in tiles], [rows for _, rows in tiles]
            scored = self._question.scored(self._block(start), rows)
            for number, tile in zip(numbers, scored, strict=True):
                mean, stderr = average(tile.members, tile.errors)
                self._store.write(number, {"values": mean} if stderr is None else {"values": mean, "stderr": stderr})
                self._bar.add(tile.size)

    def _block(self, start: int) -> Block | DenoisedBlock:
        block = self._question.block(start, self._bar)
        self._ends[start] = block.null, block.offset
        return block

    def null(self, start: int) -> np.ndarray:
        """Return the null scores of a block; one that an earlier run finished is made again."""
        if start not in self._ends:
            self._block(start)
        return self._ends[start][0]

    def offset(self, start: int) -> np.ndarray:
        """Return the offsets of a block."""
        if start not in self._ends:
            self._block(start)
        return self._ends[start][1]
