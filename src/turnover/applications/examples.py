"""The examples that findings speak of, and the training instances that an `Influence` scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from turnover.errors import InfluenceError
from turnover.ids import Name, Names
from turnover.influence import Influence

from ._results import Result, checked_labels
from .residuals import NumberScale, Residuals
from .shared_tokens import shared_tokens
from .wrong_labels import WrongLabels

# Numbers of a table are near within this share of their column's standard deviation.
_NEAR = 0.1


@dataclass(frozen=True)
class Instance(Result):
    """A training instance that a finding names.

    Attributes:
        id: as it was given; of rows of a file their number, of groups that of the group.
        position: its place among the training instances, counted from 0.
        row: its row number in the data; of a group that of its first training row.
        label: its label, by name where names are known; None: not known, or a group of rows.
        rows: its training rows: more than one only for a group.
    """

    id: Name
    position: int
    row: int
    name: str | None
    label: Any
    group: str | None
    rows: int


@dataclass(frozen=True)
class Common:
    """What a query and an example share: words of both texts as (start, end), and columns of nearly the same value."""

    query_spans: tuple[tuple[int, int], ...] = ()
    example_spans: tuple[tuple[int, int], ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows of labeled data, as findings speak of them.

    Attributes:
        values: texts, uint8 pixels [rows, height, width, channels], or a DataFrame.
        names: what to call each row: its line, or the file of an image.
        labels: class numbers [rows], −1: no label; or numbers, float64.
        label_names: of the classes; empty where labels are numbers.
        ids: instance id of each row; rows of a group share one.
        groups: group of each row; empty: rows are the instances.
        wrong_labels: how probably the label of each training row is wrong; None: the training was not recorded.
        scale: how labels that are numbers were standardized for the training; None: labels are classes.
        residuals: how far numbers of the training rows lie from their held-out predictions; None: for classes.
    """

    kind: Literal["text", "image", "table"]
    values: Any
    names: Sequence[str]
    labels: NDArray[Any]
    label_names: tuple[str, ...]
    splits: NDArray[np.str_]
    ids: NDArray[np.int64]
    groups: Sequence[str] = ()
    wrong_labels: WrongLabels | None = None
    scale: NumberScale | None = None
    residuals: Residuals | None = None

    @property
    def numeric(self) -> bool:
        """Tell whether labels are numbers, not classes."""
        return self.labels.dtype.kind == "f"

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    @cached_property
    def train_rows(self) -> NDArray[np.int64]:
        """Return the numbers of the training rows."""
        return np.flatnonzero(self.splits == "train")

    @cached_property
    def labeled_unseen_rows(self) -> NDArray[np.int64]:
        """Return the numbers of the validation rows and then of the test rows that have a label."""
        rows = np.concatenate([np.flatnonzero(self.splits == split) for split in ("validation", "test")])
        return rows if self.numeric else rows[self.labels[rows] >= 0]

    def label(self, row: int) -> str | float | None:
        """Return the label of a row: the name of its class, or its number; None: it has none."""
        if self.numeric:
            return float(self.labels[row])
        number = int(self.labels[row])
        return None if number < 0 else self.label_names[number]

    def likely_label_error(self, row: int) -> bool | None:
        """Tell whether the label of a training row is a likely error; None: the training was not recorded."""
        judged = self.wrong_labels if self.residuals is None else self.residuals
        return None if judged is None else bool(judged.likely[np.searchsorted(self.train_rows, row)])

    def value(self, row: int) -> Any:
        """Return a row as data: a text, pixels, or the cells of a table by column."""
        if self.kind != "table":
            return self.values[row]
        return {str(column): value for column, value in self.values.iloc[row].items()}

    def instance_of(self, id: int) -> dict[str, Any]:
        """Return the fields of `Instance`, but its position, of an instance id."""
        row, rows = self._instances[id]
        label, group = (None, self.groups[row]) if self.groups else (self.label(row), None)
        return {"id": id, "row": row, "name": self.names[row], "label": label, "group": group, "rows": rows}

    def training_row(self, position: int) -> dict[str, Any]:
        """Return the fields of `Instance` of one training row, also where groups are the instances."""
        row = int(self.train_rows[position])
        group = self.groups[row] if self.groups else None
        about = {"name": self.names[row], "label": self.label(row), "group": group, "rows": 1}
        return {"id": int(self.ids[row]), "position": int(position), "row": row, **about}

    def in_common(self, query: Any, row: int) -> Common:
        """Return what a value, such as `value` returns, has in common with a row; nothing for images and groups."""
        if self.groups or self.kind == "image":
            return Common()
        if self.kind == "text":
            shared = shared_tokens(query, self.values[row])
            query_spans, example_spans = (
                tuple((span.start, span.end) for span in spans) for spans in (shared.query, shared.example)
            )
            return Common(query_spans, example_spans)
        other = self.value(row)
        return Common(columns=tuple(name for name in other if self._near(name, query.get(name), other[name])))

    def _near(self, column: str, one: Any, other: Any) -> bool:
        deviation = self._deviations.get(column)
        if deviation is None:
            return one is not None and one == other
        if one is None or other is None or math.isnan(one) or math.isnan(other):
            return False
        return bool(abs(one - other) <= _NEAR * deviation)

    @cached_property
    def _deviations(self) -> Mapping[str, float]:
        """Return the standard deviation of every column of numbers, over the training rows."""
        numbers = self.values.iloc[self.train_rows].select_dtypes("number")
        return {str(column): float(np.nan_to_num(deviation)) for column, deviation in numbers.std().items()}

    @cached_property
    def _instances(self) -> dict[int, tuple[int, int]]:
        """Return the first training row and the number of training rows of every instance id."""
        ids, first, counts = np.unique(self.ids[self.train_rows], return_index=True, return_counts=True)
        rows = self.train_rows[first]
        return {int(id): (int(row), int(count)) for id, row, count in zip(ids, rows, counts, strict=True)}


