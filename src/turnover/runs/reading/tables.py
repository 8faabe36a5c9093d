"""Tables as files: csv, tsv, jsonl, json and parquet, read with the line of every row, and written."""

import csv
import importlib.util
import io
import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from turnover.errors import DataFileError, MissingExtraError
from turnover.runs._packed import PackedTexts
from turnover.runs.config import Watch, unwatched
from turnover.runs.rows import records
from turnover.storage import holds

from .encoding import text_encoding
from .separated import CHUNK, check_unique, read_separated

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")
TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
_WRITTEN_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
# Numbers as JSON writes them; integers of more digits would not fit 64 bits.
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,99})(\.\d{1,99})?([eE][+-]?\d{1,3})?")
_INTEGER = re.compile(r"-?\d{1,18}")
WRITABLE = (*_WRITTEN_SEPARATORS, ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
"""Endings of the tables that can be written."""

# Types of columns of JSON, by that of all their cells.
_TYPES = {str: "str", int: "int64", float: "float64", bool: "bool"}
_DEEPEST = 100
_TOO_DEEP = f"lists or objects are nested deeper than {_DEEPEST} levels"


@dataclass(frozen=True)
class Table:
    """A file as it was read."""

    frame: "pd.DataFrame"  # its columns; those of a csv or tsv file are strings as they stand there
    numbers: np.ndarray  # of the first line of each row, or of the row itself, from 1; int64
    source: str
    counted: Literal["line", "row"] = "row"  # what the numbers count

    @property
    def names(self) -> PackedTexts:
        """Return what to call each row: "line 7"."""
        return PackedTexts(f"{self.counted} {number}" for number in self.numbers.tolist())


def counted_from_1(rows: Sized) -> np.ndarray:
    """Return the number of each row, counted from 1."""
    return np.arange(1, len(rows) + 1)


def column_of(frame: "pd.DataFrame", name: str) -> "pd.Series":
    """Return one column; names are unique, so that it is never several."""
    column: Any = frame[name]
    return column


def values_of(frame: "pd.DataFrame", name: str) -> list[Any]:
    """Return the values of one column, as Python has them."""
    return list(cells_of(column_of(frame, name)))


def cells_of(column: "pd.Series") -> Iterator[Any]:
    """Yield the values of a column, as Python has them; iterating over the column itself is far slower."""
    for start in range(0, len(column), CHUNK):
        yield from column.iloc[start : start + CHUNK].to_numpy(dtype=object).tolist()


def read_table(path: Path, *, watch: Watch = unwatched) -> Table:
    """Return the rows of a file, by the ending of its name."""
    _check_pandas()
    ending = path.suffix.lower()
    if ending in PARQUET:
        table = _parquet(path)
    elif ending in (".jsonl", ".ndjson"):
        table = _json_lines(path)
    elif ending == ".json":
        table = _json_list(path)
    elif ending in (".csv", ".tsv", ".tab"):
        table = Table(*read_separated(path, watch), str(path), "line")
    else:
        raise DataFileError(f"{str(path)!r} ends with none of {', '.join(TABLE_ENDINGS)}. Rename it to what it is.")
    if not len(table.frame):
        raise DataFileError(f"{str(path)!r} has no rows below its header. Give a file with rows in it.")
    return table


def same_table(source: str, digest: str | None) -> Table | None:
    """Return the file that rows came from if it is unchanged, by its SHA-256 `digest`; else None."""
    path = Path(source)
    if digest is None or not path.is_file() or path.suffix.lower() not in TABLE_ENDINGS:
        return None
    return read_table(path) if holds(path, digest) else None


def table_bytes(frame: "pd.DataFrame", ending: str) -> bytes:
    """Return a table as the content of a file."""
    ending = ending.lower()
    if ending in _WRITTEN_SEPARATORS:
        text = frame.to_csv(
            index=False, sep=_WRITTEN_SEPARATORS[ending], quoting=csv.QUOTE_MINIMAL, lineterminator="\n"
        )
        return text.encode()
    if ending in (".jsonl", ".ndjson"):
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in records(frame)).encode()
    if ending == ".json":
        return json.dumps(records(frame), ensure_ascii=False, indent=1).encode()
    if ending in PARQUET:
        held = io.BytesIO()
        try:
            frame.to_parquet(held, index=False)
        except ImportError as error:
            raise MissingExtraError("writing parquet needs pyarrow: pip install pyarrow") from error
        return held.getvalue()
    raise DataFileError(f"a file ending with {ending!r} cannot be written. Give one of {', '.join(WRITABLE)}.")


