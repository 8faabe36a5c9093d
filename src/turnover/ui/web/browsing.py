"""Rows as pages show them, in the orders of the findings: likely label errors first, most confident errors first."""

from functools import cached_property
from typing import Any, Literal

import numpy as np

from turnover.applications import Predictions, label_error_order
from turnover.errors import DataFileError
from turnover.runs import SPLITS, Run
from turnover.scores import OutOfSample

from .corrections import MarkBook
from .inputs import as_cells
from .shapes import Cell, Row

Order = Literal["label_errors", "errors", "file"]


class Browsing:
    """The rows of a run with their held-out predictions."""

    def __init__(self, run: Run[Any], marks: MarkBook) -> None:
        self._run, self._marks = run, marks
        self._examples = run.examples
        self.columns: tuple[str, ...] = tuple(map(str, run.rows.values.columns)) if run.kind == "table" else ()

    @cached_property
    def held_out(self) -> np.ndarray:
        """Return probabilities [rows, classes] by networks that were not trained on the row.

        For training rows that is the flipped subnetwork, for all others the full network.
        """
        run = self._run
        probabilities = np.empty((len(run.rows), len(run.label_names)), np.float32)
        probabilities[run.places("train")] = run.out_of_sample.probs
        unseen = np.flatnonzero(self._examples.splits != "train")
        probabilities[unseen] = run.probabilities(run.x[unseen])
        return probabilities

    @cached_property
    def errors(self) -> np.ndarray:
        """Return the validation and test rows that are predicted wrongly, the most confident errors first."""
        rows = self._examples.labeled_unseen_rows
        return rows[Predictions(self.held_out[rows], self._examples.labels[rows]).errors]

    @cached_property
    def label_errors(self) -> np.ndarray:
        """Return all rows, the likeliest label error first, those without a label last."""
        labels = self._examples.labels
        labeled, rest = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
        order = labeled[label_error_order(OutOfSample(self.held_out[labeled], ids=labeled), labels[labeled])]
        by_record = self._examples.wrong_labels
        if by_record is not None:  # training rows as findings have them, before all others
            first = self._examples.train_rows[by_record.order[: int(by_record.likely.sum())]]
            order = np.concatenate([first, order[~np.isin(order, first)]])
        return np.concatenate([order, rest])

    def check(self, row: int) -> int:
        """Return the number of a row that exists, or raise."""
        if not 0 <= row < len(self._examples):
            raise DataFileError(
                f"there is no row {row}. Rows are numbered from 0 to {len(self._examples) - 1:,}; give one of them."
            )
        return row

    def row(self, row: int, *, with_prediction: bool = True) -> Row:
        """Return a row, with its held-out prediction where asked for."""
        examples = self._examples
        return Row(
            row=self.check(row),
            name=examples.names[row],
            split=str(examples.splits[row]),  # pyright: ignore[reportArgumentType]
            label=examples.label(row),
            text=examples.values[row] if examples.kind == "text" else None,
            cells=self._cells(row),
            image=f"/rows/{row}/image.png" if examples.kind == "image" else None,
            group=examples.groups[row] if examples.groups else None,
            mark=self._marks.get(row),
            **(self._prediction(row) if with_prediction else {}),
        )

    def listed(self, *, order: Order = "label_errors", split: str = "", label: str = "", words: str = "") -> np.ndarray:
        """Return the numbers of the rows that fit a filter; "" as split, label or words is any.

        Likely label errors come first, or only errors, the most confident first, or rows as in the file.
        """
        orders = {"label_errors": lambda: self.label_errors, "errors": lambda: self.errors}
        rows = orders.get(order, lambda: np.arange(len(self._examples)))()
        if split:
            if split not in SPLITS:
                raise DataFileError(f"there is no split {split!r}. Give one of {', '.join(SPLITS)}.")
            rows = rows[self._examples.splits[rows] == split]
        if label:
            rows = rows[self._examples.labels[rows] == self.label_number(label)]
        sought = words.strip().casefold()
        return rows if not sought else rows[[sought in self._searched(row) for row in rows.tolist()]]

    def label_number(self, name: str) -> int:
        """Return the number of a label, or raise."""
        names = self._examples.label_names
        if name not in names:
            raise DataFileError(f"there is no label {name!r}. The labels are {', '.join(map(repr, names[:10]))}.")
        return names.index(name)

    def _prediction(self, row: int) -> dict[str, Any]:
        """Return the fields of a row that its held-out prediction gives."""
        names, label = self._examples.label_names, int(self._examples.labels[row])
        probabilities = self.held_out[row].copy()
        best = int(probabilities.argmax())
        fields = {"held_out_label": names[best], "held_out_probability": float(probabilities[best])}
        if label >= 0:
            by_record = self._examples.likely_label_error(row) if self._examples.splits[row] == "train" else None
            likely = best != label if by_record is None else by_record
            fields |= {"label_quality": float(probabilities[label]), "likely_label_error": likely}
            probabilities[label] = -1
        return fields | ({"suggested": names[int(probabilities.argmax())]} if len(names) > 1 else {})

    def _cells(self, row: int) -> list[Cell]:
        return as_cells(self._examples.value(row)) if self._examples.kind == "table" else []

    def _searched(self, row: int) -> str:
        kind = self._examples.kind
        if kind == "table":
            return " ".join(cell.value for cell in self._cells(row)).casefold()
        return (self._examples.values if kind == "text" else self._examples.names)[row].casefold()
