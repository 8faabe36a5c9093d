"""Scores of all members on a block of queries: centered by the null, averaged, with their spread.

A tile is a range of instances on a block of queries; its scores are a pure function of (models, queries, ids).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from turnover.batches import Batch

from .estimate.control import LinearControl
from .options import NULL_IDS, null_ids
from .route import Route

FEWEST_MEMBERS = 3


@dataclass(frozen=True)
class Tile:
    """The scores of some instances on a block of queries.

    Attributes:
        members: scores of each model, [members, instances, queries].
        errors: standard errors [instances, queries] of their mean, for fewer than three models; None: not known.
    """

    members: np.ndarray
    errors: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Return how many pairs there are."""
        return self.members[0].size


class Block:
    """A block of queries, ready to score any instances."""

    def __init__(
        self,
        routes: Sequence[Route],
        queries: Sequence[Batch],
        *,
        center: bool,
        control: bool = False,
        nulls: int = NULL_IDS,
    ) -> None:
        """Score the never-trained ids: their mean is the offset of each query, their spread its noise."""
        self._scorers = [route.scorer(queries) for route in routes]
        self._controls = [LinearControl(route, queries) for route in routes] if control else []
        never = null_ids(nulls)
        raw = np.stack([scorer.scores(never).numpy() for scorer in self._scorers])  # [members, nulls, queries]
        for control_of_one, scores in zip(self._controls, raw, strict=False):
            control_of_one.fit(scores, never)
            scores -= control_of_one.prediction(never)
        means = finite_mean(raw, 1)
        self._offsets = means.astype(np.float32) if center else np.zeros(means.shape, np.float32)
        self.offset = self._offsets.mean(0)
        self.member_nulls = raw - self._offsets[:, None, :]

    @property
    def null(self) -> np.ndarray:
        """Return the scores [nulls, queries] of never-trained ids, averaged over members."""
        return finite_mean(self.member_nulls, 0).astype(np.float32)

    def tile(self, ids: Tensor) -> Tile:
        """Return the scores of instances."""
        return Tile(self.members(ids))

    def members(self, ids: Tensor) -> np.ndarray:
        """Return centered scores [members, ids, queries]."""
        found = np.stack(
            [scorer.scores(ids).numpy() - offset for scorer, offset in zip(self._scorers, self._offsets, strict=True)]
        )
        for control, scores in zip(self._controls, found, strict=False):
            scores -= control.prediction(ids)
        return found


def average(values: np.ndarray, errors: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the mean over members (dimension 0) and its standard error.

    For fewer than three members that is what `errors` says, or None: the spread of two numbers says next to nothing,
    and that of never-trained ids, averaged over the members alike, takes its place.
    """
    if len(values) < FEWEST_MEMBERS:
        return values.mean(0), errors
    spread = values.std(0, ddof=1) / np.sqrt(len(values))
    return values.mean(0), spread.astype(np.float32)


def spread_of(null: np.ndarray) -> np.ndarray:
    """Return the spread of never-trained ids (dimension 0): the noise of a single replica."""
    count = np.isfinite(null).sum(0)
    variance = finite_mean(np.square(null.astype(np.float64) - finite_mean(null, 0)), 0)
    return np.sqrt(variance * count / np.maximum(count - 1, 1)).astype(np.float32)


def finite_mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean of what is finite, in float64; NaN where nothing is."""
    finite = np.isfinite(values)
    count = finite.sum(axis)
    total = np.where(finite, values, 0).sum(axis, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
