"""Where a command prints: results to standard output, progress and remarks to standard error; JSON where asked for."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from turnover.applications import plain
from turnover.ui.words import count, duration

# A stage is measured for so many seconds and steps before its length is foretold.
_MEASURED_SECONDS, _MEASURED_STEPS = 3.0, 5
# What takes less than this is not worth a sentence.
_WORTH_SAYING = 60.0


@dataclass
class _Stage:
    """One stage under way: when it began, with how many steps done already, and its bar."""

    began: float
    first: int
    bar: TaskID
    foretold: bool = False


class Bars:
    """A watch that draws a bar for every stage on a terminal, and foretells long stages in a sentence everywhere."""

    def __init__(self, console: Console, *, advice: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._advice, self._clock = advice, clock
        self._stages: dict[str, _Stage] = {}
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> "Bars":
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bars away."""
        self._progress.stop()

    def __call__(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` steps of a stage are finished."""
        seconds = self._clock()
        if stage not in self._stages:
            bar = self._progress.add_task(escape(stage), total=total, completed=done, note="")
            self._stages[stage] = _Stage(seconds, done, bar)
        known = self._stages[stage]
        self._progress.update(known.bar, completed=done, total=total, note=escape(note))
        self._foretell(known, stage, done, total, seconds)

    def _foretell(self, known: _Stage, stage: str, done: int, total: int, seconds: float) -> None:
        """Say once how long a stage will take, as soon as enough of it is measured."""
        passed, steps = seconds - known.began, done - known.first
        if known.foretold or passed < _MEASURED_SECONDS or steps < _MEASURED_STEPS:
            return
        known.foretold = True
        left = passed / steps * (total - done)
        if left > _WORTH_SAYING:
            sentence = f"{stage} will take about {duration(left)} (measured on {count(steps, 'step')} of {total:,})."
            self._progress.console.print(f"{escape(sentence)} {escape(self._advice)}".rstrip(), soft_wrap=True)


class Terminal:
    """What a command prints to: `words` for people, `aside` for progress; with JSON, standard output is kept free."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.aside = Console(stderr=True, highlight=False)
        self.words = self.aside if as_json else Console(highlight=False)

    def bars(self, *, advice: str = "") -> Bars:
        """Return bars for a function that takes a watch; they show only while someone looks."""
        return Bars(self.aside, advice=advice)

    def result(self, data: Mapping[str, Any]) -> None:
        """Print the result as JSON."""
        print_json(data)


def print_json(data: Mapping[str, Any]) -> None:
    """Print data as JSON on standard output; NaN and infinities become null, for JSON has neither."""
    content = plain(data)
    text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
    # A terminal or pipe that cannot hold every character gets escapes, not an error.
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(content, indent=2, allow_nan=False)
    print(text)