def as_format(frame: "pd.DataFrame", source: str, ending: str) -> "pd.DataFrame":
    """Return a table of texts, as a csv has them, with numbers where another format is to be written.

    A column is one of numbers where every cell is, and keeps all its digits; "007" and "+49" are texts, and so is what
    a float would round. Empty cells of such a column are missing.
    """
    if Path(source).suffix.lower() not in _WRITTEN_SEPARATORS or ending.lower() in _WRITTEN_SEPARATORS:
        return frame
    return cast("pd.DataFrame", frame.apply(_numbers_of))


def _numbers_of(column: "pd.Series") -> "pd.Series":
    import pandas as pd

    cells = values_of(column.to_frame("column"), "column")
    given = [cell for cell in cells if cell != ""]
    if not given or not all(isinstance(cell, str) and _NUMBER.fullmatch(cell) for cell in given):
        return column
    if all(_INTEGER.fullmatch(cell) for cell in given):
        return pd.Series([None if cell == "" else int(cell) for cell in cells], column.index, "Int64")
    if any(Decimal(repr(float(cell))) != Decimal(cell) for cell in given):
        return column
    return pd.Series([None if cell == "" else float(cell) for cell in cells], column.index, "float64")


def parquet_rows(path: Path, stays: np.ndarray, column: str = "", values: Mapping[int, Any] | None = None) -> bytes:
    """Return a parquet file with the rows that stay, bool [rows], and other values of a column at some places.

    All types stay: by way of pandas, integers with gaps would become floats, and large ones lose digits.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    if values:
        place = [str(name) for name in table.column_names].index(column)
        cells, kind = table.column(place).to_pylist(), table.schema.field(place)
        for row, value in values.items():
            cells[row] = value
        table = table.set_column(place, kind, pa.array(cells, kind.type))
    held = io.BytesIO()
    pq.write_table(table.filter(pa.array(stays)), held)
    return held.getvalue()


def _check_pandas() -> None:
    if importlib.util.find_spec("pandas") is None:
        raise MissingExtraError("reading tables needs pandas: pip install 'turnover[cli]'.")


def _json_lines(path: Path) -> Table:
    encoding = text_encoding(path)
    rows: list[dict[str, Any]] = []
    numbers = array("q")
    frames: list[pd.DataFrame] = []
    with path.open(encoding=encoding) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = _parsed(line)
            except ValueError as error:
                raise DataFileError(
                    f"{str(path)!r}, line {number} is not JSON ({error}). Give one object per line: "
                    '{"text": "...", "label": "..."}'
                ) from error
            if not isinstance(row, dict):
                raise DataFileError(
                    f"{str(path)!r}, line {number} is {type(row).__name__}, not an object. Give one object per line: "
                    '{"text": "...", "label": "..."}'
                )
            rows.append(row)
            numbers.append(number)
            if len(rows) == CHUNK:
                frames.append(_frame_of(rows))
                rows = []
    frames.append(_frame_of(rows))
    return Table(_joined(frames), np.frombuffer(numbers, np.int64), str(path), "line")


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, or raise ValueError: no JSON, nested too deep, or with half a character."""
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    if text.count("[") + text.count("{") > _DEEPEST and _depth(value) > _DEEPEST:
        raise ValueError(_TOO_DEEP)
    # The file is UTF-8, so that only an escape can stand for half a character.
    if "\\u" in text and "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start]).strip("'")
            raise ValueError(f"{half} is a lone surrogate, half of a character") from error
    return value


