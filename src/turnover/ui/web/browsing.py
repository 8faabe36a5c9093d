"""Rows as pages show them, in the orders of the findings: likely label errors first, most confident errors first."""

from functools import cached_property
from typing import Any, Literal

import numpy as np

from turnover.applications import LIKELY_ERROR, Predictions, label_error_order
from turnover.errors import DataFileError
from turnover.runs import SPLITS, Run
from turnover.scores import OutOfSample

from .corrections import MarkBook, is_number
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
        """Return probabilities [rows, classes], or predicted numbers [rows, 1], by networks not trained on the row.

        For training rows that is the flipped subnetwork, for all others the full network.
        """
        run = self._run
        predicted = np.empty((len(run.rows), run.out_of_sample.probs.shape[1]), np.float32)
        predicted[run.places("train")] = run.out_of_sample.probs
        unseen = np.flatnonzero(self._examples.splits != "train")
        numeric = self._examples.numeric
        predicted[unseen] = run.numbers(run.x[unseen])[:, None] if numeric else run.probabilities(run.x[unseen])
        return predicted

    @cached_property
    def residuals(self) -> np.ndarray:
        """Return, of numbers, label minus held-out prediction in units of the usual distance [rows]."""
        assert self._examples.residuals is not None, "labels are numbers"
        return self._examples.residuals.standardized_at(self.held_out[:, 0], self._examples.labels)

    @cached_property
    def errors(self) -> np.ndarray:
        """Return the wrongly predicted validation and test rows, the most confident, or largest, errors first."""
        rows = self._examples.labeled_unseen_rows
        if self._examples.numeric:
            return rows[np.argsort(-np.abs(self.held_out[rows, 0] - self._examples.labels[rows]), kind="stable")]
        return rows[Predictions(self.held_out[rows], self._examples.labels[rows]).errors]

    @cached_property
    def label_errors(self) -> np.ndarray:
        """Return all rows, the likeliest label error first, those without a label last."""
        labels = self._examples.labels
        if self._examples.numeric:
            return np.argsort(-np.abs(self.residuals), kind="stable")
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
        if self._examples.numeric:
            raise DataFileError("labels of this run are numbers: rows are not listed by label. Leave the label out.")
        names = self._examples.label_names
        if name not in names:
            raise DataFileError(f"there is no label {name!r}. The labels are {', '.join(map(repr, names[:10]))}.")
        return names.index(name)

    def check_label(self, label: str) -> None:
        """Raise where a label is none of the run's, or not a number where its labels are numbers."""
        if not self._examples.numeric:
            self.label_number(label)
        elif not is_number(label):
            raise DataFileError(f"the label must be a finite number, got {label!r}. Give one, such as 1.5.")

    def _prediction(self, row: int) -> dict[str, Any]:
        """Return the fields of a row that its held-out prediction gives."""
        if self._examples.numeric:
            number, residual = float(self.held_out[row, 0]), float(self.residuals[row])
            fields = {"held_out_label": number, "residual": residual, "suggested": f"{number:.6g}"}
            return fields | {"likely_label_error": abs(residual) > LIKELY_ERROR}
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
