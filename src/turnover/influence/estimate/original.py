"""What an estimator is, and the original one: scores as the paper defines them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from turnover.batches import Batch
from turnover.influence.blocks import RawBlock, ScoreBlock
from turnover.influence.execution import Executor
from turnover.influence.paths import Forward
from turnover.storage import KeptArrays

QUERIES_PER_BLOCK = 128
"""How many queries are scored together; a part of the format of score folders."""


class Estimate(Protocol):
    """An estimator at work on one question."""

    keeps_null: bool  # whether there is a null distribution

    @property
    def standardized(self) -> bool:
        """Return whether each query's scores are divided by what is usual for it."""
        ...

    @property
    def queries_per_block(self) -> int:
        """Return how many queries are scored together."""
        ...

    @property
    def result(self) -> str:
        """Return what scores say of how they were made; "" for raw scores."""
        ...

    def block(
        self,
        start: int,
        raw: Callable[[], RawBlock],
        queries: Sequence[Batch],
        executor: Executor,
        add: Callable[[int], None],
    ) -> ScoreBlock:
        """Return the block of queries that begins at a place; `add` counts the pairs that it needs first."""
        ...

    def mean_block(self, queries: Sequence[Batch]) -> ScoreBlock | None:
        """Return a block with one column, the mean over all queries, where that is faster than each; else None."""
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what `Estimator.fit` can be given in a later run to fit nothing again; empty: there is no such."""
        ...


@runtime_checkable
class TokenScores(Protocol):
    """A fitted estimator whose scores of a training row are sums over its tokens."""

    def token_scores(self, row: Batch, queries: Sequence[Batch]) -> np.ndarray:
        """Return what each token of one training row adds to its scores, [tokens, queries]; NaN: it does not count."""
        ...


@runtime_checkable
class KeepsRows(Protocol):
    """An estimator at work that can keep in a folder what it needs of training rows, for further blocks of queries."""

    def with_rows(self, kept: KeptArrays, *, writes: bool) -> Estimate:
        """Return the same with what is kept of rows beside the fit; with `writes`, what is missing there is added."""
        ...

    def remove_rows(self) -> None:
        """Remove what was kept of rows."""
        ...


@runtime_checkable
class OwnScores(Protocol):
    """A fitted estimator that knows the score of a row on itself without masks."""

    @property
    def result(self) -> str:
        """Return what scores say of how they were made."""
        ...

    def own_scores(self, rows: Any, add: Callable[[int], Any]) -> tuple[np.ndarray, Tensor]:
        """Return the score of every row on itself, [members, rows], and the rows' ids; `add` counts rows."""
        ...


class Estimator(Protocol):
    """The options of an estimator."""

    needs_train: bool
    needs_masks: bool
    keeps_fit: bool  # whether `Estimate.arrays` can be given to `fit`

    @property
    def name(self) -> str:
        """Return what `Scores.method` says."""
        ...

    def as_data(self) -> dict[str, Any]:
        """Return what identifies the estimator among the options of scores, as JSON data."""
        ...

    def fit(
        self,
        forwards: Sequence[Forward],
        train: Any,
        memory: int,
        kept: Mapping[str, np.ndarray] | None = None,
        executor: Executor | None = None,
    ) -> Estimate:
        """Return what all questions share; `train` are `TrainRows`, None only where they are not needed.

        `kept` is what `Estimate.arrays` gave for the same models, training rows and options. Passes over the training
        rows are tasks of the executor; None: of this process.
        """
        ...


@dataclass(frozen=True)
class Original:
    """The original estimator: loss in the flipped view minus loss in the kept one, query by query."""

    needs_train = False
    needs_masks = True
    keeps_fit = False
    standardized = False
    keeps_null = True
    queries_per_block = QUERIES_PER_BLOCK
    result = ""
    name = "tod"

    def as_data(self) -> dict[str, Any]:
        """Return nothing: scores without a word about it are made by it."""
        return {}

    def fit(
        self,
        forwards: Sequence[Forward],
        train: Any,
        memory: int,
        kept: Mapping[str, np.ndarray] | None = None,
        executor: Executor | None = None,
    ) -> "Original":
        """Return itself: there is nothing to fit."""
        return self

    def block(
        self,
        start: int,
        raw: Callable[[], RawBlock],
        queries: Sequence[Batch],
        executor: Executor,
        add: Callable[[int], None],
    ) -> RawBlock:
        """Return raw scores."""
        return raw()

    def mean_block(self, queries: Sequence[Batch]) -> None:
        """Return None: every query is scored."""

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing: nothing was fitted."""
        return {}
