"""Rows that a person marked as wrong, with the right label; kept in the run folder as they are made."""

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turnover.errors import RunError
from turnover.runs import Run, write_whole

from .shapes import Mark

FORMAT = 1


class MarkBook:
    """The marks of a run, in RUN/marks.json: there whole after every change.

    Args:
        run: whose rows are marked.

    Raises:
        RunError: the file is there and cannot be read.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.file = run.folder.path / "marks.json"
        self._lock = threading.Lock()
        self._marks = _read(self.file, run)

    @property
    def all(self) -> list[Mark]:
        """Return all marks, the latest first."""
        return list(self._marks.values())[::-1]

    @property
    def rows(self) -> Sequence[int]:
        """Return the numbers of the marked rows."""
        return list(self._marks)

    def __len__(self) -> int:
        """Return how many rows are marked."""
        return len(self._marks)

    def get(self, row: int) -> Mark | None:
        """Return the mark of a row."""
        return self._marks.get(row)

    def put(self, row: int, label: str | None) -> Mark:
        """Mark a row; the label of an earlier mark is replaced.

        Args:
            row: a number that exists.
            label: the right one; None: the row is to be removed.
        """
        mark = _mark(self._run, row, label, datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"))
        with self._lock:
            changed = {number: one for number, one in self._marks.items() if number != row}
            self._keep({**changed, row: mark})
        return mark

    def remove(self, row: int) -> bool:
        """Take a mark back; tell whether there was one."""
        with self._lock:
            if row not in self._marks:
                return False
            self._keep({number: one for number, one in self._marks.items() if number != row})
            return True

    def _keep(self, marks: dict[int, Mark]) -> None:
        """Write first, so that a disk without room changes nothing."""
        kept = [{"row": mark.row, "label": mark.label, "time": mark.time} for mark in marks.values()]
        text = json.dumps({"format": FORMAT, "marks": kept}, ensure_ascii=False, indent=1) + "\n"
        write_whole(self.file, text)
        self._marks = marks


def _mark(run: Run, row: int, label: str | None, time: str) -> Mark:
    number = int(run.rows.labels[row])
    given = None if number < 0 else run.label_names[number]
    return Mark(row=row, label=label, given=given, name=run.rows.names[row], time=time)


def _read(file: Path, run: Run) -> dict[int, Mark]:
    try:
        content: Any = json.loads(file.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r} is not known")
        marks: dict[int, Mark] = {}
        for one in content["marks"]:
            row, label = int(one["row"]), one["label"]
            if not 0 <= row < len(run.rows) or (label is not None and label not in run.label_names):
                raise ValueError(f"row {row} with label {label!r} is not of this run")
            marks[row] = _mark(run, row, label, str(one["time"]))
        return marks
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"the marks in {str(file)!r} cannot be read ({error}). Repair the file, or move it away to begin anew."
        ) from error
