"""Opening the run that a command is about."""

from pathlib import Path

from turnover.errors import ApplicationError
from turnover.runs import LmRun, Run, open_any


def open_classifier(folder: Path) -> Run:
    """Return a finished run that learned labels.

    Raises:
        ApplicationError: it is a language model.
        RunError: there is no finished run.
    """
    run = open_any(folder)
    if isinstance(run, LmRun):
        raise ApplicationError(
            f"the run in {str(folder)!r} is a language model: its text has no labeled rows. What it can be asked: "
            f'turnover memorized {folder}, or turnover explain {folder} --query "some words".'
        )
    return run
