"""Scores of all members on a block of queries: centered by the null, averaged, with their standard errors.

A tile is a range of instances on a block of queries; its scores are a pure function of (models, queries, ids).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from turnover.batches import null_ids

from .execution import Executor
from .paths import Scorer

FEWEST_MEMBERS = 3
NULL_IDS = 1024
"""How many null ids stand for pure noise where they are given by number, and at most where they follow the job."""
_FEWEST_NULLS = 2
_NULL_SHARE = 1 / 32
_SMALL_JOB = 1024


def null_count(instances: int, queries: int, saving: float) -> int:
    """Return how many null ids a question about so many instances scores.

    They are paid out of what the path saves: where it does `saving` times less work per pair than a plain loop, a
    quarter of what is left over goes into null ids; at least they are a thirty-second of the instances. Of few pairs
    nothing is left over beside the trial, whatever the path.
    """
    share = _NULL_SHARE if instances * queries <= _SMALL_JOB else max(_NULL_SHARE, (saving - 1) / 4)
    return int(min(NULL_IDS, max(_FEWEST_NULLS, instances * share)))


@dataclass(frozen=True)
class Tile:
    """The scores of some instances on a block of queries."""

    members: np.ndarray  # scores of each model, [members, instances, queries]
    errors: np.ndarray | None = None  # of their mean [instances, queries], for fewer than three models; None: not known

    @property
    def size(self) -> int:
        """Return how many pairs there are."""
        return self.members[0].size

    @property
    def mean(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the mean over members and its standard error."""
        return average(self.members, self.errors)


@dataclass(frozen=True)
class Part:
    """Some instances of a question, the item of a task: which tile they are, their rows and ids."""

    number: int
    rows: slice
    ids: Tensor


Finish = Callable[[Part, Tile], Any]
"""What becomes of a tile at the place where it was computed; serializable, as tasks are."""


class ScoreBlock(Protocol):
    """A block of queries, ready to score instances: raw, or by an estimator on top of raw scores."""

    offset: np.ndarray  # what was subtracted from the scores of each query [queries]

    @property
    def member_nulls(self) -> np.ndarray | None:
        """Return the scores of null ids in each model, [members, nulls, queries]; None: there are none."""
        ...

    def tiles(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterable[Any]:
        """Yield what `finish` makes of the scores of each part of the instances, in their order."""
        ...


class RawBlock:
    """A block of queries with the scores of the original estimator."""

    def __init__(
        self,
        scorers: Sequence[Scorer],
        *,
        center: bool,
        nulls: int = NULL_IDS,
        beside: Tensor | None = None,
    ) -> None:
        """Score null ids: their mean is the offset of each query if `center`, their standard deviation its noise.

        Instances `beside` them go through in the same passes, and their scores are kept: of a few rows, a second pass
        takes as long as the first.
        """
        self._scorers = scorers
        ids = null_ids(nulls)
        scored = np.stack([_first_scores(scorer, ids, beside) for scorer in scorers])  # [members, ids, queries]
        null_scores, self._beside = scored[:, :nulls], (beside, scored[:, nulls:])
        means = finite_mean(null_scores, 1)
        self._offsets = means.astype(np.float32) if center else np.zeros(means.shape, np.float32)
        self.offset = self._offsets.mean(0)
        self.member_nulls = null_scores - self._offsets[:, None, :]

    def tiles(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterator[Any]:
        """Yield what `finish` makes of the scores of each part of the instances, in their order."""
        return executor.map(_FinishedTile(self, finish), parts)

    @property
    def null(self) -> np.ndarray:
        """Return the scores [nulls, queries] of null ids, averaged over members."""
        return finite_mean(self.member_nulls, 0).astype(np.float32)

    def members(self, ids: Tensor) -> np.ndarray:
        """Return centered scores [members, ids, queries]."""
        return np.stack([raw - offset for raw, offset in zip(self._raw(ids), self._offsets, strict=True)])

    def _raw(self, ids: Tensor) -> Iterable[np.ndarray]:
        """Return the scores [ids, queries] of each member before anything is subtracted."""
        beside, scores = self._beside
        if beside is not None and torch.equal(ids, beside):
            return scores
        return [scorer.scores(ids).numpy() for scorer in self._scorers]


def _first_scores(scorer: Scorer, nulls: Tensor, beside: Tensor | None) -> np.ndarray:
    if beside is None:
        return scorer.null_scores(nulls).numpy()
    return scorer.scores(torch.cat([nulls, beside])).numpy()


@dataclass(frozen=True)
class _FinishedTile:
    block: RawBlock
    finish: Finish

    def __call__(self, part: Part) -> Any:
        return self.finish(part, Tile(self.block.members(part.ids)))


def null_of(block: ScoreBlock) -> np.ndarray | None:
    """Return the scores [nulls, queries] of null ids, averaged over members; None: there are none."""
    return None if block.member_nulls is None else finite_mean(block.member_nulls, 0).astype(np.float32)


def joined_nulls(nulls: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Return the null scores of several blocks of queries as one; None: there are none."""
    known = [null for null in nulls if null is not None]
    return np.concatenate(known, 1) if known else None


def average(values: np.ndarray, errors: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the mean over members (dimension 0) and its standard error.

    For fewer than three members that is what `errors` says, or None: the standard deviation of two numbers says next to
    nothing, and that of null ids, averaged over the members alike, takes its place.
    """
    if len(values) < FEWEST_MEMBERS:
        return values.mean(0), errors
    spread = values.std(0, ddof=1) / np.sqrt(len(values))
    return values.mean(0), spread.astype(np.float32)


def spread_of(null: np.ndarray | None) -> Any:
    """Return the standard deviation of null ids (dimension 0), the noise of a single replica; None without them."""
    if null is None:
        return None
    count = np.isfinite(null).sum(0)
    variance = finite_mean(np.square(null.astype(np.float64) - finite_mean(null, 0)), 0)
    return np.where(count > 1, np.sqrt(variance * count / np.maximum(count - 1, 1)), np.nan).astype(np.float32)


def finite_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean of what is finite, in float64; NaN where nothing is."""
    finite = np.isfinite(values)
    if values.shape[axis] and finite.all():
        return values.mean(axis, dtype=np.float64)
    count = finite.sum(axis)
    total = np.where(finite, values, 0).sum(axis, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
