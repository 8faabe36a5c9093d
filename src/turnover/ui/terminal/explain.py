"""`turnover explain`: the training examples behind a prediction."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Column, Table
from rich.text import Text

from turnover.applications import (
    Errors,
    Examples,
    Explanation,
    Explanations,
    InfluentialExample,
    NoiseFrom,
    Queries,
    explain_examples,
    find_errors,
    plain,
    row_magnitudes,
)
from turnover.errors import ApplicationError
from turnover.runs import Run, open_run
from turnover.ui.html import METHODS, explanation_words, nothing_learned, shown_row
from turnover.ui.words import count, label_words, percent, power_of, unit

from .drawing import draw_gallery, draw_value, ranking, score_text, visible
from .drawing import plain as plain_text
from .options import AsJson, Debug, OnDevice, OnRay, RunPath, check_unused, executor_at
from .queries import image_query, row_query, value_query
from .terminal import Terminal

# Cells of the row in question that are shown.
_MOST_CELLS = 12
_MOST_ERRORS = 3


def explain(
    folder: RunPath,
    query: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A new text; for a table 'column=value, column=value' or JSON.")
    ] = None,
    row: Annotated[
        str | None,
        typer.Option(metavar="ROW", help="A row of the run: its number from 0, or its name in the report (line 12)."),
    ] = None,
    image: Annotated[Path | None, typer.Option(metavar="FILE", help="A new image.")] = None,
    errors: Annotated[
        bool, typer.Option("--errors", help="The most confident, or largest, errors on validation and test rows.")
    ] = False,
    most: Annotated[
        int | None, typer.Option(min=1, help="Number of errors to explain.", show_default=str(_MOST_ERRORS))
    ] = None,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Number of supporting and of opposing examples.")] = 5,
    relative: Annotated[
        bool,
        typer.Option(
            "--relative",
            help="Scores relative to each row's own magnitude, so that a few rows do not top every explanation.",
        ),
    ] = False,
    all_labels: Annotated[
        bool, typer.Option("--all-labels", help="Supporting examples of all labels, not only of the predicted one.")
    ] = False,
    ray: OnRay = None,
    as_json: AsJson = False,
    device: OnDevice = None,
    debug: Debug = False,
) -> None:
    """Show the training examples behind a prediction.

    Lists the examples that support it and those that oppose it. A score is how much an example lowers the loss at the
    predicted label; in a regression, how much it raises the predicted number. Positive scores support the prediction.
    Scores that are not significant are dimmed, with the reason.

    For example:

    - turnover explain runs/reviews --query "a fine film"

    - turnover explain runs/reviews --errors -k 3

    - turnover explain runs/images --image new.png

    - turnover explain runs/table --row 12 --relative
    """
    terminal = Terminal(as_json=as_json)
    run = open_run(folder, executor=executor_at(ray))
    given = {"--query": query, "--row": row, "--image": image, "--errors": errors or None}
    _check_one({name for name, value in given.items() if value is not None})
    if not errors:
        check_unused({"--most": most}, "it is the number of errors. Give --errors, or -k for the number of examples.")
    if run.rows.numeric or run.examples.groups:
        has = "groups have no label of their own" if run.examples.groups else "labels of this run are numbers"
        check_unused({"--all-labels": all_labels}, f"{has}, and examples of all of them are shown. Leave it out.")
    with terminal.aside.status("looking for the examples behind it"):
        same_label = False if all_labels else "supporting"
        magnitudes = row_magnitudes(run.influence, run.self_influence) if relative else None
        if errors:
            explained = find_errors(run, most=most or _MOST_ERRORS, k=k, same_label=same_label, magnitudes=magnitudes)
            values = [run.examples.value(one.row) for one in explained if one.row is not None]
            note = _errors_note(explained)
        else:
            queries, note = _queries(run, query, row, image)
            options = {"k": k, "same_label": same_label, "magnitudes": magnitudes}
            explained = explain_examples(run.influence, queries, run.examples, **options)
            values = queries.values
    if as_json:
        terminal.result({**_as_data(explained, values, note, run.examples), "warning": nothing_learned(run)})
    else:
        _print(explained, values, note, run, terminal)


def _check_one(given: set[str]) -> None:
    if len(given) != 1:
        problem = (
            "nothing to explain was given"
            if not given
            else f"{' and '.join(sorted(given, reverse=True))} were given together"
        )
        raise ApplicationError(f'{problem}. Give one of --query "a sentence", --row 0, --image FILE or --errors.')


def _queries(run: Run[Any], query: str | None, row: str | None, image: Path | None) -> tuple[Queries, str]:
    if query is not None:
        return value_query(run, query)
    return (row_query(run, row) if row is not None else image_query(run, Path(str(image)))), ""


def _errors_note(errors: Errors) -> str:
    if errors.numeric:
        which = "prediction that is" if len(errors) == 1 else f"{count(len(errors))} predictions that are"
        return f"The {which} furthest off, of {count(errors.unseen_rows, 'validation and test row')}."
    shown = "" if len(errors) == errors.count else f"; here the {count(len(errors))} most confident"
    return (
        f"{count(errors.count, 'error')} on {count(errors.unseen_rows, 'validation and test row')} (accuracy "
        f"{percent(errors.accuracy or 0.0)}){shown}."
    )


def _as_data(explained: Explanations, values: Sequence[Any], note: str, examples: Examples) -> dict[str, Any]:
    """Return explanations as JSON could hold them; texts and cells stand beside them, as in report.json."""
    data = {**explained.as_dict(), "note": note}
    if examples.kind != "image":
        rows = {example.row for one in explained for example in (*one.supporting, *one.opposing)}
        rows |= {one.row for one in explained if one.row is not None}
        data |= {"values": plain(values), "rows": [plain(shown_row(examples, row)) for row in sorted(rows)]}
    return data


def _print(explained: Explanations, values: Sequence[Any], note: str, run: Run[Any], terminal: Terminal) -> None:
    """Print explanations one after the other, and how to read them."""
    words, examples = terminal.words, run.examples
    terminal.warn(nothing_learned(run))
    if note:
        words.print(plain_text(note))
    for one, value in zip(explained, values, strict=True):
        words.print()
        title = plain_text(one.name or "")
        words.print(Panel(_prediction(one, value, examples, terminal), title=title, title_align="left"))
        does = ("raising", "lowering") if explained.numeric else ("supporting", "opposing")
        titles = [f"Examples {verb} {'it' if explained.numeric else one.predicted}" for verb in does]
        sides = (
            (titles[0], one.supporting, one.significant_supporting),
            (titles[1], one.opposing, one.significant_opposing),
        )
        for title, side, significant in sides:
            words.print()
            if not significant and not (side and (side is one.supporting or explained.noise_from is None)):
                words.print(plain_text(f"{title}: none{' is significant' if side else ''}.", "dim"))
            elif run.kind == "image" and not examples.groups:
                words.print(_gallery(title, side, explained.noise_from, examples, terminal))
            else:
                words.print(_table(title, side, significant, one.row, explained.noise_from, examples, terminal))
    if len(explained):
        words.print()
        words.print(_legend(explained, run), style="dim")


def _prediction(one: Explanation, value: Any, examples: Examples, terminal: Terminal) -> RenderableType:
    line = Text.assemble("Prediction: ", (visible(label_words(one.predicted)), "bold"))
    line.append("" if one.probability is None else f" ({percent(one.probability, 0)})")
    if one.label is not None:
        color = "bold" if one.probability is None else "bold yellow" if one.error else "green"
        line.append_text(Text.assemble(", label: ", (visible(label_words(one.label)), color)))
    if one.row is not None:
        split = {"train": "training"}.get(str(examples.splits[one.row]), str(examples.splits[one.row]))
        line.append(f"   {visible(examples.names[one.row])}, {split}", style="dim")
    return Group(draw_value(value, terminal.words, spans=one.shared_spans, cells=_MOST_CELLS), line)


def _table(
    title: str,
    side: Sequence[InfluentialExample],
    significant: int,
    row: int | None,
    noise_from: NoiseFrom,
    examples: Examples,
    terminal: Terminal,
) -> Table:
    def cells(example: InfluentialExample, style: str) -> list[RenderableType]:
        name = plain_text("" if example.group else example.name or "", style or "dim")
        return [
            name,
            plain_text("" if example.label is None else label_words(example.label), style),
            _content(example, row, examples, terminal, style),
        ]

    columns = ("row", "label", Column("training example", ratio=1))
    return ranking(title, side, significant, noise_from, columns, cells)


def _content(
    example: InfluentialExample, row: int | None, examples: Examples, terminal: Terminal, style: str
) -> RenderableType:
    if example.group is not None:
        return plain_text(f"{example.group}: {count(example.rows, 'row')}", style)
    value, marks = examples.value(example.row), {"spans": example.shared_spans, "near": example.near_columns}
    drawn = draw_value(value, terminal.words, style=style, **marks)
    return Group(Text("the row itself", style="italic"), drawn) if example.row == row else drawn


def _gallery(
    title: str, side: Sequence[InfluentialExample], noise_from: NoiseFrom, examples: Examples, terminal: Terminal
) -> RenderableType:
    power = power_of(example.score for example in side)
    entries: list[tuple[Any, list[Text]]] = []
    for example in side:
        style = "" if example.significant or noise_from is None else "dim"
        lines = [
            score_text(example, power, style or "bold"),
            plain_text(f"{example.name}: {label_words(example.label)}", style),
        ]
        if style:
            lines.append(Text("not significant", style="dim italic"))
        entries.append((examples.value(example.row), lines))
    return draw_gallery(title + unit(power), entries, terminal.words)


def _legend(explained: Explanations, run: Run[Any]) -> str:
    marked = {"text": "Marked: words that both have. ", "table": "Marked: values that are near. "}.get(run.kind, "")
    relative = "Relative to each row's magnitude. " if explained.relative else ""
    words = explanation_words(explained, "groups" if run.examples.groups else "rows")
    return f"{marked}{relative}{words} Method: {METHODS[explained.method]}."
