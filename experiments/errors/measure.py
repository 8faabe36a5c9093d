"""All that is measured of one data set; what is finished lies in the folder of the run and is not measured again."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.runner import kept
from experiments.timing import one_thread
from turnover.runs import REPLICAS

from .config import Config
from .explained import errors_of, shared_with_query, shown_errors
from .prepare import prepare
from .repaired import ESTIMATES, pushed_most, repaired


def measure(config: Config, out: Path) -> dict[str, Any]:
    """Return errors with the rows behind them, and how often they are repaired without these.

    Raises:
        MissingDataError: the data set is not there.
    """
    with one_thread():
        return kept(out / "measured.json", partial(_measured, config, out))


def _measured(config: Config, out: Path) -> dict[str, Any]:
    run = prepare(config, out)
    errors = errors_of(run)
    orders: dict[str, np.ndarray] = {name: pushed_most(run, errors, denoised=name == "denoised") for name in ESTIMATES}
    return {
        "setting": asdict(config),
        "train_rows": len(run.places("train")),
        "test_rows": len(run.places("test")),
        "replicas": 1 if config.adapters else REPLICAS,
        "wrong": len(errors.rows),
        "accuracy": errors.accuracy,
        "shown": shown_errors(run, config, errors),
        "shared": shared_with_query(run, config, errors, orders["denoised"][:, : config.behind]),
        "repair": repaired(run, config, errors, orders, out / "retrained"),
    }
