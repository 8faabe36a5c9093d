"""Tables as files: csv, tsv, jsonl, json and parquet, read as Arrow tables with the line of every row, and written."""

import codecs
import csv
import io
import json
import re
import shlex
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO, cast

import numpy as np

from turnover.errors import DataFileError, MissingExtraError
from turnover.storage import holds
from turnover.tables import counted

from .config import Watch, unwatched

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET = (".parquet", ".pq")
JSON_LINES = (".jsonl", ".ndjson")
_SEPARATED = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
WRITABLE = TABLE_ENDINGS = (*_SEPARATED, *JSON_LINES, ".json", *PARQUET)
"""Endings of the tables that can be read and written."""

_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_SAMPLE_LINES, _BLOCK = 200, 2**20
_ROWS_AT_ONCE = 50_000  # that are Python objects at one time
_DEEPEST = 100
# Numbers as JSON writes them; integers of more digits would not fit 64 bits.
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,99})(\.\d{1,99})?([eE][+-]?\d{1,3})?")
_INTEGER = re.compile(r"-?\d{1,18}")
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_BINARY = (
    (b"PK\x03\x04", "an Excel or zip file", "Save it as csv, or unpack it"),
    (b"\xd0\xcf\x11\xe0", "an old Excel file", "Save it as csv"),
    (b"\x1f\x8b", "compressed by gzip", "Unpack it: gunzip {file}"),
    (b"PAR1", "a parquet file", "Give it the ending .parquet"),
    (b"\x93NUMPY", "a NumPy file", "Write images and labels with numpy.savez, as .npz"),
    (b"%PDF", "a PDF", "Save its texts as csv, one per row"),
    (b"SQLite", "an SQLite file", "Write the table as csv"),
    (b"\x89PNG", "an image", "Give the folder of all images"),
    (b"\xff\xd8\xff", "an image", "Give the folder of all images"),
    (b"GIF8", "an image", "Give the folder of all images"),
)


@dataclass(frozen=True)
class Table:
    """A file as it was read."""

    data: "pa.Table"  # its columns; those of a csv or tsv file are strings as they stand there
    numbers: np.ndarray  # of the first line of each row, or of the row itself, from 1; int64
    source: str
    counted: Literal["line", "row"] = "row"  # what the numbers count

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return self.data.column_names

    @property
    def names(self) -> list[str]:
        """Return what to call each row: "line 7"."""
        return [f"{self.counted} {number}" for number in self.numbers.tolist()]

    @classmethod
    def of(cls, data: "pa.Table", source: str) -> "Table":
        """Return a table whose rows are counted from 1."""
        return cls(data, np.arange(1, data.num_rows + 1), source)


