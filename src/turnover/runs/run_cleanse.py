"""Cleansing the data of a run: which rows go and why, and the files that say so."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from turnover.applications import (
    Cleansing,
    HarmfulExample,
    RetrainingCheck,
    check_by_retraining,
    cleanse,
    drop_amount,
)
from turnover.errors import ApplicationError
from turnover.influence import fingerprint_of

from .cleaned_file import CleanedFile, ending_of, write_cleaned, write_output
from .reading import table_bytes
from .retraining import run_recipe
from .run import MOST_VALIDATION, Run

REMOVED = "removed.csv"
_NO_TEST_ROWS = (
    "the retraining check needs test rows, which had no part in choosing, and this run has none. Run again with --test "
    "0.1."
)


@dataclass(frozen=True)
class RemovedRow:
    """A row of the data that goes."""

    row: int
    name: str
    label: str
    why: HarmfulExample  # the scores of it, or of its group


def refuse_cleansing(run: Run, *, drop: str, level: float, retrain: bool) -> None:
    """Refuse, in words of the command line, what cannot be asked of a run, before anything is computed or written."""
    try:
        drop_amount(drop, len(np.unique(run.train_data[2])))
    except ApplicationError as error:
        raise ApplicationError(f"--{error}") from error
    if not 0 < level < 1:
        raise ApplicationError(f"--level must be between 0 and 1, got {level:g}. Give one such as 0.05.")
    if retrain and not len(run.places("test")):
        raise ApplicationError(_NO_TEST_ROWS)


def run_cleansing(run: Run, *, drop: str = "1%", level: float = 0.05) -> Cleansing:
    """Return which training instances of a run harm its validation rows most."""
    queries = run.data("validation", most=MOST_VALIDATION)
    return cleanse(
        run.influence_on_sets,
        queries,
        drop=drop,
        level=level,
        mean=run.mean_influence,
        out_of_sample=run.out_of_sample,
        examples=run.examples,
    )


def check_cleansing(run: Run, found: Cleansing, *, seeds: int, progress: bool = False) -> RetrainingCheck:
    """Return whether the plain network is better without the dropped rows, on the test rows of the run.

    Finished trainings are kept in the folder of the run.
    """
    test = run.data("test")
    if not len(test[1]):
        raise ApplicationError(_NO_TEST_ROWS)
    dropped = np.isin(run.train_data[2].numpy(), found.dropped_ids)
    name = f"check-{len(found.dropped)}-{fingerprint_of([dropped, seeds])[:12]}"
    cache = run.folder.path / "evaluation" / name
    return check_by_retraining(run_recipe(run), dropped, test, seeds=seeds, cache=cache, progress=progress)


def removed_rows(run: Run, found: Cleansing) -> list[RemovedRow]:
    """Return the rows of the data that go, the most harmful first; a group goes with all its training rows."""
    places = run.places("train")
    ids = run.ids[places]
    result: list[RemovedRow] = []
    for harmful in found.dropped:
        for row in places[ids == harmful.id]:
            result.append(RemovedRow(int(row), run.rows.names[row], run.label_names[run.rows.labels[row]], harmful))
    return result


def cleaned_path(run: Run) -> Path:
    """Return where the cleaned data of a run goes when nobody said it."""
    return run.folder.path / f"cleaned{ending_of(run.config.data, run.rows)}"


def refuse_to_overwrite(out: Path) -> None:
    """Refuse to write over what is there."""
    there = [str(file) for file in (out, out.with_name(REMOVED)) if file.exists()]
    if there:
        raise ApplicationError(
            f"{' and '.join(map(repr, there))} would be overwritten. Give another file, --out FILE, or --force."
        )


def write_cleansing(run: Run, removed: list[RemovedRow], out: Path) -> CleanedFile:
    """Write the data without the removed rows, and the list of these with reasons, removed.csv, next to it."""
    import pandas as pd

    with run.folder.lock(out):
        written = write_cleaned(run.rows, run.config.data, [row.row for row in removed], out)
    lines = [_line(row) for row in removed]
    own = run.rows.frame.iloc[[row.row for row in removed]].reset_index(drop=True)
    said = pd.DataFrame(lines, columns=list(_line_names()))
    # A column of the data may have the name of one of ours; the data's own goes by another then.
    own = own.rename(columns={name: f"data_{name}" for name in own.columns if name in said.columns})
    with run.folder.lock(out):
        write_output(out.with_name(REMOVED), table_bytes(pd.concat([said, own], axis=1), ".csv"))
    return written


def _line_names() -> tuple[str, ...]:
    return ("row", "where", "label", "score", "stderr", "p_value", "significant", "reason")


def _line(row: RemovedRow) -> dict[str, Any]:
    why = row.why
    values = (row.row, row.name, row.label, why.score, why.stderr, why.p_value, why.significant, str(why))
    return dict(zip(_line_names(), values, strict=True))
