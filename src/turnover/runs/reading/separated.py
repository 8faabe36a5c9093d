"""Tables whose columns are separated by commas, tabs, semicolons or bars: what separates them, what quotes mean."""

import csv
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

import numpy as np

from turnover.errors import DataFileError
from turnover.runs.config import Watch
from turnover.tables import counted

from .encoding import text_encoding

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_SAMPLE_LINES = 200
CHUNK = 50_000
"""Rows that are Python objects at one time."""


def read_separated(path: Path, watch: Watch) -> "tuple[pd.DataFrame, np.ndarray]":
    """Return the columns of a csv or tsv file as strings, and the number of the first line of each row, from 1."""
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
                if len(rows) == CHUNK:
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
    return frame, np.frombuffer(numbers, np.int64)


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
    check_unique(names, path)
    return names


def check_unique(names: list[str], path: Path) -> None:
    """Raise where two columns have one name."""
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise DataFileError(
            f"{str(path)!r} has several columns of the name {', '.join(map(repr, repeated))}. Rename all but one of "
            "them in its first line."
        )
