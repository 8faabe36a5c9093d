"""The cache folder of a compared method: what it depends on, and parts of an answer that are computed once.

Every question has a folder of its own below the cache, named after the rows and queries asked about. It is a store with
an identity: made with other data, another model or other options, it is refused with the names of what differs.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from turnover.errors import BaselineError
from turnover.storage import ArraySpec, TileStore, plain

from .rows_and_queries import Question

Part = dict[str, np.ndarray]


@dataclass(frozen=True)
class Cache:
    """A folder for finished parts, or None for no cache.

    Attributes:
        folder: where, or None.
        identity: what the user says that the numbers depend on, as JSON.
    """

    folder: Path | None
    identity: dict[str, Any]

    @classmethod
    def of(cls, cache: str | os.PathLike[str] | None, identity: Mapping[str, Any] | None) -> "Cache":
        """Return the cache that a user asks for; raise where a folder comes without an identity."""
        if cache is not None and identity is None:
            raise BaselineError(
                f"cache={os.fspath(cache)!r} needs identity=: a dict that says what the numbers depend on and the "
                'recipe cannot tell, such as identity={"model": "mlp, version 3"}.'
            )
        # Now, and not after hours of work: the scores carry it as JSON.
        return cls(None if cache is None else Path(cache), plain(identity or {}, where="identity"))

    def at(self, *names: str) -> Path | None:
        """Return a folder below the cache, or None."""
        return None if self.folder is None else self.folder.joinpath(*names)

    def parts(
        self,
        question: Question,
        depends_on: Callable[[], Mapping[str, Any]],
        arrays: Mapping[str, ArraySpec],
        compute: Callable[[int], Part],
        *,
        found: Callable[[int], Any] = lambda tile: None,
    ) -> Iterator[Part]:
        """Yield all tiles of arrays in order; those that are in the folder are read, the others are computed and kept.

        Args:
            question: what is asked.
            depends_on: says what the tiles depend on besides the user's identity; asked for only with a folder.
            arrays: geometry, the same tiles for all.
            compute: returns a tile.
            found: called with each tile that was in the folder already.
        """
        folder = self.at(question.name)
        if folder is None:
            yield from map(compute, range(next(iter(arrays.values())).tiles))
            return
        identity = {
            **depends_on(),
            **question.depends_on(),
            "threads": torch.get_num_threads(),  # another number gives other sums in the last bit
            "identity": self.identity,
        }
        with TileStore.open_for_writing(folder, identity=identity, arrays=arrays) as store:
            pending = store.pending()
            for tile in sorted(set(range(store.tiles)) - set(pending)):
                found(tile)
            for tile in pending:
                store.write(tile, compute(tile))
            if not store.complete:
                store.finish({"kind": "parts of an answer"})
        stored = TileStore.open_for_reading(folder)
        opened = {key: stored.array(key) for key in arrays}
        for tile in range(stored.tiles):
            yield {key: np.asarray(opened[key][spec.region(tile)]) for key, spec in arrays.items()}
