"""Rows that a person marked as wrong, kept in the run folder; and the original file with their labels corrected."""

import codecs
import csv
import io
import json
import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnover.errors import RunError
from turnover.runs import (
    PARQUET,
    WRITABLE,
    Rows,
    Run,
    Table,
    label_text,
    quotes_are_text,
    rows_of_file,
    same_table,
    separator_of,
    table_bytes,
    text_encoding,
    with_values,
)
from turnover.storage import from_record, to_record

if TYPE_CHECKING:
    import pyarrow as pa

_FORMAT = 1
_SEPARATED = (".csv", ".tsv", ".tab")
_JSON_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class Mark:
    """A row that a person marked as wrong: the right label, None where the row is to be removed, and the given one."""

    row: int
    label: str | None
    given: str | None
    name: str
    time: str  # in UTC


class MarkBook:
    """The marks of a run, in RUN/marks.json: there whole after every change, whichever server makes it."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.file = run.folder.path / "marks.json"
        self._lock = threading.Lock()
        self._version: tuple[int, ...] | None = None
        self._marks = _read(self.file, run)

    @property
    def all(self) -> list[Mark]:
        """Return all marks, the latest first."""
        return list(self._present().values())[::-1]

    def __len__(self) -> int:
        """Return how many rows are marked."""
        return len(self._present())

    def get(self, row: int) -> Mark | None:
        """Return the mark of a row."""
        return self._present().get(row)

    def put(self, row: int, label: str | None) -> Mark:
        """Mark a row with the right label, None where it is to be removed; an earlier mark is replaced."""
        return self.put_all({row: label})[0]

    def put_all(self, labels: Mapping[int, str | None], *, taken_back: Iterable[int] = ()) -> list[Mark]:
        """Mark rows, and take the marks of others back, all of them or none; as `put`."""
        time = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        new = [_mark(self._run, row, label, time) for row, label in labels.items()]
        with self._changing() as marks:
            for row in taken_back:
                marks.pop(row, None)
            for mark in new:
                marks.pop(mark.row, None)
                marks[mark.row] = mark
        return new

    def remove(self, row: int) -> bool:
        """Take a mark back; tell whether there was one."""
        if self.get(row) is None:
            return False
        with self._changing() as marks:
            return marks.pop(row, None) is not None

    @contextmanager
    def _changing(self) -> Iterator[dict[int, Mark]]:
        """Hand out the marks as they are now, and write what became of them, as the only writer of the folder."""
        with self._lock, self._run.folder.lock(wait=True):
            marks = dict(self._present())
            yield marks
            kept = [{"row": mark.row, "label": mark.label, "time": mark.time} for mark in marks.values()]
            # Written first, so that a disk without room changes nothing.
            self._run.folder.write(self.file, to_record({"format": _FORMAT, "marks": kept}, indent=1))
            self._marks, self._version = marks, self._written()

    def _present(self) -> dict[int, Mark]:
        """Return the marks, read again where another server wrote them."""
        version = self._written()
        if version != self._version:
            self._marks, self._version = _read(self.file, self._run), version
        return self._marks

    def _written(self) -> tuple[int, ...]:
        """Return what differs whenever the file is written anew; nothing where it is missing."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return ()
        return status.st_ino, status.st_mtime_ns, status.st_size


@dataclass(frozen=True)
class CorrectedFile:
    """A file to download."""

    name: str
    content: bytes
    note: str = ""


def corrected_file(rows: Rows, source: str, marks: Sequence[Mark], *, digest: str | None = None) -> CorrectedFile:
    """Return the data of a run with the labels that marks give, in the format it came in.

    Lines of csv, tsv and jsonl files that were not marked stay byte for byte. Where the file is gone or was changed
    since, by its SHA-256 `digest`, the rows that the run kept are written. For images it is a csv of their names and
    labels.
    """
    own = [mark for mark in marks if rows.own[mark.row]]
    labels = {mark.row: _value_of(rows, mark.label) for mark in own if mark.label is not None}
    removed = [mark.row for mark in own if mark.label is None]
    ending, column = Path(source).suffix.lower(), rows.label_column
    table = same_table(source, digest) if rows.kind != "image" else None
    written = ending if ending in WRITABLE and rows.kind != "image" else ".csv"
    note = ""
    if table is None:
        data, stays, places = _kept_data(rows), rows.own.copy(), {mark.row: mark.row for mark in own}
        if rows.kind != "image":
            note = f"{source!r} is missing or was changed: this is what the run kept."
    else:
        by_number: dict[Any, int] = {number: place for place, number in enumerate(table.numbers.tolist())}
        data, stays = table.data, np.ones(table.data.num_rows, bool)
        places = {mark.row: by_number[rows.origin(mark.row)] for mark in own}
    stays[[places[row] for row in removed]] = False
    values = {places[row]: value for row, value in labels.items()}
    if table is not None and ending in (*_SEPARATED, *_JSON_LINES) and text_encoding(Path(source)) != "utf-16":
        content = _corrected_lines(Path(source), table, column, values, stays)
    elif table is not None and ending in (".json", *PARQUET):
        content = rows_of_file(Path(source), stays, column, values)
    else:
        content = table_bytes(with_values(data, column, values).take(np.flatnonzero(stays)), written)
    name = f"{Path(source).stem or 'data'}-corrected{written}"
    return CorrectedFile(name, content, note)


