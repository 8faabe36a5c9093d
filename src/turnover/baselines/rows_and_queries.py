"""Which training rows and which queries a compared method is asked about, and whether the rows are still the same."""

import dataclasses
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from turnover.errors import BaselineError
from turnover.layers import as_ids
from turnover.training import TrainingRecipe, data_digest, digest_of, ids_of

Kind = Literal["pairs", "mean", "self"]
_SHOWN = 5


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """What a method is asked: pairs of rows and queries, means over the queries, or each row on itself.

    Attributes:
        kind: "pairs", "mean" or "self".
        recipe: whose rows.
        rows: which of them.
        asked: a recipe whose rows are the queries; None for "self".
    """

    kind: Kind
    recipe: TrainingRecipe
    rows: Tensor
    asked: TrainingRecipe | None

    @classmethod
    def of(cls, kind: Kind, recipe: TrainingRecipe, ids: Any, queries: Any = None) -> "Question":
        """Return a question about instance ids (None: all rows) and queries, a tuple (inputs, targets)."""
        asked = None if kind == "self" else recipe_of(queries, recipe)
        return cls(kind, recipe, rows_of(recipe, ids), asked)

    @property
    def name(self) -> str:
        """The name of the question's folder, the same for the same rows and queries."""
        asked = [] if self.asked is None else [self.asked.inputs, self.asked.targets]
        return f"{self.kind}-{digest_of(self.rows, *asked)[:12]}"

    @property
    def ids(self) -> np.ndarray:
        """The instance ids of the rows."""
        return ids_of(self.recipe)[self.rows.numpy()]

    @property
    def columns(self) -> int:
        """How many vectors a method works through: queries, their mean, or rows."""
        return {"pairs": len(self.asked or ()), "mean": 1, "self": len(self.rows)}[self.kind]

    @property
    def lines(self) -> int:
        """How many numbers each of them has: one a row, or one alone."""
        return 1 if self.kind == "self" else len(self.rows)

    @property
    def path(self) -> str:
        """How scores name the question, after the method."""
        many = len(self.asked or ())
        return {"pairs": "", "mean": f"; mean of {many} queries", "self": "; each row on itself"}[self.kind]

    def shaped(self, values: np.ndarray) -> np.ndarray:
        """Return values [lines, columns] as [rows, queries] for pairs, else as [rows]."""
        return values if self.kind == "pairs" else values.reshape(-1)

    def depends_on(self) -> dict[str, Any]:
        """Return checksums of rows and queries."""
        asked = None if self.asked is None else data_digest(self.asked)
        return {"kind": self.kind, "rows": digest_of(self.rows), "queries": asked}


def rows_of(recipe: TrainingRecipe, ids: Any) -> Tensor:
    """Return the rows of instance ids in the order asked for, all rows where several share an id; None: all rows."""
    if ids is None:
        return torch.arange(len(recipe))
    known, asked = ids_of(recipe), as_ids(ids).cpu().numpy()
    if not len(asked) or len(np.unique(asked)) < len(asked):
        raise BaselineError("ids= is empty or has an id twice. Give each id to score once, or None for all rows.")
    unknown = np.setdiff1d(asked, known)
    if len(unknown):
        raise BaselineError(
            f"{len(unknown)} of {len(asked)} ids are not among the recipe's rows: {unknown[:_SHOWN].tolist()}. "
            "Give ids of rows that were trained on."
        )
    order = np.argsort(known, kind="stable")
    first, last = (np.searchsorted(known, asked, side=side, sorter=order) for side in ("left", "right"))
    return torch.from_numpy(np.concatenate([order[start:stop] for start, stop in zip(first, last, strict=True)]))


def recipe_of(queries: Any, recipe: TrainingRecipe) -> TrainingRecipe:
    """Return a recipe whose rows are the queries, for their losses."""
    if not isinstance(queries, tuple | list) or len(queries) != 2 or not isinstance(queries[1], Tensor):
        raise BaselineError(
            f"queries are a {type(queries).__name__}. Give a tuple (inputs, targets): inputs in the form of the "
            "recipe's, targets as a tensor."
        )
    inputs, targets = queries
    if not len(targets):
        raise BaselineError("there are no queries: the targets are empty. Give one or more.")
    return dataclasses.replace(recipe, inputs=inputs, targets=targets, ids=None)


def check_unchanged(recipe: TrainingRecipe, then: str, again: str) -> None:
    """Raise where a recipe's rows are no longer those of a training or preparation.

    Args:
        recipe: as it is now.
        then: the `data_digest` of that time.
        again: what to type for the new rows.
    """
    if data_digest(recipe) != then:
        raise BaselineError(
            "the training was recorded, or this method prepared, on other rows than the recipe has now (inputs, "
            f"targets or ids changed). Give the recipe of that time, or start again: {again}."
        )
