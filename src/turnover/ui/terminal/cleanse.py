"""`turnover cleanse`: rows that harm, a file without them, and the proof by retraining."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from turnover.applications import ARMS, Cleansing, Proof
from turnover.runs import (
    REMOVED,
    CleanedFile,
    RemovedRow,
    Run,
    cleaned_path,
    prove_cleansing,
    refuse_cleansing,
    refuse_to_overwrite,
    removed_rows,
    run_cleansing,
    run_recipe,
    training_seconds,
    write_cleansing,
)
from turnover.ui.words import count, duration, power_of, score, unit

from .asked import value_of
from .drawing import draw_gallery, draw_value, plain
from .options import AsJson, Debug, RunPath, open_classifier
from .outcomes import resumable
from .terminal import Terminal

_SHOWN = 10


def cleanse(
    folder: RunPath,
    drop: Annotated[
        str, typer.Option(help="How much to drop: 1%, a number of rows, or significant: all that stand out as harmful.")
    ] = "1%",
    retrain: Annotated[
        bool, typer.Option("--retrain", help="Prove it: train on all rows, without random ones, and cleansed.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=2, help="Trainings of each kind for the proof.")] = 4,
    level: Annotated[float, typer.Option(help="Share of the significant rows that may be noise.")] = 0.05,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The cleaned file; removed.csv goes next to it.", show_default="RUN/cleaned.*"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Drop the training rows that harm, and write the data without them.

    Rows go by their mean influence on the validation rows. The cleaned file has the format of the original, with every
    other line as it was; removed.csv next to it says why each row went. With --retrain the test rows, which were not
    used for choosing, tell whether it was worth it.

    For example:

    - turnover cleanse runs/reviews --drop 1%

    - turnover cleanse runs/reviews --drop significant --retrain --out reviews.clean.csv
    """
    terminal = Terminal(as_json=as_json)
    run = open_classifier(folder)
    refuse_cleansing(run, drop=drop, level=level, proof=retrain)
    file = out or cleaned_path(run)
    if not force:
        refuse_to_overwrite(file)
    with terminal.aside.status("weighing every training row"):
        found = run_cleansing(run, drop=drop, level=level)
        removed = removed_rows(run, found)
    written = write_cleansing(run, removed, file)
    proof = _proof(run, found, seeds, terminal) if retrain else None
    if as_json:
        terminal.result(_as_data(run, found, removed, written, proof))
    else:
        _print(run, found, removed, written, proof, terminal)


def _proof(run: Run, found: Cleansing, seeds: int, terminal: Terminal) -> Proof | None:
    """Return what retraining says, with a word before on how long it takes."""
    if not found.dropped:
        return None
    seconds = len(ARMS) * seeds * training_seconds(run_recipe(run))
    terminal.aside.print(f"{count(len(ARMS) * seeds, 'training')} for the proof, about {duration(seconds)}.")
    with resumable(
        "stopped. The files are written; finished trainings are kept, and the same command with --force goes on."
    ):
        return prove_cleansing(run, found, seeds=seeds, progress=terminal.aside.is_terminal)


def _as_data(
    run: Run, found: Cleansing, removed: list[RemovedRow], written: CleanedFile, proof: Proof | None
) -> dict[str, Any]:
    summary = {name: value for name, value in found.as_dict().items() if name != "dropped"}
    rows = [
        {
            "row": row.row,
            "name": row.name,
            "label": row.label,
            "score": row.why.score,
            "stderr": row.why.stderr,
            "p_value": row.why.p_value,
            "significant": row.why.significant,
            "reason": row.reason,
        }
        for row in removed
    ]
    return {
        **summary,
        "cleaned": str(written.path),
        "cleaned_rows": written.rows,
        "removed_list": str(written.path.with_name(REMOVED)),
        "note": written.note,
        "removed": rows,
        "proof": None if proof is None else proof.as_dict(),
    }


