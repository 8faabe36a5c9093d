"""`turnover demo`: wrong labels among handwritten digits, found in about half a minute."""

import json
from typing import Annotated

import typer
from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from turnover.tasks.digits import Curves, DigitsConfig, DigitsResult, run_digits

_SHOWN = 10
_PICTURES = 4
_BARS = "▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"


def demo(
    seed: Annotated[int, typer.Option(help="Of the data split, the changed labels, the weights and the masks.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training digits.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train on handwritten digits with 10 % changed labels, then find the changed ones.

    Example: turnover demo --seed 1
    """
    config = DigitsConfig(seed=seed, epochs=epochs)
    console = Console()
    if as_json:
        console.print_json(json.dumps(_as_data(run_digits(config))))
        return
    console.print(
        "[bold]turnover demo[/bold]: 1,437 handwritten digits, 10 % of their labels changed to another digit."
    )
    console.print(
        "Every digit trains its own half of the network. Once trained, the other half tells what the network would say "
        "of it had it never seen it.\n"
    )
    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.fields[losses]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("training", total=epochs, losses="")

        def on_epoch(epoch: int, curves: Curves) -> None:
            losses = f"keep {curves.keep[-1]:.3f}  flip {curves.flip[-1]:.3f}  validation {curves.validation[-1]:.3f}"
            progress.update(task, completed=epoch, losses=losses)

        result = run_digits(config, on_epoch=on_epoch)
    _print_curves(console, result.curves)
    _print_findings(console, result)


def _print_curves(console: Console, curves: Curves) -> None:
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
    console.print(table)
    console.print(
        "The flipped half cannot memorise: its loss on the training digits stays high, as a tenth of their labels is "
        "wrong. The labels of the validation digits are right.\n"
    )


def _print_findings(console: Console, result: DigitsResult) -> None:
    changed, suspects = int(result.data.changed.sum()), len(result.suspects)
    table = Table(title=f"The {_SHOWN} digits with the highest self-influence", title_justify="left")
    for name in ("row", "self-influence", "given label", "unseen, it says", "true label"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in result.suspects[:_SHOWN].tolist():
        wrong = bool(result.data.changed[row])
        table.add_row(
            str(row),
            f"{result.self_influence[row]:.2f}",
            str(int(result.data.labels[row])),
            str(int(result.unseen_labels[row])),
            str(int(result.data.true_labels[row])),
            "[green]found[/green]" if wrong else "[yellow]was right[/yellow]",
        )
    console.print(table)
    console.print(Columns([_picture(result, row) for row in result.suspects[:_PICTURES].tolist()], padding=(0, 3)))
    console.print(
        f"\n[bold]{result.found} of the {changed} changed labels are among the {suspects} digits (10 %) with the "
        f"highest self-influence[/bold]; by chance it would be {changed * suspects / len(result.data.labels):.0f}."
    )
    console.print(
        f"Validation accuracy {result.accuracy:.1%}. One training run and two passes over the data, "
        f"{result.seconds:.0f} seconds in all."
    )


def _picture(result: DigitsResult, row: int) -> Text:
    """Return a digit drawn with shaded blocks, two characters a pixel."""
    pixels = result.data.images[row].view(8, 8).tolist()
    drawn = "\n".join("".join(_SHADES[min(int(p * 5), 4)] * 2 for p in line) for line in pixels)
    return Text(f"{drawn}\nrow {row}: “{int(result.data.labels[row])}”?")


def _as_data(result: DigitsResult) -> dict[str, object]:
    return {
        "changed": int(result.data.changed.sum()),
        "found_in_top_10_percent": result.found,
        "top_rows": result.suspects.tolist(),
        "self_influence": [round(value, 6) for value in result.self_influence.tolist()],
        "curves": {"keep": result.curves.keep, "flip": result.curves.flip, "validation": result.curves.validation},
        "validation_accuracy": result.accuracy,
        "seconds": result.seconds,
    }
