"""Tables as files: csv, tsv, jsonl, json and parquet, read with the line of every row, and written."""

import csv
import importlib.util
import io
import json
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO, cast

import numpy as np

from turnover.errors import DataFileError, MissingExtraError
from turnover.runs._packed import PackedTexts
from turnover.runs.config import Watch, unwatched
from turnover.runs.rows import Rows, records
from turnover.storage import holds

from .encoding import text_encoding

if TYPE_CHECKING:
    import pandas as pd

PARQUET = (".parquet", ".pq")
TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_WRITTEN_SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
# Numbers as JSON writes them; integers of more digits would not fit 64 bits.
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,99})(\.\d{1,99})?([eE][+-]?\d{1,3})?")
_INTEGER = re.compile(r"-?\d{1,18}")
WRITABLE = (*_WRITTEN_SEPARATORS, ".jsonl", ".ndjson", ".json", ".parquet", ".pq")
"""Endings of the tables that can be written."""

# Types of columns of JSON, by that of all their cells.
_TYPES = {str: "str", int: "int64", float: "float64", bool: "bool"}
_SAMPLE_LINES = 200
_CHUNK = 50_000
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
    for start in range(0, len(column), _CHUNK):
        yield from column.iloc[start : start + _CHUNK].to_numpy(dtype=object).tolist()


def counted(count: int, noun: str) -> str:
    """Return a number of things in words: "1 row", "1,200 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
        table = _separated(path, watch)
    else:
        raise DataFileError(f"{str(path)!r} ends with none of {', '.join(TABLE_ENDINGS)}. Rename it to what it is.")
    if not len(table.frame):
        raise DataFileError(f"{str(path)!r} has no rows below its header. Give a file with rows in it.")
    return table


def same_table(rows: Rows, source: str, numbers: Collection[int], *, digest: str | None = None) -> Table | None:
    """Return the file that rows came from if it is unchanged, by its SHA-256 `digest`; else None.

    Without a digest, which runs of 0.1.0 do not have, it must still hold the rows of `numbers` where they were.
    """
    path = Path(source)
    if not path.is_file() or path.suffix.lower() not in TABLE_ENDINGS:
        return None
    if digest is not None and not holds(path, digest):
        return None
    try:
        table = read_table(path)
    except DataFileError:
        return None
    places: dict[Any, int] = {number: place for place, number in enumerate(table.numbers.tolist())}
    ours = list(numbers)
    there = [places.get(rows.origins[number], -1) for number in ours]
    if -1 in there or list(map(str, table.frame.columns)) != list(map(str, rows.frame.columns)):
        return None
    same = digest is not None or _kept_by_0_1_0(table.frame.iloc[there]) == _kept_by_0_1_0(rows.frame.iloc[ours])
    return table if same else None


def _kept_by_0_1_0(frame: "pd.DataFrame") -> str | None:
    """Return rows as version 0.1.0 kept them: numbers with ten decimals, dates with milliseconds."""
    return frame.to_json(orient="records", force_ascii=False, date_format="iso")


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


def _separated(path: Path, watch: Watch) -> Table:
    import pandas as pd

    encoding = text_encoding(path)
    separator = separator_of(path, encoding)
    plain = separator == "\t" and quotes_are_text(path, encoding)
    options: dict[str, Any] = {"delimiter": separator, "strict": True}
    if plain:
        options |= {"quoting": csv.QUOTE_NONE, "strict": False}
    frames: list[pd.DataFrame] = []
    rows: list[list[str]] = []
    numbers = array("q")
    ragged: list[tuple[int, int]] = []
    with _opened(path, encoding) as file, _long_fields():
        reader, beneath = csv.reader(file, **options), cast(BinaryIO, file.buffer)
        try:
            header = next((row for row in reader if any(cell.strip() for cell in row)), [])
            columns = _column_names(header, path)
            line = reader.line_num + 1
            for row in reader:
                if len(row) > len(columns) and not any(row[len(columns) :]):
                    row = row[: len(columns)]
                if len(row) == len(columns):
                    rows.append(row)
                    numbers.append(line)
                elif any(row):
                    ragged.append((line, len(row)))
                line = reader.line_num + 1
                if len(rows) == _CHUNK:
                    frames.append(pd.DataFrame(rows, columns=columns, dtype="str"))
                    rows = []
                    watch("reading", beneath.tell() // 1024, path.stat().st_size // 1024)
        except csv.Error as error:
            raise DataFileError(
                f'{str(path)!r}, line {reader.line_num}: {error}. A quote (") that begins a field must end it, and one '
                "within is written twice; write the file with a csv library, or as jsonl."
            ) from error
    if ragged:
        line, width = ragged[0]
        raise DataFileError(
            f"{str(path)!r} has {counted(len(ragged), 'line')} with more or fewer columns than the {len(columns)} of "
            f"its header; the first is line {line} with {width}. Put fields with {_SEPARATORS[separator]} in them "
            "into quotes, or write the file with a csv library."
        )
    frames.append(pd.DataFrame(rows, columns=columns, dtype="str"))
    frame = pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]
    return Table(frame, np.frombuffer(numbers, np.int64), str(path), "line")


@contextmanager
def _opened(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open a text file behind all its marks of byte order: files that were joined have several, which nobody sees."""
    with path.open(encoding=encoding, newline="") as file:
        start = file.tell()
        while file.read(1) == "\ufeff":
            start = file.tell()
        file.seek(start)
        yield file


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let a field be longer than the 128 KB that the csv module allows."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def separator_of(path: Path, encoding: str) -> str:
    """Return what separates columns: what splits the first lines into as many as the header, and most of them."""
    with _opened(path, encoding) as file:
        sample = [line for _, line in zip(range(_SAMPLE_LINES), file, strict=False) if line.strip()]
    if not sample:  # a mark of UTF-8 or UTF-16, and blank lines
        raise DataFileError(f"{str(path)!r} is empty. Give a file with rows in it.")
    if path.suffix.lower() != ".csv" and "\t" in sample[0]:
        return "\t"

    def suits(separator: str) -> tuple[float, int]:
        with _long_fields():
            widths = [len(row) for row in csv.reader(sample, delimiter=separator)]
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    found = [separator for separator in _SEPARATORS if separator in sample[0]]
    return max(found, key=suits, default=",")


