"""`turnover demo`: wrong labels among handwritten digits, found in about two minutes."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.columns import Columns
from rich.console import Group
from rich.table import Table
from rich.text import Text

from turnover.runs import Curves, DigitsConfig, DigitsResult, run_digits

from .finished_run import print_next, took
from .options import AsJson, Debug
from .outcomes import resumable
from .phrases import percent
from .pictures import picture
from .terminal import Terminal

_SHOWN, _PICTURES = 10, 4
_BARS = "▁▂▃▄▅▆▇█"
_USUAL = DigitsConfig()
_STOPPED = "stopped. What is finished is kept; the same command takes it up again."


def demo(
    seed: Annotated[
        int, typer.Option(min=0, help="Of the data split, the changed labels, the weights and the masks.")
    ] = _USUAL.seed,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training digits.")] = _USUAL.epochs,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")] = Path("runs/demo"),
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Find wrong labels among handwritten digits, in two minutes and without a download.

    Trains once on digits of which 10 % have a changed label, finds the changed ones and writes a report. The digits
    ship with scikit-learn.

    Example: turnover demo --seed 1
    """
    from turnover.ui.html.files import write_report

    terminal = Terminal(as_json=as_json)
    if not as_json:
        _introduce(terminal)
    with resumable(_STOPPED), terminal.bars() as watch:
        result = run_digits(DigitsConfig(seed=seed, epochs=epochs), out, watch=watch)
        began = time.perf_counter()
        watch("writing the report", 0, 1)
        page = write_report(result.run)
        watch("writing the report", 1, 1)
        seconds = time.perf_counter() - began
    if as_json:
        terminal.result(_as_data(result, page))
        return
    _print_curves(result.run.curves, terminal)
    _print_findings(result, terminal)
    print_next(result.run, terminal)
    terminal.words.print(f"\nThe report, to open in a browser: [bold]{page}[/bold]", soft_wrap=True)
    terminal.words.print(took(result.run, seconds), style="dim")


def _introduce(terminal: Terminal) -> None:
    terminal.words.print(
        "[bold]turnover demo[/bold]: 1,437 handwritten digits, 10 % of their labels changed to another digit."
    )
    terminal.words.print(
        "Every digit trains its own half of the network. Once trained, the other half tells what the network would say "
        "of it had it never seen it.\n"
    )


def _print_curves(curves: Curves, terminal: Terminal) -> None:
    highest = max(curves.keep + curves.flip + curves.validation)
    table = Table(title="Loss by epoch", title_justify="left", box=None)
    for name in ("view", "curve", "first", "last"):
        table.add_column(name, justify="right" if name in ("first", "last") else "left")
    names = {
        "keep: half that learns it": curves.keep,
        "flip: half that never saw it": curves.flip,
        "validation: whole network": curves.validation,
    }
    for name, values in names.items():
        bars = "".join(_BARS[min(int(value / highest * len(_BARS)), len(_BARS) - 1)] for value in values)
        table.add_row(name, bars, f"{values[0]:.3f}", f"{values[-1]:.3f}")
    terminal.words.print(table)
    terminal.words.print(
        "The flipped half cannot memorize: its loss on the training digits does not fall, as a tenth of their "
        "labels is wrong. The labels of the validation digits are right.\n"
    )


def _print_findings(result: DigitsResult, terminal: Terminal) -> None:
    words, data, run = terminal.words, result.data, result.run
    table = Table(title=f"The {_SHOWN} digits with the highest self-influence", title_justify="left")
    for name in ("row", "self-influence", "given label", "unseen, it says", "true label"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in result.suspects[:_SHOWN].tolist():
        table.add_row(
            str(row),
            f"{run.self_influence.values[row]:.2f}",
            str(int(data.labels[row])),
            str(int(result.unseen_labels[row])),
            str(int(data.true_labels[row])),
            "[green]found[/green]" if bool(data.changed[row]) else "[yellow]was right[/yellow]",
        )
    words.print(table)
    words.print(
        Columns([_digit(result, row, terminal) for row in result.suspects[:_PICTURES].tolist()], padding=(1, 4))
    )
    changed, rows = int(data.changed.sum()), len(data.labels)
    words.print(
        f"\n[bold]{result.found} of the {changed} changed labels are among the {len(result.suspects)} digits (10 %) "
        f"with the highest self-influence[/bold]; by chance it would be {changed * len(result.suspects) / rows:.0f}."
    )
    right = percent(run.about.results["test_accuracy"])
    words.print(f"Right on clean test digits: {right}. All of it from one training.\n")


def _digit(result: DigitsResult, row: int, terminal: Terminal) -> Group:
    given = int(result.data.labels[row])
    return Group(picture(result.run.rows.values[row], terminal.words), Text(f"row {row}: “{given}”?"))


def _as_data(result: DigitsResult, page: Path) -> dict[str, Any]:
    run = result.run
    return {
        "run": str(run.folder.path),
        "report": str(page),
        "changed": int(result.data.changed.sum()),
        "found_in_top_10_percent": result.found,
        "top_rows": result.suspects.tolist(),
        "self_influence": [round(float(value), 6) for value in run.self_influence.values],
        "curves": run.curves.as_dict(),
        "results": run.about.results,
        "seconds": run.about.seconds,
    }
