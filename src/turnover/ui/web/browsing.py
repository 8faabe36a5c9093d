"""Rows as pages show them, which labels are doubtful and which predictions wrong."""

from functools import cached_property
from typing import Literal

import numpy as np

from turnover.errors import DataFileError
from turnover.runs import SPLITS, Run, label_text

from .corrections import MarkBook
from .shapes import Cell, Row

Order = Literal["doubt", "file"]
_DECIMALS = 6


class Browsing:
    """The rows of a run with what the network says of each without having seen it.

    Args:
        run: a finished one.
        marks: rows that were marked as wrong.
    """

    def __init__(self, run: Run, marks: MarkBook) -> None:
        self._run, self._marks = run, marks
        self.columns: tuple[str, ...] = tuple(map(str, run.rows.values.columns)) if run.kind == "table" else ()

    @cached_property
    def unseen(self) -> np.ndarray:
        """Return probabilities [rows, classes] by a network that never saw the row.

        For training rows that is the flipped part; all others were never seen by any.
        """
        run = self._run
        found = np.empty((len(run.rows), len(run.label_names)), np.float32)
        found[run.places("train")] = run.out_of_sample.probs
        for split in ("validation", "test"):
            places = run.places(split)
            if len(places):
                found[places] = run.probabilities(run.x[places])
        return found

    @cached_property
    def label_probability(self) -> np.ndarray:
        """Return how probable each row's own label is [rows]; 1 where it has none."""
        labels = self._run.rows.labels
        return np.where(labels < 0, 1.0, self.unseen[np.arange(len(labels)), labels])

    @cached_property
    def surest_errors(self) -> np.ndarray:
        """Return the validation and test rows that are predicted wrongly, the surest first."""
        labels, predicted = self._run.rows.labels, self.unseen.argmax(1)
        wrong = np.flatnonzero((self._run.splits != SPLITS.index("train")) & (labels >= 0) & (predicted != labels))
        return wrong[np.argsort(-self.unseen[wrong].max(1), kind="stable")]

    def check(self, number: int) -> int:
        """Return the number of a row that exists, or raise."""
        if not 0 <= number < len(self._run.rows):
            raise DataFileError(
                f"there is no row {number}. Rows are numbered from 0 to {len(self._run.rows) - 1:,}; give one of them."
            )
        return number

    def row(self, number: int, *, with_doubt: bool = True) -> Row:
        """Return a row.

        Args:
            number: of the row.
            with_doubt: with the label that the network would rather give it.
        """
        run, rows = self._run, self._run.rows
        place, label = self.check(number), int(rows.labels[number])
        doubt: dict[str, object] = {}
        if with_doubt and len(run.label_names) > 1:
            probabilities = self.unseen[place].copy()
            if label >= 0:
                doubt["label_probability"] = round(float(probabilities[label]), _DECIMALS)
                probabilities[label] = -1
            best = int(probabilities.argmax())
            doubt["suggested"] = run.label_names[best]
            doubt["suggested_probability"] = round(float(probabilities[best]), _DECIMALS)
        return Row(
            row=place,
            name=rows.names[place],
            split=SPLITS[run.splits[place]],
            label=None if label < 0 else run.label_names[label],
            text=rows.values[place] if run.kind == "text" else None,
            cells=self.cells(place),
            image=f"/rows/{place}/image.png" if run.kind == "image" else None,
            group=rows.groups[place] if rows.groups else None,
            mark=self._marks.get(place),
            **doubt,  # pyright: ignore[reportArgumentType]
        )

    def cells(self, place: int) -> list[Cell]:
        """Return the columns that a row of a table is learned from."""
        if self._run.kind != "table":
            return []
        values = self._run.rows.values.iloc[place]
        return [Cell(name=name, value=label_text(values[name])) for name in self.columns]

    def listed(
        self, *, order: Order = "doubt", split: str = "", label: str = "", words: str = "", marked: bool = False
    ) -> np.ndarray:
        """Return the numbers of the rows that fit a filter.

        Args:
            order: doubtful labels first, or as in the file.
            split: only rows of this split; "": all.
            label: only rows of this label; "": all.
            words: only rows whose text, cells or name contain this, in any case; "": all.
            marked: only rows that were marked.
        """
        run, rows = self._run, self._run.rows
        fits = np.ones(len(rows), bool)
        if split:
            if split not in SPLITS:
                raise DataFileError(f"there is no split {split!r}. Give one of {', '.join(SPLITS)}.")
            fits &= run.splits == SPLITS.index(split)
        if label:
            fits &= rows.labels == self.label_number(label)
        if marked:
            fits &= np.isin(np.arange(len(rows)), self._marks.rows)
        if words.strip():
            wanted = words.strip().casefold()
            places = np.flatnonzero(fits)
            fits[places] = [wanted in self._searched(place) for place in places.tolist()]
        found = np.flatnonzero(fits)
        return found if order == "file" else found[np.argsort(self.label_probability[found], kind="stable")]

    def label_number(self, name: str) -> int:
        """Return the number of a label, or raise."""
        if name not in self._run.label_names:
            known = ", ".join(map(repr, self._run.label_names[:10]))
            raise DataFileError(f"there is no label {name!r}. The labels are {known}.")
        return self._run.label_names.index(name)

    def _searched(self, place: int) -> str:
        rows = self._run.rows
        if rows.kind == "text":
            return rows.values[place].casefold()
        if rows.kind == "image":
            return rows.names[place].casefold()
        return " ".join(cell.value for cell in self.cells(place)).casefold()
