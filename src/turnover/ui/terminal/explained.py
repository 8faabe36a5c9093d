"""Explanations on a terminal: what was asked, what the network says, and the training rows behind it."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from turnover.applications import Explanation, Explanations, Reason
from turnover.runs import Run
from turnover.ui.words import percent, power_of, score, unit

from .asked import Asked, value_of
from .drawing import draw_gallery, draw_value, plain, spreads_of, visible
from .terminal import Terminal

# Cells of the row in question that are shown.
_MOST_CELLS = 12


def print_explanations(found: Explanations, asked: Asked, run: Run, terminal: Terminal) -> None:
    """Print explanations one after the other, and how to read them."""
    words = terminal.words
    if asked.note:
        words.print(plain(asked.note))
    for explanation, (value, name, row) in zip(found, asked, strict=True):
        words.print()
        words.print(Panel(_question(explanation, value, row, run, terminal), title=plain(name), title_align="left"))
        sides = (
            (f"pushed toward {_label(run, explanation.predicted)}", explanation.pushed, explanation.meaningful),
            ("pushed against it", explanation.against, explanation.meaningful_against),
        )
        for title, reasons, meaningful in sides:
            words.print()
            if not (meaningful or (reasons and reasons is explanation.pushed)):
                words.print(f"Nothing that {title} stands out from noise.", style="dim")
            elif run.kind == "image" and not run.rows.groups:
                words.print(_pictures(title, reasons, meaningful, run, terminal))
            else:
                words.print(_reasons(title, reasons, meaningful, value, row, run, terminal))
    if len(found):
        words.print()
        words.print(_legend(found, run), style="dim")


def as_data(found: Explanations, asked: Asked, run: Run) -> dict[str, Any]:
    """Return explanations as JSON could hold them, labels by name and rows by number."""
    data = found.as_dict()
    data["note"] = asked.note
    for item, (value, name, row) in zip(data["items"], asked, strict=True):
        item |= {"name": name, "row": row, "predicted": _label(run, item["predicted"])}
        item["given"] = None if item["given"] is None else _label(run, item["given"])
        if run.kind != "image":
            item["value"] = value
        for reason in (*item["pushed"], *item["against"]):
            reason["label"] = _label(run, reason["label"])
            if run.rows.groups:
                reason["group"] = _groups(run)[reason["id"]]
            else:
                reason["row"] = reason["id"]
                reason["name"] = run.rows.names[reason["id"]]
                if run.kind != "image":
                    reason["value"] = value_of(run, reason["id"])
    return data


def _question(found: Explanation, value: Any, row: int | None, run: Run, terminal: Terminal) -> RenderableType:
    said = Text.assemble("says ", (_label(run, found.predicted), "bold"), f" ({percent(found.probability, 0)})")
    if found.given is not None:
        style = "bold yellow" if found.wrong else "green"
        said.append_text(Text.assemble(", the data says ", (_label(run, found.given), style)))
    if row is not None:
        said.append(f"   row {row}, {visible(run.rows.names[row])}, {_split(run, row)}", style="dim")
    return Group(draw_value(value, terminal.words, cells=_MOST_CELLS), Text("The network ").append_text(said))


def _reasons(
    title: str, reasons: Sequence[Reason], meaningful: int, value: Any, row: int | None, run: Run, terminal: Terminal
) -> Table:
    power = power_of(reason.score for reason in reasons)
    table = Table(title=Text(f"What {title}", style="bold"), title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("score" + unit(power), justify="right", no_wrap=True)
    table.add_column("row", justify="right", no_wrap=True)
    table.add_column("label")
    table.add_column("training row", ratio=1)
    for place, reason in enumerate(reasons):
        if place == meaningful:
            noise = "from here on the order could be noise" if place else "none of these stands out from noise"
            table.add_row("┄" * 14, "", "", Text(noise, style="dim italic"))
        style = "" if place < meaningful else "dim"
        table.add_row(
            Text(score(reason.score, reason.stderr, power), style=style),
            Text(_row_name(reason, run), style=style),
            plain(_label(run, reason.label), style),
            _shown_reason(reason, value, row, run, terminal, style),
        )
    return table


def _pictures(title: str, reasons: Sequence[Reason], meaningful: int, run: Run, terminal: Terminal) -> RenderableType:
    power = power_of(reason.score for reason in reasons)
    entries: list[tuple[Any, list[Text]]] = []
    for place, reason in enumerate(reasons):
        style = "" if place < meaningful else "dim"
        lines = [
            Text(score(reason.score, reason.stderr, power), style=style or "bold"),
            plain(f"row {reason.id}: {_label(run, reason.label)}", style),
        ]
        if style:
            lines.append(Text("could be noise", style="dim italic"))
        entries.append((value_of(run, reason.id), lines))
    return draw_gallery(f"What {title}" + unit(power), entries, terminal.words)


def _shown_reason(
    reason: Reason, value: Any, row: int | None, run: Run, terminal: Terminal, style: str
) -> RenderableType:
    if run.rows.groups:
        rows = sum(group == _groups(run)[reason.id] for group in run.rows.groups)
        return plain(f"{_groups(run)[reason.id]}: {rows} rows", style)
    theirs = value_of(run, reason.id)
    drawn = draw_value(theirs, terminal.words, style=style, beside=value, spreads=spreads_of(run))
    return Group(Text("the row itself", style="italic"), drawn) if reason.id == row else drawn


def _legend(found: Explanations, run: Run) -> str:
    marked = {"text": "Marked: words that both have. ", "table": "Marked: cells that are alike. "}.get(run.kind, "")
    relative = "Relative to each row's magnitude. " if found.relative else ""
    known = any(reason.stderr is not None for one in found for reason in one.pushed)
    error = "± its standard error" if known else "without a standard error, as there are too few replicas"
    said = f"{marked}{relative}Score: how much the row lowers the {found.unit} at the predicted label, {error}."
    if known and any(one.meaningful < len(one.pushed) for one in found):
        # Else a score of four standard errors beside "could be noise" looks like a contradiction.
        noun = "groups" if run.rows.groups else "training rows"
        said += (
            f" What stands out is judged among all {len(set(run.train_data[2].tolist())):,} {noun}: the largest of so "
            "many lie several standard errors from 0 by chance alone."
        )
    return said


def _label(run: Run, number: Any) -> str:
    return "" if number is None else run.label_names[int(number)]


def _row_name(reason: Reason, run: Run) -> str:
    return "" if run.rows.groups else str(reason.id)


def _groups(run: Run) -> list[str]:
    """Return the groups by their ids."""
    return sorted(set(run.rows.groups))


def _split(run: Run, row: int) -> str:
    return ("training", "validation", "test")[int(run.splits[row])]
