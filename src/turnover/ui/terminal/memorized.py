"""`turnover memorized`: what was learned by heart, and which labels are doubtful."""

from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from turnover.applications import Memorized, MemorizedRow
from turnover.runs import Run, open_run, run_memorized
from turnover.ui.html.row_lists import firmly_doubted
from turnover.ui.words import count, percent, power_of, score, unit

from .asked import value_of
from .drawing import draw_gallery, draw_value, plain
from .language_models import show_memorized
from .options import AsJson, Debug, RunPath
from .terminal import Terminal

_BINS, _WIDEST = 16, 48
# Of a language model, passages are shown.
_MOST_PASSAGES = 5


def memorized(
    folder: RunPath,
    most: Annotated[int, typer.Option(min=1, help="Likely wrong labels, or passages of a text, to show.")] = 10,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what was learned by heart, and which labels are doubtful.

    A label is doubtful where the part of the network that never saw the row does not believe it. Self-influence says
    how much having seen a row helps on it: high where a row cannot be learned from others.

    Example: turnover memorized runs/reviews --most 50 --json
    """
    terminal = Terminal(as_json=as_json)
    run = open_run(folder)
    if run.task.name == "lm":
        show_memorized(run, min(most, _MOST_PASSAGES), terminal)
        return
    with terminal.aside.status("looking at every training row"):
        found = run_memorized(run)
    if as_json:
        terminal.result(_as_data(found, run))
    else:
        _print(found, run, most, terminal)


def _as_data(found: Memorized, run: Run) -> dict[str, object]:
    data = found.as_dict()
    for name in ("likely_wrong", "most_memorized"):
        for row in data[name]:
            _with_names(row, run)
    return data


def _with_names(row: dict[str, Any], run: Run) -> None:
    """Give rows their numbers and labels their names."""
    places = run.places("train")
    number = int(places[row["position"]])
    row["row"], row["name"] = number, run.rows.names[number]
    row["label"], row["suggested"] = run.label_names[row["label"]], run.label_names[row["suggested"]]
    row["twins"] = [int(places[twin]) for twin in row["twins"]]


def _print(found: Memorized, run: Run, most: int, terminal: Terminal) -> None:
    words = terminal.words
    words.print(_histogram(found))
    words.print(f"{percent(found.share_positive, 0)} of {len(found):,} rows are better known for having been seen.\n")
    wrong = found.likely_wrong(min(most, found.disbelieved)) if found.disbelieved else ()
    if wrong:
        words.print((_doubtful_pictures if run.kind == "image" else _doubtful)(wrong, run, terminal))
        firm = int(firmly_doubted(run.out_of_sample).sum())
        more = f" (--most {found.disbelieved} shows all)" if found.disbelieved > most else ""
        words.print(
            f"{count(found.disbelieved, 'label')} that the part which never saw the row does not believe, {firm:,} of "
            f"them firmly{more}.\n"
        )
    else:
        words.print("No label is doubted by the part of the network that never saw its row.\n")
    _print_duplicates(found, run, terminal)


def _histogram(found: Memorized) -> Table:
    """Return self-influence as bars, one line a range of values."""
    histogram = found.histogram(_BINS)
    power = power_of(histogram.edges.tolist())
    table = Table(
        title="Self-influence of the training rows" + unit(power), title_justify="left", box=None, padding=(0, 1, 0, 0)
    )
    table.add_column("from", justify="right")
    table.add_column("to", justify="right")
    table.add_column("", no_wrap=True)
    table.add_column("rows", justify="right")
    highest = int(histogram.counts.max())
    for place, rows in enumerate(histogram.counts.tolist()):
        low, high = histogram.edges[place], histogram.edges[place + 1]
        bar = Text("█" * round(_WIDEST * rows / highest) or ("▏" if rows else ""))
        bar.stylize("cyan" if high > 0 else "dim")
        table.add_row(score(float(low), power=power), score(float(high), power=power), bar, f"{rows:,}")
    return table


def _doubtful(rows: tuple[MemorizedRow, ...], run: Run, terminal: Terminal) -> Table:
    power = power_of(row.self_influence for row in rows)
    table = Table(title="Likely wrong labels", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("row", justify="right")
    table.add_column("given")
    table.add_column("unseen, it says")
    table.add_column("self-influence" + unit(power), justify="right")
    table.add_column("training row", ratio=1)
    places = run.places("train")
    for row in rows:
        number = int(places[row.position])
        shown = draw_value(value_of(run, number), terminal.words)
        table.add_row(
            str(number),
            plain(f"{run.label_names[row.label]} ({percent(row.label_probability, 0)})"),
            plain(f"{run.label_names[row.suggested]} ({percent(row.suggested_probability, 0)})", "bold"),
            score(row.self_influence, row.stderr, power),
            shown,
        )
    return table


def _doubtful_pictures(rows: tuple[MemorizedRow, ...], run: Run, terminal: Terminal) -> RenderableType:
    places = run.places("train")
    power = power_of(row.self_influence for row in rows)
    entries: list[tuple[Any, list[Text]]] = []
    for row in rows:
        number = int(places[row.position])
        given, other = run.label_names[row.label], run.label_names[row.suggested]
        lines = [
            plain(f"row {number}: {given}", "dim"),
            plain(f"rather {other} ({percent(row.suggested_probability, 0)})", "bold"),
            Text(score(row.self_influence, row.stderr, power), style="dim"),
        ]
        entries.append((value_of(run, number), lines))
    return draw_gallery(
        "Likely wrong labels, what the unseen part says, self-influence" + unit(power), entries, terminal.words
    )


def _print_duplicates(found: Memorized, run: Run, terminal: Terminal) -> None:
    words, duplicates = terminal.words, found.duplicates
    if duplicates is None or not duplicates.groups:
        words.print("No two training rows are nearly the same.")
        return
    apart = [group for group in duplicates.groups if len({int(found.labels[place]) for place in group}) > 1]
    said = f"{count(len(duplicates.groups), 'group')} of training rows that are nearly the same"
    words.print(f"{said}; in {len(apart)} of them the labels differ.")
    places = run.places("train")
    for group in apart[:3]:
        for place in group[:3]:
            number = int(places[place])
            label = run.label_names[int(found.labels[place])]
            line = Text.assemble(f"  row {number}  ", (label, "bold"), "  ")
            shown = draw_value(value_of(run, number), terminal.words)
            words.print(line.append_text(shown) if isinstance(shown, Text) and run.kind != "image" else line)
        words.print()
