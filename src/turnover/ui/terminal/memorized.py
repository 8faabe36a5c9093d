"""`turnover memorized`: memorized examples, likely label errors and near-duplicates."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from turnover.applications import (
    Examples,
    Histogram,
    LabelError,
    LabelErrors,
    NearDuplicates,
    examine_memorized,
    example_duplicates,
    find_label_errors,
    find_near_duplicates,
)
from turnover.runs import open_run
from turnover.ui.html import (
    Headline,
    duplicates_headline,
    label_errors_headline,
    memorized_headline,
    nothing_learned,
    shown_row,
)
from turnover.ui.words import count, label_words, percent, power_of, score, unit

from .drawing import draw_gallery, draw_value, listing, numbers, plain, visible
from .options import AsJson, Debug, OnDevice, RunPath
from .terminal import Terminal

_BINS, _WIDEST = 16, 48
_MOST_ERRORS = 10
_MOST_GROUPS, _MOST_OF_A_GROUP = 3, 3


def memorized(
    folder: RunPath,
    most: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of likely label errors to show.",
            show_default=f"{_MOST_ERRORS}; with --json all",
        ),
    ] = None,
    as_json: AsJson = False,
    device: OnDevice = None,
    debug: Debug = False,
) -> None:
    """Show what was memorized, and which labels are likely errors.

    A row is memorized if its self-influence (how much training on it lowers its own loss) is positive and significant.
    Its label is a likely error if it is more probably wrong than right, judged by what the network predicted for the
    row during training. In a regression, a
    label is a likely error if it lies further from its held-out prediction than three times the usual distance.

    Example: turnover memorized runs/reviews --most 50 --json
    """
    terminal = Terminal(as_json=as_json)
    run = open_run(folder)
    with terminal.aside.status("examining every training row"):
        duplicates = example_duplicates(run.examples, run.x)
        own = examine_memorized(run, duplicates)
        findings = {
            "memorized": own.find_memorized(),
            "likely_label_errors": _first(find_label_errors(run, own), most),
            "near_duplicates": find_near_duplicates(run.examples, duplicates),
        }
    warning = nothing_learned(run)
    if as_json:
        terminal.result({name: finding.as_dict() for name, finding in findings.items()} | {"warning": warning})
        return
    terminal.warn(warning)
    bars = own.histogram(_BINS)
    if bars is not None:
        terminal.words.print(_histogram(bars))
    _print_headline(memorized_headline(findings["memorized"]), terminal)
    _print_label_errors(findings["likely_label_errors"], most or _MOST_ERRORS, run.examples, terminal)
    _print_duplicates(findings["near_duplicates"], run.examples, terminal)


def _first(errors: LabelErrors, most: int | None) -> LabelErrors:
    """Return the likeliest of the label errors; None: all."""
    return errors if most is None else replace(errors, items=errors.items[:most])


def _print_headline(headline: Headline, terminal: Terminal) -> None:
    terminal.words.print(plain(f"{headline.figure} {headline.sentence}"))
    terminal.words.print()


def _histogram(histogram: Histogram) -> Table:
    """Return self-influence as bars, one line per range of values."""
    power = power_of(histogram.edges)
    title = "Self-influence of the training rows" + unit(power)
    table = listing(title, numbers("from"), numbers("to"), Column("", no_wrap=True), numbers("rows"))
    highest = max(histogram.counts)
    for place, rows in enumerate(histogram.counts):
        low, high = histogram.edges[place], histogram.edges[place + 1]
        bar = Text("█" * round(_WIDEST * rows / highest) or ("▏" if rows else ""))
        bar.stylize("cyan" if high > 0 else "dim")
        table.add_row(score(low, power=power), score(high, power=power), bar, count(rows))
    return table


def _print_label_errors(errors: LabelErrors, most: int, examples: Examples, terminal: Terminal) -> None:
    first = errors.items[:most]
    if first:
        draw = _gallery if examples.kind == "image" else _table
        terminal.words.print(draw(first, examples, terminal))
    rows: Mapping[int, Any] = {one.row: shown_row(examples, one.row) for one in first[:1]}
    _print_headline(label_errors_headline(errors, rows), terminal)
    if errors.count > most:
        terminal.words.print(f"--most {errors.count} shows all.\n", style="dim")


def _table(errors: tuple[LabelError, ...], examples: Examples, terminal: Terminal) -> Table:
    power = power_of(one.self_influence or 0.0 for one in errors)
    own, content = numbers("self-influence" + unit(power)), Column("training row", ratio=1)
    table = listing("Likely label errors", "row", "label", "held-out prediction", own, content)
    for one in errors:
        table.add_row(
            plain(one.name or "", "dim"),
            plain(_with_share(one.label, one.label_quality)),
            plain(_with_share(one.held_out_label, one.held_out_probability, one.residual), "bold"),
            score(one.self_influence or 0.0, one.stderr, power),
            draw_value(examples.value(one.row), terminal.words),
        )
    return table


def _with_share(label: Any, share: float | None, residual: float | None = None) -> str:
    """Return a label with its probability, or how far a number lies from its held-out prediction."""
    beside = [] if share is None else [percent(share, 0)]
    beside += [] if residual is None else [f"{abs(residual):.1f} ×"]
    return f"{label_words(label)}{''.join(f' ({part})' for part in beside)}"


def _gallery(errors: tuple[LabelError, ...], examples: Examples, terminal: Terminal) -> RenderableType:
    power = power_of(one.self_influence or 0.0 for one in errors)
    entries: list[tuple[Any, list[Text]]] = []
    for one in errors:
        lines = [
            plain(f"{one.name}: {one.label}", "dim"),
            plain(f"held out: {one.held_out_label} ({percent(one.held_out_probability or 0.0, 0)})", "bold"),
            Text(score(one.self_influence or 0.0, one.stderr, power), style="dim"),
        ]
        entries.append((examples.value(one.row), lines))
    title = "Likely label errors: label, held-out prediction, self-influence" + unit(power)
    return draw_gallery(title, entries, terminal.words)


def _print_duplicates(duplicates: NearDuplicates, examples: Examples, terminal: Terminal) -> None:
    headline = duplicates_headline(duplicates, grouped=bool(examples.groups))
    if headline is None:
        terminal.words.print("No near-duplicates.")
        return
    _print_headline(headline, terminal)
    for group in [group for group in duplicates.items if not group.labels_agree][:_MOST_GROUPS]:
        for row in group.rows[:_MOST_OF_A_GROUP]:
            line = Text.assemble(
                f"  {visible(examples.names[row])}  ", (label_words(examples.label(row)), "bold"), "  "
            )
            drawn = draw_value(examples.value(row), terminal.words) if examples.kind != "image" else ""
            terminal.words.print(line.append_text(drawn) if isinstance(drawn, Text) else line)
        terminal.words.print()