@dataclass(frozen=True)
class TrainInstances:
    """Training instances in the order of the data, each once; labels, examples and names where they are known."""

    mask_ids: NDArray[np.int64]
    labels: NDArray[Any] | None
    examples: Examples | None = None
    names: Names = field(default_factory=Names)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.mask_ids)

    def instance(self, position: int) -> dict[str, Any]:
        """Return the fields of `Instance` at a position."""
        id, position = int(self.mask_ids[position]), int(position)
        if self.examples is not None:
            return {"position": position, **self.examples.instance_of(id)}
        label = None if self.labels is None else self.labels[position].item()
        name = self.names.by_id.get(id)
        about = {"name": None if name is None else str(name), "label": label, "group": None, "rows": 1}
        return {"id": id if name is None else name, "position": position, "row": position, **about}

    def positions(self, ids: Any) -> NDArray[np.int64]:
        """Return the positions of mask ids; −1 for those that are not among the instances."""
        ids = np.asarray(ids, np.int64)
        place = np.searchsorted(self.mask_ids, ids, sorter=self._order)
        position = self._order[np.minimum(place, len(self) - 1)]
        return np.where(self.mask_ids[position] == ids, position, -1)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.mask_ids, kind="stable")


def train_instances(
    influence: Influence, labels: Any, examples: Examples | None = None, *, needed: bool
) -> TrainInstances:
    """Return the training instances with labels (None: those of the data); raise where `needed` ones are missing."""
    ids, names = influence.mask_ids(), influence.names
    if labels is not None:
        return TrainInstances(ids, checked_labels(labels, len(ids)), examples, names)
    try:
        return TrainInstances(ids, influence.train_labels, examples, names)
    except InfluenceError:
        if needed:
            raise
        return TrainInstances(ids, None, examples, names)
