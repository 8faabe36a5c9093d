"""`turnover cleanse`: harmful examples, a file without them, and the retraining check."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.table import Table

from turnover.applications import ARMS, Cleansing, Examples, HarmfulExample, RetrainingCheck
from turnover.runs import (
    REMOVED,
    CleanedFile,
    RemovedRow,
    Run,
    check_cleansing,
    check_cleansing_options,
    check_overwrite,
    cleaned_path,
    removed_rows,
    run_cleansing,
    write_cleansing,
)
from turnover.ui.html import METHODS, nothing_learned, significantly_harmful, unit_sentence
from turnover.ui.words import count, duration, label_words, power_of

from .command import OnRay, RunPath, Terminal, check_unused, opened, resumable
from .drawing import draw_rows, listing, numbers, plain, score_text, scores

_SHOWN = 10
_SEEDS = 4


def cleanse(
    terminal: Terminal,
    folder: RunPath,
    drop: Annotated[
        str,
        typer.Option(help="Amount to drop: 1%, a number of rows, or significant: all that are significantly harmful."),
    ] = "1%",
    retrain: Annotated[
        bool,
        typer.Option(
            "--retrain", help="Retraining check: train on all rows, on the cleansed rows, and without random ones."
        ),
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of trainings of each kind for the retraining check; its test needs 2.",
            show_default=str(_SEEDS),
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="False discovery rate of the significant rows.")] = 0.05,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Cleaned file; removed.csv goes next to it.", show_default="RUN/cleaned.*"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write texts in removed.csv as they are, also those that look like formulas.")
    ] = False,
    ray: OnRay = None,
) -> None:
    """Drop the harmful training rows, and write the data without them.

    Rows are dropped by their mean influence on the validation rows, the most harmful first. The cleaned file has the
    format of the original, with every other line unchanged; with another ending, columns of numbers of a csv become
    numbers where no digit is lost. removed.csv next to it gives the reason for each row. With --retrain, test rows,
    which had no part in the choice, show whether dropping helps.

    For example:

    - turnover cleanse runs/reviews --drop 1%

    - turnover cleanse runs/reviews --drop significant --retrain --out reviews.clean.csv
    """
    run = opened(folder, ray)
    if not retrain:
        check_unused({"--seeds": seeds}, "it is the number of trainings of the retraining check. Give --retrain, too.")
    check_cleansing_options(run, drop=drop, level=level, retrain=retrain)
    file = out or cleaned_path(run)
    check_overwrite(run, file, force=force)
    with terminal.aside.status("weighing every training row"):
        cleansing = run_cleansing(run, drop=drop, level=level)
        removed = removed_rows(run, cleansing)
    written = write_cleansing(run, removed, file, raw=raw)
    check = _check(run, cleansing, seeds or _SEEDS, terminal) if retrain else None
    if not terminal.as_json:
        _print(run, cleansing, removed, written, check, terminal)
        return
    gone = [{"row": row.row, "name": row.name, "label": row.label, "reason": str(row.why)} for row in removed]
    terminal.result(
        {
            **cleansing.as_dict(),
            "removed": gone,
            "cleaned": str(written.path),
            "cleaned_rows": written.rows,
            "removed_list": str(written.path.with_name(REMOVED)),
            "note": written.note,
            "retraining_check": None if check is None else {**check.as_dict(), "verdict": str(check)},
            "warning": nothing_learned(run),
        }
    )


def _check(run: Run, cleansing: Cleansing, seeds: int, terminal: Terminal) -> RetrainingCheck | None:
    """Return the retraining check, with a word before on how long it takes."""
    if not cleansing.dropped:
        return None
    trainings, own = count(len(ARMS) * seeds, "training"), duration(run.about.seconds["training"])
    terminal.aside.print(f"{trainings} for the retraining check; that of the run took {own}.")
    with resumable(
        "stopped. The files are written; finished trainings are kept, and the same command with --force resumes."
    ):
        return check_cleansing(run, cleansing, seeds=seeds, progress=terminal.aside.is_terminal)


def _notes(cleansing: Cleansing) -> list[str]:
    """Return what did not go as asked."""
    notes: list[str] = []
    if cleansing.spared_classes:
        names = ", ".join(repr(label) for label in cleansing.spared_classes)
        notes.append(f"the last row of class {names} was kept: a class without rows cannot be learned.")
    if cleansing.protected:
        notes.append(f"{count(cleansing.protected, 'harmful row')} protected and kept.")
    if cleansing.requested is not None and len(cleansing.dropped) < cleansing.requested:
        notes.append(
            f"{count(cleansing.requested)} of {count(cleansing.instances)} were requested ({cleansing.drop}), but only "
            f"{count(len(cleansing.dropped))} that may go have a negative mean influence."
        )
    if cleansing.requested is None and not cleansing.dropped:
        notes.append("no row is significantly harmful, so none was dropped.")
    return notes


def _print(
    run: Run,
    cleansing: Cleansing,
    removed: list[RemovedRow],
    written: CleanedFile,
    check: RetrainingCheck | None,
    terminal: Terminal,
) -> None:
    words, examples = terminal.words, run.examples
    terminal.warn(nothing_learned(run))
    if removed:
        words.print(_draw(cleansing.dropped[:_SHOWN], examples, terminal))
        words.print(
            f"Score: mean influence on {count(cleansing.validation_rows, 'validation row')}, "
            f"{unit_sentence(cleansing.mean)}. Method: {METHODS.get(cleansing.method, 'not recorded')}."
        )
        more = f"; all of them in {REMOVED}" if len(removed) > _SHOWN else ""
        words.print(f"Dropped: {count(len(removed), 'row')} of {count(len(examples.train_rows))}{more}.")
    noun = "group" if examples.groups else "training row"
    words.print(significantly_harmful(cleansing, noun))
    for note in _notes(cleansing):
        words.print(plain(f"note: {note}", "yellow"))
    words.print(f"Cleaned, {count(written.rows, 'row')}: [bold]{written.path}[/bold]", soft_wrap=True)
    words.print(f"Reasons: [bold]{written.path.with_name(REMOVED)}[/bold]", soft_wrap=True)
    if written.note:
        words.print(plain(f"note: {written.note}", "yellow"))
    if check is not None:
        words.print()
        words.print(_check_table(check))
        words.print(plain(str(check)))


def _draw(dropped: Sequence[HarmfulExample], examples: Examples, terminal: Terminal) -> RenderableType:
    power = power_of(one.score for one in dropped)
    if examples.groups:
        table = listing("Most harmful groups", scores(power), "group", numbers("training rows"))
        for one in dropped:
            style = "" if one.significant or one.stderr is None else "dim"
            table.add_row(score_text(one, power), plain(one.group or "", style), count(one.rows))
        return table
    rows = (
        (
            [
                score_text(one, power),
                plain(one.name or "", "dim"),
                plain("" if one.label is None else label_words(one.label)),
                plain(
                    "" if one.held_out_label is None else label_words(one.held_out_label),
                    "bold" if one.likely_label_error else "dim",
                ),
            ],
            examples.value(one.row),
        )
        for one in dropped
    )
    columns = (scores(power), "row", "label", "held-out prediction")
    return draw_rows("Most harmful training rows", columns, rows, terminal.words)


def _mean_and_error(values: NDArray[np.float64], digits: int) -> str:
    """Return the mean over seeds, with its standard error where there are several."""
    error = f" ± {values.std(ddof=1) / len(values) ** 0.5:.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{error}"


def _check_table(check: RetrainingCheck) -> Table:
    title = f"Retraining check: {count(len(check.seeds), 'training')} each, {count(check.test_rows, 'test row')}"
    loss = "loss" if check.accuracy is not None else "squared error (label deviation = 1)"
    columns = [*([] if check.accuracy is None else [numbers("test accuracy")]), numbers(loss)]
    table = Table("removed", *columns, title=title, title_justify="left")
    names = {
        "none": "nothing",
        "random": f"{count(check.removed, 'random row')}",
        "cleansed": f"the {count(check.removed, 'harmful row')}",
    }
    for place, arm in enumerate(ARMS):
        accuracy = [] if check.accuracy is None else [f"{_mean_and_error(100 * check.accuracy[place], 2)} %"]
        table.add_row(names[arm], *accuracy, _mean_and_error(check.loss[place], 4))
    return table
