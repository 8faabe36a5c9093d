"""Do methods agree with each other: in the order of all rows, and in the rows at the top?"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.scores import Scores

from .correlation import Floats, spearman
from .intervals import mean_of_known
from .markdown import markdown_table
from .matrix import AnyScores, matrix_of


@dataclass(frozen=True)
class Agreement:
    """How far methods agree.

    Attributes:
        names: of the methods.
        spearman: [methods, methods]; rank correlation over the rows, mean over queries; NaN where one is constant.
        overlap: [methods, methods]; share of the k most helpful rows that both methods have, mean over queries.
        k: length of the lists.
    """

    names: tuple[str, ...]
    spearman: Floats
    overlap: Floats
    k: int

    def to_markdown(self) -> str:
        """Return a table with rank correlation / overlap of every pair."""
        cells = [
            [name, *(f"{self.spearman[i, j]:.2f} / {self.overlap[i, j]:.2f}" for j in range(len(self.names)))]
            for i, name in enumerate(self.names)
        ]
        return markdown_table([f"rank correlation / overlap of top {self.k}", *self.names], cells)


def agreement(named_scores: Mapping[str, AnyScores], *, k: int = 10, ids: ArrayLike | None = None) -> Agreement:
    """Return rank correlation and overlap of the most helpful rows for every pair of methods.

    Args:
        named_scores: name to scores [rows, queries], all of the same rows and queries.
        k: length of the lists that are compared.
        ids: instance id of every row; None: those of the first Scores, else row numbers.

    Raises:
        ScoresError: rows or queries differ, or k is not below the number of rows.

    Example:
        >>> scores = np.random.default_rng(0).normal(size=(30, 4))
        >>> agreement({"one": scores, "same order": scores**3}, k=5).overlap
        array([[1., 1.],
               [1., 1.]])
    """
    if len(named_scores) < 2:
        raise ScoresError(f"{len(named_scores)} methods cannot be compared. Give two or more: {{name: scores}}.")
    if ids is None:
        ids = next((one.ids for one in named_scores.values() if isinstance(one, Scores)), None)
    names = tuple(named_scores)
    values = [matrix_of(one, ids=ids, name=f"scores of {name!r}") for name, one in named_scores.items()]
    for name, one in zip(names, values, strict=True):
        if one.shape != values[0].shape:
            raise ScoresError(
                f"scores of {name!r} are {list(one.shape)}, those of {names[0]!r} {list(values[0].shape)}. "
                "Give scores of the same rows and queries."
            )
    if not 1 <= k < len(values[0]):
        raise ScoresError(f"k={k} for {len(values[0])} rows. Give a number from 1 to {len(values[0]) - 1}.")
    tops = [_top(one, k) for one in values]
    return Agreement(
        names,
        np.array([[mean_of_known(spearman(one, other)) for other in values] for one in values]),
        np.array([[float((one & other).sum(0).mean() / k) for other in tops] for one in tops]),
        k,
    )


def _top(values: Floats, k: int) -> np.ndarray:
    """Return bool [rows, queries]: the k largest of each query, among equals the first."""
    chosen = np.zeros(values.shape, bool)
    np.put_along_axis(chosen, np.argsort(-values, axis=0, kind="stable")[:k], True, axis=0)
    return chosen
