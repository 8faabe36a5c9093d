"""Commands that list training rows: `explain`, those behind a prediction; `memorized`, with likely label errors."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
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
    Histogram,
    InfluentialExample,
    LabelErrors,
    NearDuplicates,
    NoiseFrom,
    Queries,
    examine_memorized,
    example_duplicates,
    explain_examples,
    find_errors,
    find_label_errors,
    find_near_duplicates,
    row_magnitudes,
    row_queries,
)
from turnover.errors import ApplicationError, DataFileError
from turnover.runs import ColumnInputs, Run, checked_cells
from turnover.ui.html import (
    DISAGREE,
    METHODS,
    NONE_SIGNIFICANT,
    Headline,
    duplicates_headline,
    explanation_words,
    label_errors_headline,
    memorized_headline,
    nothing_learned,
    shown_row,
)
from turnover.ui.pictures import pixels_for
from turnover.ui.words import count, label_words, percent, power_of, score, unit

from .command import OnRay, RunPath, Terminal, check_unused, opened
from .drawing import draw_rows, draw_value, listing, numbers, plain, score_text, scores, visible

# Cells of the row in question that are shown.
_MOST_CELLS = 12
_MOST_EXPLAINED, _MOST_LISTED = 3, 10
_BINS, _WIDEST = 16, 48
_MOST_GROUPS, _MOST_OF_A_GROUP = 3, 3


def explain(
    terminal: Terminal,
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
        int | None, typer.Option(min=1, help="Number of errors to explain.", show_default=str(_MOST_EXPLAINED))
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
    run = opened(folder, ray)
    examples = run.examples
    asked = {"--query": query, "--row": row, "--image": image, "--errors": errors or None}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) != 1:
        problem = f"{' and '.join(given)} were given together" if given else "nothing to explain was given"
        raise ApplicationError(f'{problem}. Give one of --query "a sentence", --row 0, --image FILE or --errors.')
    if not errors:
        check_unused({"--most": most}, "it is the number of errors. Give --errors, or -k for the number of examples.")
    if run.rows.numeric or examples.groups:
        has = "groups have no label of their own" if examples.groups else "labels of this run are numbers"
        check_unused({"--all-labels": all_labels}, f"{has}, and examples of all of them are shown. Leave it out.")
    with terminal.aside.status("looking for the examples behind it"):
        magnitudes = row_magnitudes(run.influence, run.self_influence) if relative else None
        options = {"k": k, "same_label": False if all_labels else "supporting", "magnitudes": magnitudes}
        if errors:
            explained = find_errors(run, most=most or _MOST_EXPLAINED, **options)
            values = [examples.value(one.row) for one in explained if one.row is not None]
            note = _errors_note(explained)
        else:
            queries, note = _queries(run, query, row, image)
            explained = explain_examples(run.influence, queries, examples, **options)
            values = queries.values
    if not terminal.as_json:
        _print_explanations(explained, values, note, run, terminal)
        return
    result = {**explained.as_dict(), "note": note, "warning": nothing_learned(run)}
    if examples.kind != "image":  # texts and cells stand beside them, as in report.json
        named = {example.row for one in explained for example in (*one.supporting, *one.opposing)}
        named |= {one.row for one in explained if one.row is not None}
        result |= {"values": values, "rows": [shown_row(examples, number) for number in sorted(named)]}
    terminal.result(result)


def _errors_note(errors: Errors) -> str:
    rows = count(errors.unseen_rows, "validation and test row")
    if errors.numeric:
        which = "prediction that is" if len(errors) == 1 else f"{count(len(errors))} predictions that are"
        return f"The {which} furthest off, of {rows}."
    shown = "" if len(errors) == errors.count else f"; here the {count(len(errors))} most confident"
    return f"{count(errors.count, 'error')} on {rows} (accuracy {percent(errors.accuracy or 0.0)}){shown}."


# What is asked about


def _queries(run: Run, query: str | None, row: str | None, image: Path | None) -> tuple[Queries, str]:
    """Return what to explain, and a note on it, or ""."""
    if row is not None:
        return row_queries(run, np.array([run.rows.number_of(row)])), ""
    if image is not None:
        return image_query(run, image), ""
    assert query is not None
    if run.kind == "image":
        raise ApplicationError("this run was trained on images. Give one: --image FILE, or a row: --row 0.")
    if run.kind == "text":
        if not query.strip():
            raise ApplicationError('the text of --query is empty. Give a sentence: --query "a fine film"')
        return Queries(run.inputs([query]), [query], ["your text"], [None]), ""
    return _table_query(run, query)


def image_query(run: Run, file: Path) -> Queries:
    """Return a new image as a query."""
    if run.kind != "image":
        other = '--query "a sentence"' if run.kind == "text" else "--query 'column=value, ...'"
        raise ApplicationError(f"this run was trained on a {run.kind}, not on images. Ask with {other} or --row 0.")
    try:
        pixels = pixels_for(run, file)
    except DataFileError as error:
        missing = "there is no such file" if not file.exists() else str(error)
        raise DataFileError(f"{str(file)!r} cannot be opened as an image: {missing}. Give a png or jpg.") from error
    return Queries(run.inputs([pixels]), [pixels], [file.name], [None])


def _table_query(run: Run, query: str) -> tuple[Queries, str]:
    """Return new cells of a table, and which are missing or not known from training."""
    how = run.preparation
    assert isinstance(how, ColumnInputs)
    cells, known = _cells(query), [column.name for column in how.columns]
    unknown = [name for name in cells if name not in known]
    if unknown or not cells:
        raise ApplicationError(
            f"--query names {', '.join(map(repr, unknown)) or 'no column'}; this run was trained on "
            f"{', '.join(map(repr, known))}. Give some of them: --query '{known[0]}=1'"
        )
    cells = checked_cells(how.columns, cells)
    missing = [name for name in known if cells.get(name) is None]
    new = [
        f"{cells[column.name]!r} in {column.name}"
        for column in how.columns
        if column.categories is not None and cells.get(column.name) not in (None, *column.categories)
    ]
    notes = [f"Not given, and treated as missing: {', '.join(missing)}."] if missing else []
    notes += [f"Not seen in training, and treated as other: {', '.join(new)}."] if new else []
    return Queries(run.inputs([cells]), [cells], ["your row"], [None]), " ".join(notes)


def _cells(query: str) -> dict[str, Any]:
    """Return the cells of a row, from JSON or from name=value pairs; each column once, since only one can be meant."""
    if query.lstrip().startswith("{"):
        try:
            cells = json.loads(query, object_pairs_hook=list)
        except ValueError as error:
            raise ApplicationError(f"--query is not JSON ({error}). Give '{{\"column\": 1}}' or 'column=1'.") from error
    else:
        parts = [part.partition("=") for part in query.split(",") if part.strip()]
        if unnamed := [name.strip() for name, equals, _ in parts if not equals]:
            raise ApplicationError(
                f"--query has {unnamed[0]!r}, which names no column. Give 'column=value, column=value'; a value with a "
                'comma in it as JSON: \'{"column": "a, b"}\'.'
            )
        cells = [(name.strip(), value.strip()) for name, _, value in parts]
    names = [name for name, _ in cells]
    if again := next((name for name in names if names.count(name) > 1), None):
        raise ApplicationError(f"--query has the column {again!r} twice. Give each column once.")
    return dict(cells)


# Explanations


def _print_explanations(
    explained: Explanations, values: Sequence[Any], note: str, run: Run, terminal: Terminal
) -> None:
    """Print explanations one after the other, and how to read them."""
    words, examples = terminal.words, run.examples
    terminal.warn(nothing_learned(run))
    if note:
        words.print(plain(note))
    for one, value in zip(explained, values, strict=True):
        words.print()
        words.print(Panel(_prediction(one, value, examples, terminal), title=plain(one.name or ""), title_align="left"))
        does, it = ("supporting", "opposing"), one.predicted
        if explained.numeric:
            does, it = ("raising", "lowering"), "it"
        for verb, side, significant in (
            (does[0], one.supporting, one.significant_supporting),
            (does[1], one.opposing, one.significant_opposing),
        ):
            title = f"Examples {verb} {it}"
            words.print()
            if not significant and not (side and (side is one.supporting or explained.noise_from is None)):
                words.print(plain(f"{title}: none{' is significant' if side else ''}.", "dim"))
            else:
                words.print(_side(title, side, significant, one.row, explained.noise_from, examples, terminal))
    if len(explained):
        marked = {"text": "Marked: words that both have. ", "table": "Marked: values that are near. "}
        relative = "Relative to each row's magnitude. " if explained.relative else ""
        read = explanation_words(explained, "groups" if examples.groups else "rows")
        words.print()
        words.print(
            f"{marked.get(run.kind, '')}{relative}{read} Method: {METHODS[explained.method]}.",
            style="dim",
        )


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


def _side(
    title: str,
    side: Sequence[InfluentialExample],
    significant: int,
    row: int | None,
    noise_from: NoiseFrom,
    examples: Examples,
    terminal: Terminal,
) -> RenderableType:
    """Return examples by score, with a word on what is not significant."""
    power, dimmed = power_of(example.score for example in side), noise_from is not None
    rows: list[tuple[list[Text], Any]] = []
    for example in side:
        style = "dim" if dimmed and not example.significant else ""
        content: Any = examples.value(example.row)
        if example.group is not None:
            content = plain(f"{example.group}: {count(example.rows, 'row')}", style)
        elif examples.kind != "image":
            marks = {"spans": example.shared_spans, "near": example.near_columns}
            content = draw_value(content, terminal.words, style=style, **marks)
            content = Group(Text("the row itself", style="italic"), content) if example.row == row else content
        cells = [
            score_text(example, power, style),
            plain("" if example.group else example.name or "", style or "dim"),
            plain("" if example.label is None else label_words(example.label), style),
            Text(DISAGREE if style and significant else "", style="dim italic"),
        ]
        rows.append((cells, content))
    title += f". {NONE_SIGNIFICANT}" if dimmed and not significant else ""
    return draw_rows(title, (scores(power), "row", "label", ""), rows, terminal.words)


# Memorized rows and likely label errors


def memorized(
    terminal: Terminal,
    folder: RunPath,
    most: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of likely label errors to show.", show_default=f"{_MOST_LISTED}; with --json all"
        ),
    ] = None,
) -> None:
    """Show what was memorized, and which labels are likely errors.

    A row is memorized if its self-influence (how much training on it lowers its own loss) is positive and significant.
    Its label is a likely error if it is more probably wrong than right, judged by what the network predicted for the
    row during training. In a regression, a label is a likely error if it lies further from its held-out prediction than
    three times the usual distance.

    Example: turnover memorized runs/reviews --most 50 --json
    """
    run = opened(folder)
    with terminal.aside.status("examining every training row"):
        duplicates = example_duplicates(run.examples, run.x)
        own = examine_memorized(run, duplicates)
        found, near = own.find_memorized(), find_near_duplicates(run.examples, duplicates)
        errors = find_label_errors(run, own)
        errors = errors if most is None else replace(errors, items=errors.items[:most])
    warning = nothing_learned(run)
    if terminal.as_json:
        findings = {"memorized": found, "likely_label_errors": errors, "near_duplicates": near}
        terminal.result({**findings, "warning": warning})
        return
    terminal.warn(warning)
    bars = own.histogram(_BINS)
    if bars is not None:
        terminal.words.print(_histogram(bars))
    _print_headline(memorized_headline(found), terminal)
    _print_label_errors(errors, most or _MOST_LISTED, run.examples, terminal)
    _print_duplicates(near, run.examples, terminal)


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
    power = power_of(one.self_influence or 0.0 for one in first)
    columns = ("row", "label", "P(wrong)", "held-out prediction", numbers("self-influence" + unit(power)))
    rows = (
        (
            [
                plain(one.name or "", "dim"),
                plain(label_words(one.label)),
                Text("" if one.p_wrong is None else percent(one.p_wrong, 0)),
                plain(_with_share(one.held_out_label, one.held_out_probability, one.residual), "bold"),
                Text(score(one.self_influence or 0.0, one.stderr, power)),
            ],
            examples.value(one.row),
        )
        for one in first
    )
    if first:
        terminal.words.print(draw_rows("Likely label errors", columns, rows, terminal.words))
    quoted = {one.row: shown_row(examples, one.row) for one in first[:1]}
    _print_headline(label_errors_headline(errors, quoted), terminal)
    if errors.count > most:
        terminal.words.print(f"--most {errors.count} shows all.\n", style="dim")


def _with_share(label: Any, share: float | None, residual: float | None = None) -> str:
    """Return a label with its probability, or how far a number lies from its held-out prediction."""
    beside = [] if share is None else [percent(share, 0)]
    beside += [] if residual is None else [f"{abs(residual):.1f} ×"]
    return f"{label_words(label)}{''.join(f' ({part})' for part in beside)}"


def _print_duplicates(duplicates: NearDuplicates, examples: Examples, terminal: Terminal) -> None:
    headline = duplicates_headline(duplicates, grouped=bool(examples.groups))
    if headline is None:
        terminal.words.print("No near-duplicates.")
        return
    _print_headline(headline, terminal)
    for group in [group for group in duplicates.items if not group.labels_agree][:_MOST_GROUPS]:
        for row in group.rows[:_MOST_OF_A_GROUP]:
            label = (label_words(examples.label(row)), "bold")
            line = Text.assemble(f"  {visible(examples.names[row])}  ", label, "  ")
            drawn = draw_value(examples.value(row), terminal.words) if examples.kind != "image" else ""
            terminal.words.print(line.append_text(drawn) if isinstance(drawn, Text) else line)
        terminal.words.print()
