"""Which tiles are done, each with the checksums of its files: a list that grows by one line a tile."""

from collections.abc import Mapping
from pathlib import Path

from .files import append_file, read_bytes, remove_file, write_atomically
from .json_values import from_record, to_record

MARKS_NAME = "done.jsonl"

Marks = dict[int, dict[str, str]]
"""Tile -> array -> checksum of the tile's file."""


def read_marks(folder: Path) -> Marks:
    """Return all marks that are whole; of two for the same tile the later one."""
    marks: Marks = {}
    for line in (read_bytes(folder / MARKS_NAME) or b"").splitlines(keepends=True):
        record = from_record(line)
        if record is not None:
            marks[record["tile"]] = record["sha256"]
    return marks


def add_mark(folder: Path, tile: int, checksums: Mapping[str, str]) -> None:
    """Mark a tile done."""
    append_file(folder / MARKS_NAME, _line(tile, checksums))


def rewrite_marks(folder: Path, marks: Marks) -> None:
    """Make these the only marks, at once."""
    data = b"".join(_line(tile, marks[tile]) for tile in sorted(marks))
    if data != read_bytes(folder / MARKS_NAME):
        write_atomically(folder / MARKS_NAME, data, sync=True)


def remove_marks(folder: Path) -> None:
    """Remove the list of marks."""
    remove_file(folder / MARKS_NAME)


def _line(tile: int, checksums: Mapping[str, str]) -> bytes:
    # The line break in front keeps a line that was cut off from spoiling this one.
    return b"\n" + to_record({"tile": tile, "sha256": dict(checksums)})
