"""The end of a run: its report is written, what was found is told, and what to type next."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from turnover.runs import SPLITS, Run, Watch
from turnover.ui.words import duration, percent

from .drawing import plain, visible
from .outcomes import own_name
from .terminal import Terminal

if TYPE_CHECKING:
    from turnover.ui.html import ReportData

_TONES = {"good": "bold green", "look": "bold yellow", "plain": "bold"}


def finish(run: Run, terminal: Terminal, watch: Watch) -> None:
    """Write the report of a finished run and tell what was found.

    Args:
        run: that came to its end.
        terminal: to print to.
        watch: told of the report.
    """
    from turnover.ui.html import collect, write_report

    began = time.perf_counter()
    watch("writing the report", 0, 1)
    data = collect(run)
    page = write_report(run, data=data)
    watch("writing the report", 1, 1)
    seconds = time.perf_counter() - began
    if terminal.as_json:
        terminal.result(_as_data(run, data, page, seconds))
    else:
        _print(run, data, page, seconds, terminal)


def next_commands(run: Run) -> list[tuple[str, str]]:
    """Return what to type next, and what for."""
    # By its path, where the shell would not find it by its name.
    turnover, folder = own_name(), shlex.quote(str(run.folder.path))
    if run.task.name == "lm":
        return [
            (f"{turnover} memorized {folder}", "the text, colored by what was learned by heart"),
            (f'{turnover} explain {folder} --query "some words"', "the passages behind the next word"),
        ]
    explained = '--query "a sentence"' if run.kind == "text" else "--errors"
    return [
        (f"{turnover} explain {folder} {explained}", "the training rows behind a prediction"),
        (f"{turnover} cleanse {folder} --drop 1%", "rows that harm, and a file without them"),
        (f"{turnover} memorized {folder}", "what was learned by heart, doubtful labels"),
        (f"{turnover} serve {folder}", "ask it on a live page"),
    ]


def print_next(run: Run, terminal: Terminal) -> None:
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


def _rows(run: Run) -> dict[str, int]:
    return {split: len(run.places(split)) for split in SPLITS}


def _as_data(run: Run, data: "ReportData", page: Path, seconds: float) -> dict[str, Any]:
    return {
        "run": str(run.folder.path),
        "report": str(page),
        "kind": run.kind,
        "rows": _rows(run),
        "labels": [] if run.task.name == "lm" else list(run.label_names),
        "results": run.about.results,
        "seconds": {**run.about.seconds, "report": round(seconds, 3)},
        "notes": run.about.notes,
        "findings": data.as_dict()["findings"],
        "next": [command for command, _ in next_commands(run)],
    }


def took(run: Run, report: float) -> str:
    """Return how long a run took, as a sentence that says what is counted.

    Args:
        run: with the seconds of its stages.
        report: seconds that its report took.
    """
    stages = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in run.about.seconds.items() if seconds >= 1)
    whole = duration(sum(run.about.seconds.values()) + report)
    said = f" ({stages}, report {duration(report)})" if stages else ""
    return f"It took {whole}{said}, not counting the start of Python and its packages."


def _print(run: Run, data: "ReportData", page: Path, seconds: float, terminal: Terminal) -> None:
    words = terminal.words
    what = "words" if run.task.name == "lm" else "rows"
    rows = ", ".join(f"{number:,} {split}" for split, number in _rows(run).items() if number)
    words.print(Text.assemble((visible(Path(run.config.data).name), "bold"), f": {rows} {what}"))
    for note in run.about.notes:
        words.print(plain(note, "dim"))
    for line in _results(run.about.results):
        words.print(line)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for finding in data.findings:
        table.add_row(Text(finding.figure, style=_TONES.get(finding.tone, "bold")), plain(finding.sentence))
    words.print(Panel(table, title="What was found", title_align="left", border_style="dim"))
    print_next(run, terminal)
    words.print(f"The report, to open in a browser: [bold]{page}[/bold]", soft_wrap=True)
    words.print(took(run, seconds), style="dim")


def _results(results: dict[str, float]) -> list[str]:
    """Return how good the model is, a line each."""
    lines: list[str] = []
    for split in ("validation", "test"):
        if f"{split}_accuracy" in results:
            right, chance = percent(results[f"{split}_accuracy"]), percent(results["most_frequent_share"])
            lines.append(f"Right on {split} rows: [bold]{right}[/bold] (always the most frequent class: {chance})")
        if f"{split}_perplexity" in results:
            lines.append(f"Perplexity on {split} words: [bold]{results[f'{split}_perplexity']:.1f}[/bold]")
    return lines
