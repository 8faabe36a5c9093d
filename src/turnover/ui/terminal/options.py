"""The arguments and options that commands share, and the run that they name."""

from pathlib import Path
from typing import Annotated

import typer

from turnover.errors import ApplicationError
from turnover.runs import Run, open_run

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, as made by turnover run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, to standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def open_classifier(folder: Path) -> Run:
    """Return a finished run that learned labels; a language model is rejected."""
    run = open_run(folder)
    if run.task.name == "lm":
        raise ApplicationError(
            f"the run in {str(folder)!r} is a language model, without labeled rows. Commands for it: "
            f'turnover memorized {folder}, or turnover explain {folder} --query "some words".'
        )
    return run
