"""What `turnover explain` is asked about: from its options to inputs of the model."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import ApplicationError, DataFileError
from turnover.runs import Column, ColumnInputs, Run, checked_cells


@dataclass(frozen=True)
class Asked:
    """Predictions to explain.

    Attributes:
        x: inputs.
        y: labels, where they are known.
        values: what a person sees of each: a text, pixels or the cells of a row.
        names: what to call each.
        rows: row number of each; None: it is new.
        note: what the user should know, or "".
    """

    x: Tensor
    y: Tensor | None
    values: list[Any]
    names: list[str]
    rows: list[int | None]
    note: str = ""

    @property
    def queries(self) -> Any:
        """Return them as the engine takes them."""
        return self.x if self.y is None else (self.x, self.y)

    def __iter__(self) -> Iterator[tuple[Any, str, int | None]]:
        """Iterate over values, names and row numbers."""
        return iter(zip(self.values, self.names, self.rows, strict=True))


def ask_value(run: Run, query: str) -> Asked:
    """Return a new text, or new cells of a table as JSON or as name=value, name=value."""
    if run.kind == "image":
        raise ApplicationError("this run learned from images. Give one: --image FILE, or a row: --row 0.")
    if run.kind == "text":
        if not query.strip():
            raise ApplicationError('the text of --query is empty. Give a sentence: --query "a fine film"')
        return Asked(run.inputs([query]), None, [query], ["your text"], [None])
    import pandas as pd

    cells = _cells(query)
    how = run.preparation
    assert isinstance(how, ColumnInputs)
    known = [column.name for column in how.columns]
    unknown = [name for name in cells if name not in known]
    if unknown or not cells:
        raise ApplicationError(
            f"--query names {', '.join(map(repr, unknown)) or 'no column'}; this run learned from "
            f"{', '.join(map(repr, known))}. Give some of them: --query '{known[0]}=1'"
        )
    cells = checked_cells(how.columns, cells)
    note = _note(how.columns, cells)
    return Asked(run.inputs(pd.DataFrame([cells])), None, [cells], ["your row"], [None], note)


def _note(columns: tuple[Column, ...], cells: dict[str, Any]) -> str:
    """Return which cells are missing, and which the training rows do not know."""
    missing = [column.name for column in columns if cells.get(column.name) is None]
    new = [
        f"{cells[column.name]!r} in {column.name}"
        for column in columns
        if column.categories is not None and cells.get(column.name) not in (None, *column.categories)
    ]
    said = [f"Not given, and counted as missing: {', '.join(missing)}."] if missing else []
    said += [f"Not known from training, and counted as other: {', '.join(new)}."] if new else []
    return " ".join(said)


def ask_image(run: Run, file: Path) -> Asked:
    """Return a new image."""
    if run.kind != "image":
        other = '--query "a sentence"' if run.kind == "text" else "--query 'column=value, ...'"
        raise ApplicationError(f"this run learned from a {run.kind}, not from images. Ask with {other} or --row 0.")
    from turnover.runs import PixelInputs, read_image

    how = run.preparation
    assert isinstance(how, PixelInputs)
    try:
        pixels = read_image(file, size=how.size[0])
    except DataFileError as error:
        missing = "there is no such file" if not file.exists() else str(error)
        raise DataFileError(f"{str(file)!r} cannot be opened as an image: {missing}. Give a png or jpg.") from error
    if how.channels == 1:
        pixels = pixels.mean(axis=2, keepdims=True).round().astype(np.uint8)
    return Asked(run.inputs(pixels[None]), None, [pixels], [file.name], [None])


def ask_row(run: Run, row: str) -> Asked:
    """Return a row of the run, by its number or by the name that the report gives it."""
    named = list(run.rows.names).index(row) if row in run.rows.names else None
    number = int(row) if named is None and row.strip().isdecimal() else named
    if number is None or number >= len(run.rows):
        raise ApplicationError(
            f"there is no row {row}: the rows of this run go from 0 to {len(run.rows) - 1}. Names as in the report "
            f"will do too: --row {run.rows.names[0]!r}"
        )
    return _rows(run, np.array([number]))


def ask_errors(run: Run, most: int) -> Asked:
    """Return the validation and test rows that are predicted wrongly, the surest first."""
    places = np.concatenate([run.places("validation"), run.places("test")])
    said = run.probabilities(run.x[torch.from_numpy(places)])
    wrong = np.flatnonzero(said.argmax(1) != run.rows.labels[places])
    order = wrong[np.argsort(-said[wrong].max(1), kind="stable")]
    note = f"{len(wrong):,} of {len(places):,} validation and test rows are predicted wrongly"
    surest = "one" if min(most, len(wrong)) == 1 else f"{min(most, len(wrong))}"
    note += f"; here the {surest} it is surest of." if len(wrong) else "."
    found = _rows(run, places[order[:most]])
    return Asked(found.x, found.y, found.values, found.names, found.rows, note)


def _rows(run: Run, places: np.ndarray) -> Asked:
    return Asked(
        run.x[torch.from_numpy(places)],
        run.y[torch.from_numpy(places)],
        [value_of(run, int(place)) for place in places],
        [run.rows.names[place] for place in places],
        [int(place) for place in places],
    )


def value_of(run: Run, row: int) -> Any:
    """Return what a person sees of a row: a text, pixels or cells."""
    if run.kind == "table":
        return run.rows.values.iloc[row].to_dict()
    return run.rows.values[row]


def _cells(query: str) -> dict[str, Any]:
    """Return the cells of a row, from JSON or from name=value pairs."""
    if query.lstrip().startswith("{"):
        try:
            return json.loads(query)
        except ValueError as error:
            raise ApplicationError(f"--query is not JSON ({error}). Give '{{\"column\": 1}}' or 'column=1'.") from error
    pairs = [part.partition("=") for part in query.split(",") if part.strip()]
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}
