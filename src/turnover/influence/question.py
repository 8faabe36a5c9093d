"""A question that was opened: queries, instances and models fit together, and how each model is asked is settled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from turnover.batches import Batch

from .estimate.denoise import DenoisedBlock, Denoising
from .executor import Executor
from .options import Options
from .pairs import FEWEST_MEMBERS, Block, Tile
from .progress import Progress
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
    denoising: Denoising | None = None

    @property
    def work(self) -> int:
        """Return how many scores are computed: denoising needs those of all training instances first."""
        return self.pairs + (self.denoising.fit.basis.count * len(self.queries) if self.denoising else 0)

    @property
    def has_errors(self) -> bool:
        """Tell whether every score has a standard error of its own."""
        return self.denoising is not None or len(self.routes) >= FEWEST_MEMBERS

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
    def path(self) -> str:
        """Return how scores are computed."""
        path = " / ".join(dict.fromkeys(route.path for route in self.routes))
        return path if self.options.control is None else f"{path}; linear control variate"

    @property
    def about(self) -> dict[str, Any]:
        """Return what scores say of themselves, when all of them are computed."""
        scaled = self.denoising is not None and self.denoising.fit.ridge.scale == "query"
        return {
            "unit": f"the usual {self.unit} of each query" if scaled else self.unit,
            "path": f"{self.path}; {self.denoising.result}" if self.denoising else self.path,
            "replicas": len(self.routes),
            "provenance": self.provenance,
            "standardized": scaled,
        }

    def block(self, start: int, bar: Progress) -> Block | DenoisedBlock:
        """Return the block of queries that begins at a place; the bar counts the pairs that it needs first."""
        queries = self.queries[start : start + QUERIES_PER_BLOCK]
        control = self.options.control is not None
        raw = Block(self.routes, queries, center=self.options.center, control=control)
        return raw if self.denoising is None else self.denoising.block(start, raw, queries, self.executor, bar.add)

    def blocks(self, bar: Progress) -> Iterator[tuple[slice, Block | DenoisedBlock]]:
        """Yield all blocks of queries with their columns."""
        for start in range(0, len(self.queries), QUERIES_PER_BLOCK):
            yield slice(start, min(start + QUERIES_PER_BLOCK, len(self.queries))), self.block(start, bar)

    def tiles(self, block: Block | DenoisedBlock) -> Iterator[tuple[slice, Tile]]:
        """Yield the scores of one block, a range of instances at a time."""
        count = len(self.ids)
        rows = [slice(start, min(start + IDS_PER_TILE, count)) for start in range(0, count, IDS_PER_TILE)]
        yield from zip(rows, self.scored(block, rows), strict=True)

    def scored(self, block: Block | DenoisedBlock, rows: Sequence[slice]) -> Iterator[Tile]:
        """Yield the scores of one block for each range of instances, in their order."""
        if isinstance(block, DenoisedBlock):  # small products; features that are computed again need their order
            return (block.tile(self.ids[part]) for part in rows)
        return iter(self.executor.map(lambda part: block.tile(self.ids[part]), rows))