def _print(
    run: Run,
    found: Cleansing,
    removed: list[RemovedRow],
    written: CleanedFile,
    proof: Proof | None,
    terminal: Terminal,
) -> None:
    words = terminal.words
    if removed:
        draw = _groups if run.rows.groups else _pictures if run.kind == "image" else _table
        words.print(draw(run, removed, terminal))
        more = f"; all of them in {REMOVED}" if len(removed) > _SHOWN else ""
        words.print(f"Dropped: {count(len(removed), 'row')} of {len(run.places('train')):,}{more}.")
    noun = "group" if run.rows.groups else "training row"
    words.print(f"Harmful beyond noise: {count(found.significant, noun)} of {len(found.kept):,}.")
    for note in found.notes:
        words.print(plain(f"note: {note}", "yellow"))
    words.print(f"Cleaned, {count(written.rows, 'row')}: [bold]{written.path}[/bold]", soft_wrap=True)
    words.print(f"Reasons: [bold]{written.path.with_name(REMOVED)}[/bold]", soft_wrap=True)
    if written.note:
        words.print(plain(f"note: {written.note}", "yellow"))
    if proof is not None:
        words.print()
        words.print(_proven(proof))
        words.print(plain(proof.sentence))


def _table(run: Run, removed: list[RemovedRow], terminal: Terminal) -> Table:
    power = power_of(row.why.score for row in removed[:_SHOWN])
    table = Table(title="The most harmful training rows", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("score" + unit(power), justify="right", no_wrap=True)
    table.add_column("row", justify="right")
    table.add_column("label")
    table.add_column("unseen, it says")
    table.add_column("training row", ratio=1)
    for row in removed[:_SHOWN]:
        other = row.why.unseen_label
        said = "" if other is None else run.label_names[other]
        table.add_row(
            Text(score(row.why.score, row.why.stderr, power), style="" if row.why.significant else "dim"),
            str(row.row),
            plain(row.label),
            plain(said, "bold" if said != row.label else "dim"),
            draw_value(value_of(run, row.row), terminal.words),
        )
    return table


def _groups(run: Run, removed: list[RemovedRow], terminal: Terminal) -> Table:
    counted = Counter(row.why.id for row in removed)
    first = list({row.why.id: row for row in reversed(removed)}.values())[::-1][:_SHOWN]
    power = power_of(row.why.score for row in first)
    table = Table(title="The most harmful groups", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("score" + unit(power), justify="right", no_wrap=True)
    table.add_column("group")
    table.add_column("training rows", justify="right")
    for row in first:
        style = "" if row.why.significant else "dim"
        table.add_row(
            Text(score(row.why.score, row.why.stderr, power), style=style),
            plain(run.rows.groups[row.row], style),
            f"{counted[row.why.id]:,}",
        )
    return table


def _pictures(run: Run, removed: list[RemovedRow], terminal: Terminal) -> RenderableType:
    power = power_of(row.why.score for row in removed[:_SHOWN])
    entries: list[tuple[Any, list[Text]]] = []
    for row in removed[:_SHOWN]:
        other = row.why.unseen_label
        lines = [
            Text(score(row.why.score, row.why.stderr, power), style="" if row.why.significant else "dim"),
            plain(f"row {row.row}: {row.label}"),
        ]
        if other is not None and run.label_names[other] != row.label:
            lines.append(plain(f"rather {run.label_names[other]}", "bold"))
        entries.append((value_of(run, row.row), lines))
    return draw_gallery("The most harmful training rows" + unit(power), entries, terminal.words)


def _proven(proof: Proof) -> Table:
    title = f"Proof: {len(proof.seeds)} trainings each, {count(proof.test_rows, 'test row')}"
    table = Table(title=title, title_justify="left")
    table.add_column("removed")
    table.add_column("right on test rows", justify="right")
    table.add_column("loss", justify="right")
    names = {
        "none": "nothing",
        "random": f"{proof.removed} random rows",
        "cleansed": f"the {proof.removed} harmful rows",
    }
    for place, arm in enumerate(ARMS):
        right, loss = proof.accuracy[place], proof.loss[place]
        table.add_row(
            names[arm],
            f"{100 * right.mean():.2f} ± {100 * right.std(ddof=1):.2f} %",
            f"{loss.mean():.4f} ± {loss.std(ddof=1):.4f}",
        )
    return table