def _mark(run: Run, row: int, label: str | None, time: str) -> Mark:
    given = label_text(run.rows.label(row)) or None
    return Mark(row=row, label=label, given=given, name=run.rows.names[row], time=time)


def is_number(label: str) -> bool:
    """Tell whether a text is a finite number."""
    try:
        return math.isfinite(float(label))
    except ValueError:
        return False


def _read(file: Path, run: Run) -> dict[int, Mark]:
    try:
        content = from_record(file.read_bytes())
        if content is None or content.get("format") != _FORMAT:
            raise ValueError("it is damaged, or of another version")
        marks: dict[int, Mark] = {}
        for one in content["marks"]:
            row, label = int(one["row"]), one["label"]
            known = label is None or (is_number(label) if run.rows.numeric else label in run.label_names)
            if not 0 <= row < len(run.rows) or not known:
                raise ValueError(f"row {row} with label {label!r} is not of this run")
            marks[row] = _mark(run, row, label, str(one["time"]))
        return marks
    except FileNotFoundError:
        return {}
    except (OSError, OverflowError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"the marks in {str(file)!r} cannot be read ({error}). Repair the file, or move it away to start over."
        ) from error


def _value_of(rows: Rows, label: str) -> Any:
    """Return a label as the file writes it: a number stays a number."""
    if rows.numeric:
        return int(label) if label.lstrip("+-").isdecimal() else float(label)
    number = rows.label_names.index(label)
    places = np.flatnonzero(rows.labels == number)
    if not len(places) or rows.label_column not in rows.data.column_names:
        return label
    return rows.data.column(rows.label_column)[int(places[0])].as_py()


def _kept_data(rows: Rows) -> "pa.Table":
    """Return what the run kept of the data, with a column of labels."""
    if rows.label_column in rows.data.column_names:
        return rows.data
    import pyarrow as pa

    labels = [label_text(rows.label(row)) for row in range(len(rows))]
    return rows.data.append_column(rows.label_column, pa.array(labels))


def _corrected_lines(path: Path, table: Table, column: str, values: dict[int, Any], stays: np.ndarray) -> bytes:
    """Return a file in which only the lines of marked rows differ; a row goes up to the first line of the next."""
    lines = path.read_bytes().splitlines(keepends=True)
    starts = (table.numbers - 1).tolist()
    rewrite = _json_line if path.suffix.lower() in _JSON_LINES else _separated_line(path, table, column)
    parts = [b"".join(lines[: starts[0]])]
    for place, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)], strict=True)):
        written = b"".join(lines[start:end])
        if place in values:
            # A file may begin with the mark of UTF-8; elsewhere it belongs to a cell.
            mark = codecs.BOM_UTF8 if start == 0 and written.startswith(codecs.BOM_UTF8) else b""
            written = mark + rewrite(written[len(mark) :].decode(), column, values[place]).encode()
        if stays[place]:
            parts.append(written)
    return b"".join(parts)


def _json_line(line: str, column: str, value: Any) -> str:
    content = line.rstrip("\r\n")
    return json.dumps({**json.loads(content), column: value}, ensure_ascii=False) + line[len(content) :]


def _separated_line(path: Path, table: Table, column: str) -> Any:
    """Return what puts another value into the column of a line, with the separator and quotes of the file."""
    encoding = text_encoding(path)
    separator = separator_of(path, encoding)
    plain = separator == "\t" and quotes_are_text(path, encoding)
    place = table.columns.index(column)

    def rewritten(line: str, column: str, value: Any) -> str:
        content = line.rstrip("\r\n")
        if plain:
            cells = content.split(separator)
            cells[place] = str(value)
            return separator.join(cells) + line[len(content) :]
        cells = next(csv.reader(io.StringIO(content, newline=""), delimiter=separator))
        cells[place] = str(value)
        held = io.StringIO(newline="")
        # With both letters in its line ending it puts cells with either of them into quotes.
        csv.writer(held, delimiter=separator, lineterminator="\r\n").writerow(cells)
        return held.getvalue().removesuffix("\r\n") + line[len(content) :]

    return rewritten
