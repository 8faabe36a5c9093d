"""A question that was opened: queries, instances and models fit together, and how each model is asked is settled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from .executor import Executor
from .options import Options
from .pairs import Block
from .queries import Batch
from .route import Route

QUERIES_PER_BLOCK = 128
IDS_PER_TILE = 8192


@dataclass(frozen=True)
class Question:
    """What each of some instances does to each of some queries."""

    queries: Sequence[Batch]
    routes: Sequence[Route]
    ids: Tensor
    options: Options
    executor: Executor
    unit: str
    provenance: dict[str, Any]

    @property
    def pairs(self) -> int:
        """Return how many scores there are."""
        return len(self.ids) * len(self.queries)

    @property
    def names(self) -> tuple[int | str, ...]:
        """Return the name of each query: its id where all have one of their own, else its place."""
        ids = [int(query.ids[0]) for query in self.queries if query.ids is not None]
        return tuple(ids) if len(set(ids)) == len(self.queries) else tuple(range(len(self.queries)))

    @property
    def about(self) -> dict[str, Any]:
        """Return what scores say of themselves."""
        return {
            "unit": self.unit,
            "path": " / ".join(dict.fromkeys(route.path for route in self.routes)),
            "replicas": len(self.routes),
            "provenance": self.provenance,
        }

    def block(self, start: int) -> Block:
        """Return the block of queries that begins at a place."""
        return Block(self.routes, self.queries[start : start + QUERIES_PER_BLOCK], center=self.options.center)

    def blocks(self) -> Iterator[tuple[slice, Block]]:
        """Yield all blocks of queries with their columns."""
        for start in range(0, len(self.queries), QUERIES_PER_BLOCK):
            yield slice(start, min(start + QUERIES_PER_BLOCK, len(self.queries))), self.block(start)

    def tiles(self, block: Block) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the scores [members, instances, queries] of one block, a range of instances at a time."""
        count = len(self.ids)
        rows = [slice(start, min(start + IDS_PER_TILE, count)) for start in range(0, count, IDS_PER_TILE)]
        yield from zip(rows, self.executor.map(lambda part: block.members(self.ids[part]), rows), strict=True)
