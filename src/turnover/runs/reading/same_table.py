"""The file that a run was made from, if it is still the same."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnover.errors import DataFileError
from turnover.runs.rows import Rows

from .files import TABLE_ENDINGS, Table, read_table

if TYPE_CHECKING:
    import pandas as pd


def same_table(rows: Rows, source: str, numbers: Collection[int]) -> Table | None:
    """Return the file that rows came from, if it still holds some of them where they were; else None.

    Args:
        rows: of the run.
        source: file that they were read from.
        numbers: of the rows that matter.
    """
    path = Path(source)
    if not path.is_file() or path.suffix.lower() not in TABLE_ENDINGS:
        return None
    try:
        table = read_table(path)
    except DataFileError:
        return None
    places = {name: place for place, name in enumerate(table.names)}
    ours = list(numbers)
    there = [places.get(rows.names[number], -1) for number in ours]
    if -1 in there or list(map(str, table.frame.columns)) != list(map(str, rows.frame.columns)):
        return None
    return table if _plain(table.frame.iloc[there]) == _plain(rows.frame.iloc[ours]) else None


def _plain(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return lines as JSON holds them: the rows of a run were kept that way, dates and all."""
    return json.loads(frame.to_json(orient="records", date_format="iso") or "[]")
