"""What a user typed or edited, checked, as the run takes it."""

import math
from collections.abc import Mapping
from typing import Any

from turnover.errors import DataFileError
from turnover.tasks.columns import Column, ColumnInputs
from turnover.tasks.reading_columns import nearest
from turnover.tasks.reading_labels import label_text
from turnover.tasks.runs import Run

from .shapes import MOST_LETTERS, Cell


def checked_text(text: str) -> str:
    """Return a text that can be asked about, or raise."""
    stripped = text.strip()
    if not stripped:
        raise DataFileError("there is no text to ask about. Type a sentence.")
    if len(stripped) > MOST_LETTERS:
        raise DataFileError(
            f"the text has {len(stripped):,} letters, and {MOST_LETTERS:,} are the most. Ask about a part of it."
        )
    try:
        stripped.encode()
    except UnicodeEncodeError as error:
        raise DataFileError("the text has half of a letter in it (a lone surrogate). Type it anew.") from error
    return stripped


def columns_of(run: Run) -> tuple[Column, ...]:
    """Return the columns that a table is learned from."""
    assert isinstance(run.preparation, ColumnInputs)
    return run.preparation.columns


def checked_values(run: Run, values: Mapping[str, Any], row: int | None) -> dict[str, Any]:
    """Return the values of one row of a table: those of a row of the data, changed by what was given.

    Args:
        run: of a table.
        values: by column; numbers may be texts.
        row: number of the row to begin with; None: everything is missing.
    """
    columns = columns_of(run)
    known = [column.name for column in columns]
    unknown = [name for name in values if name not in known]
    if unknown:
        near = nearest(unknown[0], known)
        hint = f"Did you mean {near!r}?" if near else f"There are {', '.join(map(repr, known[:12]))}."
        raise DataFileError(f"there is no column {unknown[0]!r} to learn from. {hint}")
    found = dict.fromkeys(known) if row is None else dict(run.rows.values.iloc[row])
    return found | {column.name: _value(column, values[column.name]) for column in columns if column.name in values}


def as_cells(values: Mapping[str, Any]) -> list[Cell]:
    """Return values as they are shown."""
    return [Cell(name=name, value=label_text(value)) for name, value in values.items()]


def _value(column: Column, value: Any) -> Any:
    text = label_text(value)
    if text == "":
        return None
    if column.categories is not None:
        return text
    try:
        number = float(text)
    except ValueError as error:
        raise DataFileError(f"{text!r} in column {column.name!r} is no number. Type one, or leave it empty.") from error
    if not math.isfinite(number):
        raise DataFileError(f"{text!r} in column {column.name!r} is not finite. Type a number, or leave it empty.")
    return number