def _depth(value: Any) -> int:
    """Return how deep lists and objects lie within each other."""
    depth, inner = 0, [value]
    while inner := [one for one in inner if isinstance(one, list | dict)]:
        depth += 1
        inner = [cell for one in inner for cell in (one.values() if isinstance(one, dict) else one)]
    return depth


def _json_list(path: Path) -> Table:
    with path.open(encoding=text_encoding(path)) as file:
        try:
            content = _parsed(file.read())
        except ValueError as error:
            lines = str(error).startswith("Extra data")
            cure = "It may hold one object per line: give it the ending .jsonl" if lines else "Write it anew"
            raise DataFileError(f"{str(path)!r} is not JSON ({error}). {cure}.") from error
    if isinstance(content, dict):
        lists = {name: value for name, value in content.items() if isinstance(value, list)}
        if len(lists) == 1 and all(isinstance(row, dict) for row in next(iter(lists.values()))):
            content = next(iter(lists.values()))
        elif lists and len(lists) == len(content) and len({len(value) for value in lists.values()}) == 1:
            content = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise DataFileError(
            f'{str(path)!r} must be a list of objects, such as [{{"text": "...", "label": "..."}}, ...]. Give one, or '
            "one object per line in a .jsonl file."
        )
    return Table(_joined([_frame_of(content)]), counted_from_1(content), str(path))


def _frame_of(rows: list[dict[str, Any]]) -> "pd.DataFrame":
    """Return objects as a table in which numbers stay what they are: with a row missing, 1 would become 1.0."""
    import pandas as pd

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _typed([row.get(name) for row in rows]) for name in names}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))


def _typed(cells: list[Any]) -> "pd.Series":
    """Return a column with the type that all its cells have; objects where there are several."""
    import pandas as pd

    types = set(map(type, cells))
    known = next(iter(types)) if len(types) == 1 else object
    try:
        return pd.Series(cells, dtype=_TYPES.get(known, "object"))
    except (OverflowError, UnicodeError):  # a number of more than 64 bits, half of a sign
        return pd.Series(cells, dtype=object)


def _joined(frames: "list[pd.DataFrame]") -> "pd.DataFrame":
    """Return the rows of all parts of a file; a column has objects where parts differ in its type, or lack it."""
    import pandas as pd

    names = dict.fromkeys(name for frame in frames for name in frame.columns)
    columns = {}
    for name in names:
        parts = [frame[name] if name in frame else pd.Series([None] * len(frame), dtype=object) for frame in frames]
        parts = [part for part in parts if len(part)] or parts[:1]
        same = len({str(part.dtype) for part in parts}) == 1
        columns[name] = pd.concat(parts if same else [part.astype(object) for part in parts], ignore_index=True)
    return pd.DataFrame(columns, index=pd.RangeIndex(sum(map(len, frames))))


def _parquet(path: Path) -> Table:
    import pandas as pd

    try:
        from pyarrow.lib import ArrowException
    except ImportError as error:
        raise MissingExtraError("reading parquet needs pyarrow: pip install pyarrow") from error
    try:
        frame = pd.read_parquet(path)
        for column in frame.select_dtypes("string"):
            frame[column].to_numpy(dtype=object)  # strings that are not UTF-8 fail here
    except (OSError, ValueError, ArrowException) as error:
        raise DataFileError(
            f"{str(path)!r} cannot be read as parquet ({error}). Write it anew, or give a csv."
        ) from error
    names = [str(name) for name in frame.columns]
    check_unique(names, path)
    frame = frame.set_axis(names, axis=1).reset_index(drop=True)
    return Table(frame, counted_from_1(frame), str(path))
