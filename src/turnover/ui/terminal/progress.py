"""One bar for a whole run: the stage under way, the share of it that is done, and an estimate of the time left."""

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn


class Bars:
    """A watch that draws one bar on a terminal, and nothing elsewhere."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task("", visible=False, note="")
        self._stage = ""

    def __enter__(self) -> "Bars":
        """Begin to draw."""
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Take the bar away."""
        if not self._progress.disable:  # rich 13 and 14 would print an empty line
            self._progress.stop()

    def __call__(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Take note that `done` of `total` steps of a stage are finished."""
        if stage != self._stage:
            self._stage = stage
            # What an earlier process did counts as done, and tells nothing of how long the rest takes.
            self._progress.reset(self._bar, completed=done)
        steps = f"{done:,}/{total:,}" if total > 1 else ""
        self._progress.update(
            self._bar,
            description=escape(stage),
            completed=done,
            total=total,
            note=escape(f"{steps}  {note}".strip()),
            visible=True,
        )
