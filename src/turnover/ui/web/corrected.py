"""The original file with corrected labels: only marked rows differ from what the user gave."""

import codecs
import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnover.runs import WRITABLE, Rows, Table, quotes_are_text, same_table, separator_of, table_bytes, text_encoding

from .shapes import Mark

if TYPE_CHECKING:
    import pandas as pd

_SEPARATED = (".csv", ".tsv", ".tab")
_JSON_LINES = (".jsonl", ".ndjson")


@dataclass(frozen=True)
class CorrectedFile:
    """A file to download.

    Attributes:
        name: to save it as.
        content: of the file.
        changed: how many rows have another label.
        removed: how many rows are left out.
        elsewhere: marks of rows that stand in other files, of validation or test rows.
        note: what the user should know, or "".
    """

    name: str
    content: bytes
    changed: int
    removed: int
    elsewhere: int = 0
    note: str = ""


def corrected_file(rows: Rows, source: str, marks: Sequence[Mark]) -> CorrectedFile:
    """Return the data of a run with the labels that marks give, in the format it came in.

    Lines of csv, tsv and jsonl files that were not marked stay byte for byte. Where the file is gone or was changed
    since, the rows that the run kept are written. For images it is a csv of their names and labels.

    Args:
        rows: of the run.
        source: file or folder that they were read from.
        marks: which rows are wrong, and what is right.
    """
    own = [mark for mark in marks if not len(rows.fixed) or rows.fixed[mark.row] <= 0]
    labels = {mark.row: _value_of(rows, mark.label) for mark in own if mark.label is not None}
    removed = {mark.row for mark in own if mark.label is None}
    ending = Path(source).suffix.lower()
    told: dict[str, Any] = {"changed": len(labels), "removed": len(removed), "elsewhere": len(marks) - len(own)}
    stem = Path(source).stem or "data"
    table = same_table(rows, source, [mark.row for mark in own]) if rows.kind != "image" else None
    if table is None:
        ending = ending if ending in WRITABLE and rows.kind != "image" else ".csv"
        note = "" if rows.kind == "image" else f"{source!r} is gone or was changed: this is what the run kept of it."
        content = table_bytes(_corrected_frame(rows, labels, removed), ending)
        return CorrectedFile(f"{stem}-corrected{ending}", content, note=note, **told)
    name = f"{stem}-corrected{ending if ending in WRITABLE else '.csv'}"
    by_name = {rows.names[row]: value for row, value in labels.items()}
    gone = {rows.names[row] for row in removed}
    if ending in (*_SEPARATED, *_JSON_LINES) and text_encoding(Path(source)) != "utf-16":
        return CorrectedFile(name, _corrected_lines(Path(source), table, rows.label_column, by_name, gone), **told)
    frame = table.frame.copy()
    places = {row: place for place, row in enumerate(table.names)}
    frame[rows.label_column] = frame[rows.label_column].astype(object)
    for row, value in by_name.items():
        frame.loc[places[row], rows.label_column] = value
    stays = np.array([row not in gone for row in table.names])
    return CorrectedFile(name, table_bytes(_taken(frame, stays), Path(name).suffix), **told)


def _value_of(rows: Rows, label: str) -> Any:
    """Return a label as the file writes it: a number stays a number."""
    number = rows.label_names.index(label)
    places = np.flatnonzero(rows.labels == number)
    if not len(places) or rows.label_column not in rows.frame.columns:
        return label
    value = rows.frame[rows.label_column].iloc[int(places[0])]
    return value.item() if isinstance(value, np.generic) else value


def _corrected_frame(rows: Rows, labels: dict[int, Any], removed: set[int]) -> "pd.DataFrame":
    """Return what the run kept of the data itself, corrected."""
    stays = np.ones(len(rows), bool) if not len(rows.fixed) else rows.fixed <= 0
    stays[list(removed)] = False
    frame = rows.frame.copy()
    if rows.label_column in frame.columns:
        frame[rows.label_column] = frame[rows.label_column].astype(object)
    else:
        frame[rows.label_column] = [rows.label_names[number] if number >= 0 else "" for number in rows.labels]
    for row, value in labels.items():
        frame.loc[row, rows.label_column] = value
    return _taken(frame, stays)


def _taken(frame: "pd.DataFrame", stays: np.ndarray) -> "pd.DataFrame":
    """Return some rows; a column whose values are all numbers is one of numbers again."""
    return frame.iloc[np.flatnonzero(stays)].infer_objects()


def _corrected_lines(path: Path, table: Table, column: str, labels: dict[str, Any], gone: set[str]) -> bytes:
    """Return a file in which only the lines of marked rows differ; a row goes up to the first line of the next."""
    encoding = text_encoding(path)
    lines = path.read_bytes().splitlines(keepends=True)
    starts = [int(name.removeprefix("line ")) - 1 for name in table.names]
    rewrite = _json_line if path.suffix.lower() in _JSON_LINES else _separated_line(path, table, column, encoding)
    parts = [b"".join(lines[: starts[0]])]
    for place, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)], strict=True)):
        written = b"".join(lines[start:end])
        name = table.names[place]
        if name in labels:
            mark, line = _parted(written)
            written = mark + rewrite(line, column, labels[name]).encode()
        if name not in gone:
            parts.append(written)
    return b"".join(parts)


def _parted(line: bytes) -> tuple[bytes, str]:
    """Return the mark of UTF-8 that a first line may begin with, and the line itself."""
    mark = codecs.BOM_UTF8 if line.startswith(codecs.BOM_UTF8) else b""
    return mark, line[len(mark) :].decode()


def _json_line(line: str, column: str, value: Any) -> str:
    content = line.rstrip("\r\n")
    return json.dumps({**json.loads(content), column: value}, ensure_ascii=False) + line[len(content) :]


def _separated_line(path: Path, table: Table, column: str, encoding: str) -> Any:
    """Return what puts another value into the column of a line, with the separator and quotes of the file."""
    separator = separator_of(path, encoding)
    plain = separator == "\t" and quotes_are_text(path, encoding)
    place = list(table.frame.columns).index(column)

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
