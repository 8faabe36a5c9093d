"""What `turnover explain` is asked about: from its options to predictions to explain."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from turnover.applications import Queries, row_queries
from turnover.errors import ApplicationError, DataFileError
from turnover.runs import Column, ColumnInputs, Run, checked_cells
from turnover.ui.pictures import pixels_for


def value_query(run: Run[Any], query: str) -> tuple[Queries, str]:
    """Return a new text, or new cells of a table as JSON or as name=value, name=value; and a note on it, or ""."""
    if run.kind == "image":
        raise ApplicationError("this run was trained on images. Give one: --image FILE, or a row: --row 0.")
    if run.kind == "text":
        if not query.strip():
            raise ApplicationError('the text of --query is empty. Give a sentence: --query "a fine film"')
        return Queries(run.inputs([query]), [query], ["your text"], [None]), ""
    import pandas as pd

    cells = _cells(query)
    how = run.preparation
    assert isinstance(how, ColumnInputs)
    known = [column.name for column in how.columns]
    unknown = [name for name in cells if name not in known]
    if unknown or not cells:
        raise ApplicationError(
            f"--query names {', '.join(map(repr, unknown)) or 'no column'}; this run was trained on "
            f"{', '.join(map(repr, known))}. Give some of them: --query '{known[0]}=1'"
        )
    cells = checked_cells(how.columns, cells)
    return Queries(run.inputs(pd.DataFrame([cells])), [cells], ["your row"], [None]), _note(how.columns, cells)


def _note(columns: tuple[Column, ...], cells: dict[str, Any]) -> str:
    """Return which cells are missing, and which the training rows do not know."""
    missing = [column.name for column in columns if cells.get(column.name) is None]
    new = [
        f"{cells[column.name]!r} in {column.name}"
        for column in columns
        if column.categories is not None and cells.get(column.name) not in (None, *column.categories)
    ]
    notes = [f"Not given, and treated as missing: {', '.join(missing)}."] if missing else []
    notes += [f"Not seen in training, and treated as other: {', '.join(new)}."] if new else []
    return " ".join(notes)


def image_query(run: Run[Any], file: Path) -> Queries:
    """Return a new image."""
    if run.kind != "image":
        other = '--query "a sentence"' if run.kind == "text" else "--query 'column=value, ...'"
        raise ApplicationError(f"this run was trained on a {run.kind}, not on images. Ask with {other} or --row 0.")
    try:
        pixels = pixels_for(run, file)
    except DataFileError as error:
        missing = "there is no such file" if not file.exists() else str(error)
        raise DataFileError(f"{str(file)!r} cannot be opened as an image: {missing}. Give a png or jpg.") from error
    return Queries(run.inputs(pixels[None]), [pixels], [file.name], [None])


def row_query(run: Run[Any], row: str) -> Queries:
    """Return a row of the run, by its number or by the name that the report gives it."""
    return row_queries(run, np.array([run.rows.number_of(row)]))


def _cells(query: str) -> dict[str, Any]:
    """Return the cells of a row, from JSON or from name=value pairs."""
    if query.lstrip().startswith("{"):
        try:
            cells = json.loads(query, object_pairs_hook=list)
        except ValueError as error:
            raise ApplicationError(f"--query is not JSON ({error}). Give '{{\"column\": 1}}' or 'column=1'.") from error
        return _each_once(cells)
    parts = [part for part in query.split(",") if part.strip()]
    if unnamed := [part.strip() for part in parts if "=" not in part]:
        raise ApplicationError(
            f"--query has {unnamed[0]!r}, which names no column. Give 'column=value, column=value'; a value with a "
            'comma in it as JSON: \'{"column": "a, b"}\'.'
        )
    return _each_once([(name.strip(), value.strip()) for name, _, value in (part.partition("=") for part in parts)])


def _each_once(cells: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return cells by column; raise where one stands twice, since only one of them can be meant."""
    names = [name for name, _ in cells]
    if again := next((name for name in names if names.count(name) > 1), None):
        raise ApplicationError(f"--query has the column {again!r} twice. Give each column once.")
    return dict(cells)
