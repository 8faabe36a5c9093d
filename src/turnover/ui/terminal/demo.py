"""`turnover demo`: label errors among handwritten digits, found in about two minutes."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from turnover.runs import Curves, DigitsConfig, DigitsResult, run_digits
from turnover.ui.words import percent

from .drawing import draw_gallery, numbers
from .finished_run import print_next, took, written_report
from .options import AsJson, Debug, OnDevice
from .outcomes import resumable
from .terminal import Terminal

_SHOWN, _PICTURES = 10, 4
_BARS = "▁▂▃▄▅▆▇█"
_USUAL = DigitsConfig()
_STOPPED = "stopped. What is finished is kept; the same command resumes."


def demo(
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of split, changed labels, initialization and masks.")
    ] = _USUAL.seed,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = _USUAL.epochs,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder of the run.")] = Path("runs/demo"),
    as_json: AsJson = False,
    device: OnDevice = None,
    debug: Debug = False,
) -> None:
    """Find label errors among handwritten digits, in two minutes and without a download.

    Changes 10 % of the training labels, trains once, ranks the digits by how much they were memorized and writes a
    report. The digits ship with scikit-learn.

    Example: turnover demo --seed 1
    """
    terminal = Terminal(as_json=as_json)
    if not as_json:
        _introduce(terminal)
    with resumable(_STOPPED), terminal.bars() as watch:
        result = run_digits(DigitsConfig(seed=seed, epochs=epochs), out, watch=watch)
        _, page, seconds = written_report(result.run, watch)
    if as_json:
        terminal.result(_as_data(result, page))
        return
    _print_curves(result.run.curves, terminal)
    _print_findings(result, terminal)
    print_next(result.run, terminal)
    terminal.words.print(f"\nReport, to open in a browser: [bold]{page}[/bold]", soft_wrap=True)
    terminal.words.print(took(result.run, seconds), style="dim")


def _introduce(terminal: Terminal) -> None:
    terminal.words.print(
        "[bold]turnover demo[/bold]: 1,437 handwritten digits, 10 % of their labels changed to another digit."
    )
    terminal.words.print(
        "Each digit trains its own random half of the network, the kept subnetwork. The other half, the flipped "
        "subnetwork, never learns it: its prediction for the digit is a held-out prediction.\n"
    )


def _print_curves(curves: Curves, terminal: Terminal) -> None:
    highest = max(curves.keep + curves.flip + curves.validation)
    table = Table(
        "view", "curve", numbers("first"), numbers("last"), title="Mean loss per epoch", title_justify="left", box=None
    )
    views = {
        "training digits, kept subnetwork": curves.keep,
        "training digits, flipped subnetwork": curves.flip,
        "validation digits, full network": curves.validation,
    }
    for view, values in views.items():
        bars = "".join(_BARS[min(int(value / highest * len(_BARS)), len(_BARS) - 1)] for value in values)
        table.add_row(view, bars, f"{values[0]:.3f}", f"{values[-1]:.3f}")
    terminal.words.print(table)
    terminal.words.print(
        "Kept subnetworks memorize the changed labels. Flipped subnetworks cannot: their loss on the training digits "
        "rises. Validation labels are all correct.\n"
    )


def _print_findings(result: DigitsResult, terminal: Terminal) -> None:
    words, data, run = terminal.words, result.data, result.run
    columns = map(numbers, ("row", "self-influence", "given\nlabel", "held-out\nprediction", "true\nlabel"))
    title = f"The {_SHOWN} digits with the highest self-influence"
    table = Table(*columns, "", title=title, title_justify="left")
    for row in result.suspects[:_SHOWN].tolist():
        table.add_row(
            str(run.rows.names[row]),
            f"{run.self_influence.values[row]:.2f}",
            str(int(data.labels[row])),
            str(int(result.held_out_labels[row])),
            str(int(data.true_labels[row])),
            "[green]wrong label[/green]" if bool(data.changed[row]) else "[yellow]correct label[/yellow]",
        )
    words.print(table)
    digits = [
        (run.rows.values[row], [Text(f"{run.rows.names[row]}: labeled {int(data.labels[row])}")])
        for row in result.suspects[:_PICTURES].tolist()
    ]
    words.print(draw_gallery("The first of them", digits, words))
    changed, rows = int(data.changed.sum()), len(data.labels)
    words.print(
        f"\n[bold]{result.found} of the {changed} changed labels are among the {len(result.suspects)} digits (10 %) "
        f"with the highest self-influence[/bold]; by chance there would be {changed * len(result.suspects) / rows:.0f}."
    )
    accuracy, baseline = (percent(run.about.results[name]) for name in ("test_accuracy", "most_frequent_share"))
    words.print(f"Test accuracy {accuracy} (majority-class baseline {baseline}). All of it from one training.\n")


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
