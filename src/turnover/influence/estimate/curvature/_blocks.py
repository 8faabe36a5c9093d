"""A block of queries that scores the training rows in one pass, tile by tile."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import InfluenceError
from turnover.influence.blocks import Finish, Part, Tile
from turnover.influence.execution import Executor

from ._gradients import LayerRun
from ._members import AtLayers

Stream = Callable[[np.ndarray], Iterator[tuple[np.ndarray, list[dict[str, LayerRun]]]]]
"""Gives the gradients at all layers, for every member, of the training rows at some places."""


@dataclass(frozen=True)
class Instances:
    """The training instances: how to read their rows, where each is, how many rows each has."""

    stream: Stream
    places: Callable[[Tensor], np.ndarray]
    rows_of: np.ndarray


class Block:
    """Queries with the inverse curvature applied, ready to score training rows."""

    member_nulls = None

    def __init__(self, instances: Instances, members: Sequence[Sequence[AtLayers]], columns: int) -> None:
        """Keep the queries of every member at every layer, a batch after the other."""
        self._instances, self._queries = instances, members
        self.offset = np.zeros(columns, np.float32)

    def mean_noise(self) -> None:
        """Return None: there are no null ids."""

    def tiles(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterator[Any]:
        """Yield what `finish` makes of each part of the instances, in their order: one pass over the training rows."""
        shape = len(self._queries), len(self.offset)
        waiting = [_Waiting(self._instances, part.ids, *shape) for part in parts]
        places = np.unique(np.concatenate([tile.places for tile in waiting]))
        done = 0
        for at, members in self._instances.stream(places):
            scores = np.stack([_scores(runs, queries) for runs, queries in zip(members, self._queries, strict=True)])
            for tile in waiting[done:]:
                tile.add(at, scores)
            while done < len(waiting) and waiting[done].missing == 0:
                yield finish(parts[done], waiting[done].tile())
                done += 1
        if done < len(parts):
            raise InfluenceError(
                f"train showed fewer rows than when it was read before: {len(parts) - done} parts of the scores lack "
                "rows. Give data that can be read again and again, such as a Dataset."
            )


def _scores(runs: dict[str, LayerRun], queries: Sequence[AtLayers]) -> np.ndarray:
    columns = [
        torch.stack([part.scores(runs[name]) for name, part in by_layer.items() if name in runs]).sum(0)
        for by_layer in queries
    ]
    return torch.cat(columns, 1).cpu().numpy()


class _Waiting:
    """A tile whose rows are being added up."""

    def __init__(self, instances: Instances, ids: Tensor, members: int, columns: int) -> None:
        self.places, back = np.unique(instances.places(ids), return_inverse=True)
        self._back = back.reshape(-1)
        self.missing = int(instances.rows_of[self.places].sum())
        self._shape = (members, len(self.places), columns)
        self._sums: np.ndarray | None = None

    def add(self, at: np.ndarray, scores: np.ndarray) -> None:
        """Add the scores [members, rows, queries] of rows at their places, as far as they belong here."""
        spot = np.minimum(np.searchsorted(self.places, at), len(self.places) - 1)
        mine = self.places[spot] == at
        if not mine.any():
            return
        if self._sums is None:
            self._sums = np.zeros(self._shape, np.float32)
        spot = spot[mine]
        if len(np.unique(spot)) == len(spot):
            self._sums[:, spot] += scores[:, mine]
        else:  # rows of one instance meet: they add up, which plain indexing would not do
            np.add.at(self._sums.transpose(1, 0, 2), spot, scores[:, mine].transpose(1, 0, 2))
        self.missing -= int(mine.sum())

    def tile(self) -> Tile:
        """Return the finished tile, and keep nothing."""
        sums, self._sums = self._sums, None
        assert sums is not None
        return Tile(sums[:, self._back])
