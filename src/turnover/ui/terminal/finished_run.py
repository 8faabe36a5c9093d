"""The end of a run: its report is written, its findings are printed, and what to type next."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from turnover.runs import Run, Watch
from turnover.ui.words import digits, duration, percent

from .drawing import plain, visible
from .outcomes import own_name
from .terminal import Terminal

if TYPE_CHECKING:
    from turnover.ui.html import ReportData

_TONES = {"good": "bold green", "look": "bold yellow", "plain": "bold"}


def finish(run: Run[Any], terminal: Terminal, watch: Watch) -> None:
    """Write the report of a finished run and print its findings."""
    data, page, seconds = written_report(run, watch)
    if terminal.as_json:
        terminal.result(_as_data(run, data, page, seconds))
    else:
        _print(run, data, page, seconds, terminal)


def written_report(run: Run[Any], watch: Watch) -> "tuple[ReportData, Path, float]":
    """Write the report of a run; return what it says, its file, and how many seconds it took."""
    from turnover.ui.html import collect, write_report

    began = time.perf_counter()
    watch("report", 0, 1)
    data = collect(run)
    page = write_report(run, data=data)
    watch("report", 1, 1)
    return data, page, time.perf_counter() - began


def next_commands(run: Run[Any]) -> list[tuple[str, str]]:
    """Return what to type next, and what for."""
    # By its path, where the shell would not find it by its name.
    turnover, folder = own_name(), shlex.quote(str(run.folder.path))
    query = '--query "a sentence"' if run.kind == "text" else "--errors"
    commands = (
        (f"explain {folder} {query}", "training examples behind a prediction"),
        (f"cleanse {folder} --drop 1%", "harmful examples, and a file without them"),
        (f"memorized {folder}", "memorized examples, likely label errors"),
        (f"serve {folder}", "live page to query the model"),
    )
    return [(f"{turnover} {command}", purpose) for command, purpose in commands]


def print_next(run: Run[Any], terminal: Terminal) -> None:
    """Print what to type next."""
    commands = next_commands(run)
    # Side by side where both fit a line; under each other where a path is long, so that commands stay whole.
    wide = max(len(command) for command, _ in commands) + max(len(purpose) for _, purpose in commands) + 6
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan")
    if wide <= terminal.words.width:
        table.add_column(style="dim")
        for command, purpose in commands:
            table.add_row(command, purpose)
    else:
        for command, purpose in commands:
            table.add_row(Text.assemble((f"{purpose}:\n", "dim"), command))
    terminal.words.print(Panel(table, title="What next", title_align="left", border_style="dim"))


def _as_data(run: Run[Any], data: "ReportData", page: Path, seconds: float) -> dict[str, Any]:
    from turnover.ui.html import nothing_learned

    return {
        "run": str(run.folder.path),
        "report": str(page),
        "kind": run.kind,
        "task": run.task.name,
        "rows": data.overview["rows"],
        "labels": list(data.overview["labels"]),
        "results": run.about.results,
        "seconds": {**run.about.seconds, "report": round(seconds, 3)},
        "notes": run.about.notes,
        "warning": nothing_learned(run),
        "headlines": data.headlines,
        "next": [command for command, _ in next_commands(run)],
    }


def took(run: Run[Any], report: float) -> str:
    """Return how long a run took, as a sentence that says what is counted."""
    stages = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in run.about.seconds.items() if seconds >= 1)
    whole = duration(sum(run.about.seconds.values()) + report)
    parts = f" ({stages}, report {duration(report)})" if stages else ""
    return f"It took {whole}{parts}, not counting the start of Python and its packages."


def _print(run: Run[Any], data: "ReportData", page: Path, seconds: float, terminal: Terminal) -> None:
    words = terminal.words
    rows = ", ".join(f"{number:,} {split}" for split, number in data.overview["rows"].items() if number)
    words.print(Text.assemble((visible(Path(run.config.data).name), "bold"), f": {rows} rows"))
    for note in run.about.notes:
        words.print(plain(note, "dim"))
    for line in _results(run.about.results):
        words.print(line)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for headline in data.headlines:
        table.add_row(Text(headline.figure, style=_TONES[headline.tone]), plain(headline.sentence))
    words.print(Panel(table, title="Findings", title_align="left", border_style="dim"))
    print_next(run, terminal)
    words.print(f"Report, to open in a browser: [bold]{page}[/bold]", soft_wrap=True)
    words.print(took(run, seconds), style="dim")


def _results(results: dict[str, float]) -> list[str]:
    """Return how good the model is, one line per split."""
    lines: list[str] = []
    for split in ("validation", "test"):
        if f"{split}_accuracy" in results:
            accuracy, baseline = percent(results[f"{split}_accuracy"]), percent(results["most_frequent_share"])
            lines.append(f"Accuracy on {split} rows: [bold]{accuracy}[/bold] (majority-class baseline {baseline})")
        if f"{split}_rmse" in results:
            rmse, baseline = digits(results[f"{split}_rmse"]), digits(results[f"{split}_baseline_rmse"])
            r2 = f", R² {results[f'{split}_r2']:.3f}" if f"{split}_r2" in results else ""
            lines.append(
                f"RMSE on {split} rows: [bold]{rmse}[/bold] (predicting the mean: {baseline}), MAE "
                f"{digits(results[f'{split}_mae'])}{r2}"
            )
    return lines
