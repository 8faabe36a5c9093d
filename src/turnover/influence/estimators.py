"""What an estimator is: fitted on an ensemble and its training rows, it gives blocks of queries that score rows.

A tile is a range of instances on a block of queries; its scores are a pure function of (members, queries, ids).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from torch import Tensor

from turnover.batches import Batch

from ._rows import TrainRows
from .ensemble import Ensemble
from .executors import Executor

FEWEST_MEMBERS = 3
"""Members of which the standard deviation says how far off their mean is."""
NULL_IDS = 1024
"""How many null ids stand for pure noise where they are given by number, and at most where they follow the job."""


@dataclass(frozen=True)
class Tile:
    """The scores of some instances on a block of queries, of every member [members, instances, queries]."""

    members: np.ndarray

    @property
    def mean(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the mean over members and its standard error."""
        return average(self.members)


@dataclass(frozen=True)
class Part:
    """Some instances of a question, the item of a task: which tile they are, their rows and ids."""

    number: int
    rows: slice
    ids: Tensor


Finish = Callable[[Part, Tile], Any]
"""What becomes of a tile at the place where it was computed; serializable, as tasks are."""


class Block(Protocol):
    """Some queries, ready to score instances."""

    offset: np.ndarray  # what was subtracted from the scores of each query [queries]

    @property
    def member_nulls(self) -> np.ndarray | None:
        """Return scores of null ids in every member [members, nulls, queries]; None: there are none."""
        ...

    def tiles(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterable[Any]:
        """Yield what `finish` makes of the scores of each part of the instances, in their order."""
        ...


@dataclass(frozen=True)
class Blocks:
    """All queries of a question, in blocks.

    Attributes:
        path: how scores are computed, as they say of themselves.
        step: queries of a block; the last may have fewer.
        make: makes the block that begins at a place.
        count: how many columns there are; of a mean one.
        nulls: null ids that are scored on each query; 0: there is no null distribution.
        centered: whether the mean of null ids is subtracted.
        standardized: whether each query's scores are divided by what is usual for it.
    """

    path: str
    step: int
    make: Callable[[int], Block]
    count: int
    nulls: int = 0
    centered: bool = False
    standardized: bool = False

    def __iter__(self) -> Iterator[tuple[slice, Block]]:
        """Yield every block with its columns."""
        for start in range(0, self.count, self.step):
            yield slice(start, min(start + self.step, self.count)), self.make(start)


@dataclass(frozen=True)
class OwnScores:
    """Scores of training rows on themselves."""

    ids: Tensor
    values: np.ndarray  # [members, rows]
    path: str
    offset: np.floating[Any] | None = None  # what was subtracted, the mean over members
    null: np.ndarray | None = None  # of null ids [rows], averaged over members
    tokens: Sequence[np.ndarray] = ()  # of every row, where it has several


class Fitted(Protocol):
    """What an estimator knows of an ensemble, for all questions until weights change."""

    @property
    def executor(self) -> Executor:
        """Return who computes tiles."""
        ...

    def score(self, queries: Sequence[Batch], ids: Tensor) -> Blocks:
        """Return queries in blocks that score instances of these ids."""
        ...

    def mean(self, queries: Sequence[Batch], ids: Tensor) -> Blocks:
        """Return blocks whose scores have the mean over queries of their columns' mean."""
        ...

    def own(self, rows: TrainRows, add: Callable[[int], Any]) -> OwnScores:
        """Return the scores of rows on themselves; `add` counts rows that are done."""
        ...

    def tokens(self, row: Batch, queries: Sequence[Batch]) -> np.ndarray:
        """Return what each token of one training row adds to its scores, [tokens, queries]; NaN: it does not count."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what `Estimator.fit` can be given in a later run to fit nothing again; empty: there is no such."""
        ...


class Estimator(Protocol):
    """The options of a family of estimators."""

    name: ClassVar[str]  # what `Scores.method` says

    def check(self, ensemble: Ensemble, train: TrainRows | None) -> None:
        """Raise where these options do not fit the models, or training rows are missing."""
        ...

    def check_null(self) -> None:
        """Raise where there is no null distribution."""
        ...

    def as_data(self, train: TrainRows | None) -> dict[str, Any]:
        """Return what scores depend on beside models, queries and ids, as JSON data; rows where they are fitted on."""
        ...

    def fit(
        self, ensemble: Ensemble, train: TrainRows | None, *, kept: Mapping[str, np.ndarray] | None = None
    ) -> Fitted:
        """Return what all questions share; `kept` is what `Fitted.arrays` gave for the same work."""
        ...


def average(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the mean over members (dimension 0) and its standard error; None for fewer than three members.

    The standard deviation of two numbers says next to nothing; that of null ids, averaged over the members alike, takes
    its place.
    """
    if len(values) < FEWEST_MEMBERS:
        return values.mean(0), None
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
