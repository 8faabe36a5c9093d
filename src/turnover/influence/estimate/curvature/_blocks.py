"""A block of queries that scores the training rows in one pass, tile by tile."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from turnover.errors import InfluenceError
from turnover.influence._data import Segment
from turnover.influence.blocks import Finish, Part, Tile
from turnover.influence.execution import Executor, is_remote

from ._members import AtLayers
from ._passes import Reader, Rows, RowScores

_ROWS_AT_A_TIME = 1024  # of a task that scores rows: some megabytes of scores come back


@dataclass(frozen=True)
class Instances:
    """The training instances: the gradients of their rows, and how many rows each has."""

    rows: Rows
    rows_of: np.ndarray

    @property
    def reader(self) -> Reader:
        """Return what reads the rows."""
        return self.rows.reader

    def is_whole(self, places: np.ndarray) -> bool:
        """Tell whether instances are neighboring rows, one each, that begin and end where batches do."""
        rows = self.reader.rows_at_once
        return (
            len(self.rows_of) == self.reader.train.length
            and self.reader.train.can_be_cut(rows)
            and bool((np.diff(places) == 1).all())
            and places[0] % rows == 0
            and (len(places) % rows == 0 or places[-1] + 1 == len(self.rows_of))
        )


class Block:
    """Queries with the inverse curvature applied, ready to score training rows."""

    member_nulls = None

    def __init__(self, instances: Instances, members: Sequence[Sequence[AtLayers]], columns: int) -> None:
        """Keep the queries of every member at every layer, a batch after the other."""
        self._instances, self._queries = instances, members
        self.offset = np.zeros(columns, np.float32)

    def tiles(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterator[Any]:
        """Yield what `finish` makes of each part of the instances, in their order: one pass over the training rows.

        Where tasks run in other processes and a part is a range of rows, the part is a task. Else tasks are ranges of
        rows, and their scores are added up here.
        """
        train = self._instances.reader.train
        places = [train.positions(part.ids) for part in parts]
        if is_remote(executor) and all(self._instances.is_whole(at) for at in places):
            score = RowScores(self._instances.rows, self._queries, np.empty(0, bool))
            return executor.map(
                _FinishedRows(score, finish),
                [
                    (part, Segment(number, int(at[0]), int(at[-1]) + 1))
                    for number, (part, at) in enumerate(zip(parts, places, strict=True))
                ],
            )
        return self._added_up(parts, executor, finish)

    def _added_up(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterator[Any]:
        shape = len(self._queries), len(self.offset)
        waiting = [_Waiting(self._instances, part.ids, *shape) for part in parts]
        chosen = np.zeros(len(self._instances.rows_of), bool)
        chosen[np.concatenate([tile.places for tile in waiting])] = True
        task = RowScores(self._instances.rows, self._queries, chosen)
        segments = self._instances.rows.segments(_ROWS_AT_A_TIME, executor)
        owners = _Owners([tile.places for tile in waiting])
        done = 0
        for at, scores in (batch for found in executor.map(task, segments) for batch in found):
            for number in owners.of(at):
                waiting[number].add(at, scores)
            while done < len(waiting) and waiting[done].missing == 0:
                yield finish(parts[done], waiting[done].tile())
                done += 1
        if done < len(parts):
            raise InfluenceError(
                f"train showed fewer rows than when it was read before: {len(parts) - done} parts of the scores lack "
                "rows. Give data that can be read again and again, such as a Dataset."
            )


@dataclass(frozen=True)
class _FinishedRows:
    score: RowScores
    finish: Finish

    def __call__(self, item: tuple[Part, Segment]) -> Any:
        part, segment = item
        scores = np.concatenate([scores for _, scores in self.score(segment)], 1)
        return self.finish(part, Tile(scores + np.float32(0)))  # as a sum that begins with 0: of -0.0, too


class _Owners:
    """The tiles that each place belongs to; an instance that was asked for twice may be in two of them."""

    def __init__(self, places: Sequence[np.ndarray]) -> None:
        tiles = np.repeat(np.arange(len(places)), [len(one) for one in places])
        together = np.concatenate(places)
        order = np.argsort(together, kind="stable")
        self._places, self._tiles = together[order], tiles[order]

    def of(self, places: np.ndarray) -> list[int]:
        """Return the numbers of all tiles that some places belong to."""
        first = np.searchsorted(self._places, places, "left")
        counts = np.searchsorted(self._places, places, "right") - first
        before = np.cumsum(counts) - counts
        return np.unique(self._tiles[np.repeat(first - before, counts) + np.arange(counts.sum())]).tolist()


class _Waiting:
    """A tile whose rows are being added up."""

    def __init__(self, instances: Instances, ids: Tensor, members: int, columns: int) -> None:
        self.places, back = np.unique(instances.reader.train.positions(ids), return_inverse=True)
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
