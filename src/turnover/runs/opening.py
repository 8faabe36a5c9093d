"""Runs of any kind: begun by their settings, opened by what their folder says."""

import os
from pathlib import Path

from .config import RunConfig
from .lm_runs import LmRun
from .lm_starting import start_lm_run
from .reading.reading import is_corpus
from .runs import Run
from .starting import start_run
from .watching import Watch, unwatched


def start_any(config: RunConfig, out: str | os.PathLike[str], *, watch: Watch = unwatched) -> Run | LmRun:
    """Begin a run, or take it up again: of a language model for a text corpus, else of a classifier.

    Args:
        config: what to do.
        out: folder of the run.
        watch: told how far it is.
    """
    return (start_lm_run if is_corpus(config) else start_run)(config, out, watch=watch)


def open_any(folder: str | os.PathLike[str]) -> Run | LmRun:
    """Return a finished run.

    Raises:
        RunError: there is none, or it did not come to its end.
    """
    run: Run | LmRun = Run(Path(folder))
    if is_corpus(run.config):
        run = LmRun(Path(folder))
    run.refuse_unfinished()
    return run