def quotes_are_text(path: Path, encoding: str) -> bool:
    """Tell whether quotes in a tab-separated file mean nothing: every line is a row, and some field quotes oddly."""
    odd = False
    with _opened(path, encoding) as file:
        tabs = None
        for line in file:
            line = line.rstrip("\r\n")
            if not line.strip():
                continue
            tabs = line.count("\t") if tabs is None else tabs
            if line.count("\t") != tabs:
                return False
            if '"' in line:
                odd = odd or any(field.startswith('"') and not _is_quoted(field) for field in line.split("\t"))
    return odd


def _is_quoted(field: str) -> bool:
    inner = field[1:-1]
    return len(field) > 1 and field.endswith('"') and '"' not in inner.replace('""', "")


def _column_names(header: list[str], path: Path) -> list[str]:
    """Return names of the columns; unnamed ones get one, repeated ones are rejected."""
    # A mark of byte order within a quoted name is as invisible as one before it.
    names = [cell.lstrip("\ufeff").strip() or f"Unnamed: {place}" for place, cell in enumerate(header)]
    _check_unique(names, path)
    return names


def _check_unique(names: list[str], path: Path) -> None:
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise DataFileError(
            f"{str(path)!r} has several columns of the name {', '.join(map(repr, repeated))}. Rename all but one of "
            "them in its first line."
        )


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
            if len(rows) == _CHUNK:
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
    _check_unique(names, path)
    frame = frame.set_axis(names, axis=1).reset_index(drop=True)
    return Table(frame, counted_from_1(frame), str(path))
