"""All trials of the campaign, and how they are run: some at a time, each in a process of its own, until time is up."""

import multiprocessing
import os
import shutil
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial

from tests.campaign import misuse, page
from tests.campaign.cleaned import try_cleaned
from tests.campaign.damages import DAMAGES
from tests.campaign.files import READERS
from tests.campaign.interruptions import JOBS, try_edits, try_full_disks, try_kills, try_two_writers
from tests.campaign.trial import Budget, Outcome, Tally, Trial

_MEMORY = "/dev/shm"
_WRITTEN, _BEFORE = "known content, or what another library reads", "answers from before the damage, bit for bit"
_UNDISTURBED = "files of an undisturbed process, bit for bit"
TRIALS: tuple[Trial, ...] = (
    Trial("misuse of the library", "wrong arguments and calls", "known answer, error or warning", misuse.try_misuse),
    *(
        Trial(
            f"killed process: {name}",
            "SIGKILL just before a write to disk",
            _UNDISTURBED,
            partial(try_kills, name, most),
        )
        for name, most in {"table run": 16, "image run": 8, "score folder": 20, "saved model": 10}.items()
    ),
    Trial("two writers", "two runs into one folder", _UNDISTURBED, partial(try_two_writers, 8)),
    Trial("live page: edits", "two servers, one of them killed", "acknowledged marks", partial(try_edits, 8)),
    *(
        Trial(
            f"full disk: {name}",
            "disk full after some number of bytes",
            _UNDISTURBED,
            partial(try_full_disks, name, 12),
        )
        for name in JOBS
    ),
    *(
        Trial(
            f"damaged files: {name}", "files truncated, emptied, deleted, swapped or with changed bytes", _BEFORE, run
        )
        for name, run in DAMAGES.items()
    ),
    Trial(
        "live page: 32 clients", "questions and edits", "the library, acknowledged marks", partial(page.try_crowd, 960)
    ),
    Trial(
        "live page: odd requests",
        "random requests, most of them invalid",
        "the OpenAPI schema",
        partial(page.try_requests, 1000),
    ),
    Trial(
        "live page: schemathesis",
        "requests generated from the schema",
        "the OpenAPI schema",
        partial(page.try_schema, 400),
    ),
    Trial("live page: markup", "data and questions that look like HTML", "a browser", partial(page.try_markup, 50)),
    Trial("cleaned and corrected files", "rows removed, labels corrected", _WRITTEN, partial(try_cleaned, 800)),
    *(Trial(f"reading: {name}", "generated files", _WRITTEN, reader) for name, reader in READERS.items()),
)


def run_trial(name: str, budget: Budget) -> Tally:
    trial = next(trial for trial in TRIALS if trial.name == name)
    tally, began = Tally(), time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if not budget.over:
                trial.run(budget, tally)
        except Exception as error:  # noqa: BLE001 - one broken trial must not hide the others
            tally.add(Outcome.TRACEBACK, f"the trial itself: {type(error).__name__}: {error}")
    if budget.over:
        tally.notes.append("stopped: the time was up")
    tally.seconds = time.monotonic() - began
    return tally


def run_all(trials: Sequence[Trial], *, seed: int, share: float, seconds: float, jobs: int) -> dict[str, Tally]:
    """Return the outcomes of all trials by name, in their order; progress goes to standard error."""
    budget = Budget(seed, share, time.monotonic() + seconds)
    # In memory where there is room: a trial writes thousands of small files.
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > 2**32:
        os.environ.setdefault("TMPDIR", _MEMORY)
    # Not forked: some trials mount disks, fork or serve themselves.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.campaign.interruptions"])
    tallies: dict[str, Tally] = {}
    with ProcessPoolExecutor(jobs, context) as pool:
        under_way = {pool.submit(run_trial, trial.name, budget): trial for trial in trials}
        for done in as_completed(under_way):
            trial, tally = under_way[done], done.result()
            tallies[trial.name] = tally
            print(
                f"{trial.name}: {tally.tried} in {tally.seconds:.0f} s, {tally.failed} failed",
                file=sys.stderr,
                flush=True,
            )
    return {trial.name: tallies[trial.name] for trial in trials}
