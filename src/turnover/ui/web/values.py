"""What a user typed or edited, checked, as the run takes it."""

from collections.abc import Mapping
from typing import Any

from turnover.errors import DataFileError
from turnover.runs import Column, ColumnInputs, Run, checked_cells, label_text, nearest

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
    return found | checked_cells(columns, values)


def as_cells(values: Mapping[str, Any]) -> list[Cell]:
    """Return values as they are shown."""
    return [Cell(name=name, value=label_text(value)) for name, value in values.items()]