def need_pyarrow() -> Any:
    """Return pyarrow, by which tables are held."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError("reading tables needs pyarrow: pip install 'turnover[cli]'.") from error
    return pyarrow


def read_table(path: Path, *, watch: Watch = unwatched) -> Table:
    """Return the rows of a file, by the ending of its name."""
    need_pyarrow()
    ending = path.suffix.lower()
    if ending in PARQUET:
        table = _read_parquet(path)
    elif ending in JSON_LINES:
        table = _read_json_lines(path)
    elif ending == ".json":
        table = Table.of(arrow_table(_read_json(path)), str(path))
    elif ending in _SEPARATED:
        table = _read_separated(path, watch)
    else:
        raise DataFileError(f"{str(path)!r} ends with none of {', '.join(TABLE_ENDINGS)}. Rename it to what it is.")
    if not table.data.num_rows:
        raise DataFileError(f"{str(path)!r} has no rows below its header. Give a file with rows in it.")
    return table


def same_table(source: str, digest: str | None) -> Table | None:
    """Return the file that rows came from if it is unchanged, by its SHA-256 `digest`; else None."""
    path = Path(source)
    if digest is None or not path.is_file() or path.suffix.lower() not in TABLE_ENDINGS:
        return None
    return read_table(path) if holds(path, digest) else None


def arrow_table(rows: Sequence[Mapping[str, Any]]) -> "pa.Table":
    """Return objects as a table: a column has the type of all its cells; where they differ, they become strings."""
    pa = need_pyarrow()
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: arrow_column([row.get(name) for row in rows]) for name in names})


def arrow_column(cells: list[Any]) -> "pa.Array":
    """Return cells as a column; cells of several types, or numbers of more than 64 bits, become strings."""
    pa = need_pyarrow()
    kinds = {type(cell) for cell in cells} - {type(None)}
    try:
        if len(kinds) > 1 and kinds != {int, float}:
            raise TypeError
        return pa.array(cells, pa.large_string() if kinds == {str} else None)
    except (TypeError, OverflowError, pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if cell is None else _as_text(cell) for cell in cells], pa.large_string())


def _as_text(cell: Any) -> str:
    if isinstance(cell, list | dict):
        return json.dumps(cell, ensure_ascii=False, default=str)
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


# The encoding is found by reading a file once, so that a wrong one is named before any row is used.


def text_encoding(path: Path) -> str:
    """Return the encoding of a text file: "utf-8", "utf-8-sig" or "utf-16"."""
    try:
        with path.open("rb") as file:
            start = file.read(_BLOCK)
            if not start.strip():
                raise DataFileError(f"{str(path)!r} is empty. Give a file with rows in it.")
            encoding = next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")
            if encoding != "utf-16":
                _check_not_binary(path, start)
            _read_through(path, encoding)
    except OSError as error:
        raise DataFileError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error
    return encoding


def _check_not_binary(path: Path, start: bytes) -> None:
    file = shlex.quote(str(path))
    for mark, what, cure in _BINARY:
        if start.startswith(mark):
            raise DataFileError(f"{str(path)!r} is {what}, not text. {cure.format(file=file)}.")
    if b"\0" not in start:
        return
    if start[1:200:2].count(0) > 50 or start[:200:2].count(0) > 50:
        raise DataFileError(
            f"{str(path)!r} is UTF-16 without the mark that tells the order of its bytes. Convert it: "
            f"iconv -f UTF-16LE -t UTF-8 {file} > {shlex.quote(_converted(path))}"
        )
    raise DataFileError(
        f"{str(path)!r} is a binary file: its byte {start.index(0)} is 0. Give a csv, tsv, jsonl, json or parquet "
        "file, a folder of images or an npz file."
    )


def _read_through(path: Path, encoding: str) -> None:
    """Raise where a file has another encoding: at which byte, in which line."""
    decoder = codecs.getincrementaldecoder(encoding)()
    done, lines = 0, 1
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                if encoding == "utf-16":
                    raise DataFileError(
                        f"{str(path)!r} begins as UTF-16 but is none ({error.reason}). Save it as UTF-8."
                    ) from error
                line = lines + error.object[: error.start].count(b"\n")
                raise DataFileError(
                    f"{str(path)!r} is not UTF-8: byte 0x{error.object[error.start]:02x} at position "
                    f"{done - held + error.start}, line {line}. It may be from Windows or in Latin-1; convert it: "
                    "iconv -f WINDOWS-1252 -t UTF-8 "
                    f"{shlex.quote(str(path))} > {shlex.quote(_converted(path))}"
                ) from error
            done, lines = done + len(block), lines + block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"{str(path)!r} ends within a letter: it seems to be cut off. Copy or download it again."
        ) from error


def _converted(path: Path) -> str:
    return f"{path.stem}.utf8{path.suffix}"


# csv and tsv


def _read_separated(path: Path, watch: Watch) -> Table:
    pa = need_pyarrow()
    encoding = text_encoding(path)
    separator = separator_of(path, encoding)
    plain = separator == "\t" and quotes_are_text(path, encoding)
    options: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if plain else {"strict": True}
    parts: list[Any] = []
    rows: list[list[str]] = []
    numbers, ragged = array("q"), list[tuple[int, int]]()

    def packed() -> "pa.Table":
        cells = zip(*rows, strict=True) if rows else [()] * len(columns)
        return pa.table(dict(zip(columns, (pa.array(column, pa.large_string()) for column in cells), strict=True)))

    with _opened(path, encoding) as file, _long_fields():
        reader, beneath = csv.reader(file, delimiter=separator, **options), cast(BinaryIO, file.buffer)
        try:
            header = next((row for row in reader if any(cell.strip() for cell in row)), [])
            # A mark of byte order within a quoted name is as invisible as one before it.
            columns = [cell.lstrip("\ufeff").strip() or f"Unnamed: {place}" for place, cell in enumerate(header)]
            _check_unique(columns, path)
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
                if len(rows) == _ROWS_AT_ONCE:
                    parts.append(packed())
                    rows.clear()
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
    parts.append(packed())
    return Table(pa.concat_tables(parts), np.frombuffer(numbers, np.int64), str(path), "line")


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

    return max((separator for separator in _SEPARATORS if separator in sample[0]), key=suits, default=",")


def quotes_are_text(path: Path, encoding: str) -> bool:
    """Tell whether quotes in a tab-separated file mean nothing: every line is a row, and some field quotes oddly."""
    odd, tabs = False, None
    with _opened(path, encoding) as file:
        for line in file:
            line = line.rstrip("\r\n")
            if not line.strip():
                continue
            tabs = line.count("\t") if tabs is None else tabs
            if line.count("\t") != tabs:
                return False
            odd = odd or any(field.startswith('"') and not _is_quoted(field) for field in line.split("\t"))
    return odd


def _is_quoted(field: str) -> bool:
    return len(field) > 1 and field.endswith('"') and '"' not in field[1:-1].replace('""', "")


def _check_unique(names: Collection[str], path: Path) -> None:
    if repeated := sorted(name for name, times in Counter(names).items() if times > 1):
        raise DataFileError(
            f"{str(path)!r} has several columns of the name {', '.join(map(repr, repeated))}. Rename all but one of "
            "them in its first line."
        )


# json and parquet


def _read_json_lines(path: Path) -> Table:
    rows: list[dict[str, Any]] = []
    numbers = array("q")
    example = 'Give one object per line: {"text": "...", "label": "..."}'
    with path.open(encoding=text_encoding(path)) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = _parsed(line)
            except ValueError as error:
                raise DataFileError(f"{str(path)!r}, line {number} is not JSON ({error}). {example}") from error
            if not isinstance(row, dict):
                raise DataFileError(f"{str(path)!r}, line {number} is {type(row).__name__}, not an object. {example}")
            rows.append(row)
            numbers.append(number)
    return Table(arrow_table(rows), np.frombuffer(numbers, np.int64), str(path), "line")


def _read_json(path: Path) -> list[dict[str, Any]]:
    """Return a list of objects: as it is, as the only list of an object, or as an object of columns."""
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
    return content


def _parsed(text: str) -> Any:
    """Return the value of a JSON text, or raise ValueError: no JSON, nested too deep, or with half a character."""
    too_deep = f"lists or objects are nested deeper than {_DEEPEST} levels"
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(too_deep) from error
    if text.count("[") + text.count("{") > _DEEPEST:
        depth, inner = 0, [value]
        while inner := [one for one in inner if isinstance(one, list | dict)]:
            depth += 1
            inner = [cell for one in inner for cell in (one.values() if isinstance(one, dict) else one)]
        if depth > _DEEPEST:
            raise ValueError(too_deep)
    # The file is UTF-8, so that only an escape can stand for half a character.
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start]).strip("'")
            raise ValueError(f"{half} is a lone surrogate, half of a character") from error
    return value


def _read_parquet(path: Path) -> Table:
    pa = need_pyarrow()
    import pyarrow.parquet as pq

    try:
        data = pq.read_table(path)
        _check_unique(data.column_names, path)
        data.validate(full=True)  # strings that are not UTF-8 fail here
    except (OSError, ValueError, pa.ArrowException) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(
            f"{str(path)!r} cannot be read as parquet ({error}). Write it anew, or give a csv."
        ) from error
    index = [name for name in data.column_names if re.fullmatch(r"__index_level_\d+__", name)]  # pandas writes it
    return Table.of(data.drop_columns(index), str(path))


# Writing


def table_bytes(data: "pa.Table", ending: str) -> bytes:
    """Return a table as the content of a file."""
    ending = ending.lower()
    if ending in PARQUET:
        import pyarrow.parquet as pq

        held = io.BytesIO()
        pq.write_table(data, held)
        return held.getvalue()
    if ending in JSON_LINES:
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in _json_rows(data)).encode()
    if ending == ".json":
        return json.dumps(list(_json_rows(data)), ensure_ascii=False, indent=1).encode()
    if ending not in _SEPARATED:
        raise DataFileError(f"a file ending with {ending!r} cannot be written. Give one of {', '.join(WRITABLE)}.")
    rows = (["" if cell is None else _as_text(cell) for cell in row.values()] for row in _json_rows(data))
    return separated_bytes(data.column_names, rows, _SEPARATED[ending])


def separated_bytes(names: Sequence[str], rows: Iterable[Sequence[Any]], separator: str = ",") -> bytes:
    """Return rows of cells as csv."""
    held = io.StringIO(newline="")
    writer = csv.writer(held, delimiter=separator, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return held.getvalue().encode()


def _json_rows(data: "pa.Table") -> Iterator[dict[str, Any]]:
    """Yield rows as JSON can hold them: dates as ISO 8601, None where a number is NaN."""
    for part in data.to_batches(_ROWS_AT_ONCE):
        for row in part.to_pylist():
            yield {name: plain_cell(cell) for name, cell in row.items()}


def plain_cell(cell: Any) -> Any:
    """Return a cell as JSON can hold it."""
    if cell is None or isinstance(cell, str | bool | int):
        return cell
    if isinstance(cell, float):
        return None if cell != cell else cell
    if isinstance(cell, dict):
        return {str(name): plain_cell(inner) for name, inner in cell.items()}
    if isinstance(cell, list | tuple):
        return [plain_cell(inner) for inner in cell]
    return cell.isoformat() if hasattr(cell, "isoformat") else str(cell)


def as_format(data: "pa.Table", source: str, ending: str) -> "pa.Table":
    """Return a table of texts, as a csv has them, with numbers where another format is to be written.

    A column is one of numbers where every cell is, and keeps all its digits; "007" and "+49" are texts, and so is what
    a float would round. Empty cells of such a column are missing.
    """
    if Path(source).suffix.lower() not in _SEPARATED or ending.lower() in _SEPARATED:
        return data
    for place, name in enumerate(data.column_names):
        cells = data.column(place).to_pylist()
        given = [cell for cell in cells if cell != ""]
        if not given or not all(isinstance(cell, str) and _NUMBER.fullmatch(cell) for cell in given):
            continue
        number = int if all(_INTEGER.fullmatch(cell) for cell in given) else float
        if number is int or all(Decimal(repr(float(cell))) == Decimal(cell) for cell in given):
            numbers = need_pyarrow().array([None if cell == "" else number(cell) for cell in cells])
            data = data.set_column(place, name, numbers)
    return data


def rows_of_file(path: Path, stays: np.ndarray, column: str = "", values: Mapping[int, Any] | None = None) -> bytes:
    """Return a json or parquet file with the rows that stay, bool [rows], and other values of a column at some places.

    All else keeps its type and digits.
    """
    if path.suffix.lower() == ".json":
        rows = _read_json(path)
        for place, value in (values or {}).items():
            rows[place] = {**rows[place], column: value}
        return json.dumps(list(compress(rows, stays)), ensure_ascii=False, indent=1).encode()
    import pyarrow.parquet as pq

    data = with_values(pq.read_table(path), column, values or {})
    return table_bytes(data.filter(need_pyarrow().array(stays)), ".parquet")


def with_values(data: "pa.Table", column: str, values: Mapping[int, Any]) -> "pa.Table":
    """Return a table with other values of a column at some places; the column keeps its type where they have it."""
    if not values:
        return data
    pa = need_pyarrow()
    place = data.column_names.index(column)
    cells, kind = data.column(place).to_pylist(), data.schema.field(place)
    for row, value in values.items():
        cells[row] = value
    try:
        return data.set_column(place, kind, pa.array(cells, kind.type))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return data.set_column(place, column, arrow_column(cells))
