"""`turnover explain`: the training rows that made a prediction."""

from pathlib import Path
from typing import Annotated

import typer

from turnover.applications import explain as explain_predictions
from turnover.applications import row_magnitudes
from turnover.errors import ApplicationError
from turnover.runs import Run, open_run

from .asked import Asked, ask_errors, ask_image, ask_row, ask_value
from .explained import as_data, print_explanations
from .language_models import show_explained
from .options import AsJson, Debug, RunPath
from .terminal import Terminal


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
    errors: Annotated[bool, typer.Option("--errors", help="The wrong predictions it is surest of.")] = False,
    most: Annotated[int, typer.Option(min=1, help="How many errors to explain.")] = 3,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Training rows of each kind.")] = 5,
    relative: Annotated[
        bool,
        typer.Option(
            "--relative", help="Divide by each row's own magnitude, so that a few rows do not top every explanation."
        ),
    ] = False,
    all_labels: Annotated[
        bool, typer.Option("--all-labels", help="Rows of all labels may push, not only of the predicted one.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show the training rows behind a prediction.

    Those that pushed it where it is, and those that pushed against it. Scores are differences of the prediction's loss:
    positive, the row pushed toward it. A rule shows where the order stops meaning anything.

    For example:

    - turnover explain runs/reviews --query "a fine film"

    - turnover explain runs/reviews --errors -k 3

    - turnover explain runs/images --image new.png

    - turnover explain runs/table --row 12 --relative
    """
    terminal = Terminal(as_json=as_json)
    run = open_run(folder)
    if run.task.name == "lm":
        show_explained(run, query, k, terminal)
        return
    asked = _asked(run, query, row, image, most if errors else None)
    with terminal.aside.status("looking for the rows behind it"):
        found = explain_predictions(
            run.influence,
            asked.queries,
            k=k,
            # A group has rows of many labels, and none of its own.
            same_label=False if all_labels or run.rows.groups else "pushed",
            magnitudes=row_magnitudes(run.influence, run.self_influence) if relative else None,
        )
    if as_json:
        terminal.result(as_data(found, asked, run))
    else:
        print_explanations(found, asked, run, terminal)


def _asked(run: Run, query: str | None, row: str | None, image: Path | None, errors: int | None) -> Asked:
    """Return what is asked about; exactly one of the options must be given."""
    given = [
        name
        for name, value in (("--query", query), ("--row", row), ("--image", image), ("--errors", errors))
        if value is not None
    ]
    if len(given) != 1:
        was = "nothing to explain was given" if not given else f"{' and '.join(given)} were given together"
        raise ApplicationError(f'{was}. Give one of --query "a sentence", --row 0, --image FILE or --errors.')
    if query is not None:
        return ask_value(run, query)
    if row is not None:
        return ask_row(run, row)
    if image is not None:
        return ask_image(run, image)
    assert errors is not None
    return ask_errors(run, errors)
