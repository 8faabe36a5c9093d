"""One method on one task with one seed: measured once and kept on disk, so that a run can be continued by another.

A cell is two files: NAME-SEED.json with figures, seconds and memory, and NAME-SEED.npz with the scores themselves, so
that they can be judged later, once the ground truth is there.
"""

import json
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from experiments.runner import write_json
from turnover.evaluation import Bootstrap, SubsetOutcomes, lds

from .answers import Answers, detection
from .cost import Cost
from .methods import Method
from .tasks import Prepared
from .trainings import Trained, Trainings

Cell = dict[str, Any]


def cell_file(folder: Path, method: str, seed: int) -> Path:
    """Return where the figures of a cell are kept."""
    return folder / "cells" / f"{method}-{seed}.json"


def read_cells(folder: Path) -> list[Cell]:
    """Return the figures of all cells of a task that are finished."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted((folder / "cells").glob("*.json"))]


def run_cells(
    ready: Prepared,
    methods: Mapping[str, Method],
    wanted: Iterable[tuple[int, str]],
    *,
    checkpoints: int,
    folder: Path,
) -> None:
    """Measure the cells that are not there yet; a method that fails is kept with its reason.

    Args:
        ready: the task.
        methods: by name.
        wanted: seeds and names; all of one seed should follow each other, for they share trainings.
        checkpoints: of plain trainings.
        folder: of the task.
    """
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    todo = [(seed, name) for seed, name in wanted if not cell_file(folder, name, seed).exists()]
    trainings: Trainings | None = None
    for seed, name in (bar := tqdm(todo, unit=" cells")):
        bar.set_description(f"{folder.name} {name} {seed}")
        if methods[name].missing:
            continue
        if trainings is None or trainings.seed != seed:
            trainings = Trainings(ready, seed=seed, checkpoints=checkpoints)
        cell, answers = measured(name, methods[name], trainings)
        file = cell_file(folder, name, seed)
        if answers is not None:
            cell |= detection(answers, ready.wrong)
            np.savez_compressed(file.with_suffix(".npz"), **_kept(answers, ready.config.queries))
        write_json(file, cell)


def measured(name: str, method: Method, trainings: Trainings) -> tuple[Cell, Answers | None]:
    """Return seconds of training and scoring, and peak memory, beside what the method says; or why it failed."""
    cell: Cell = {"method": name, "seed": trainings.seed}
    before = trainings.seconds
    try:
        with Cost() as cost:
            answers = method.answer(trainings)
    except Exception as error:  # noqa: BLE001 - one method that fails must not end the comparison
        return cell | {"failed": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()[-2000:]}, None
    cell |= {
        "train_seconds": sum(one.seconds for one in answers.trained),
        "score_seconds": cost.seconds - (trainings.seconds - before),
        "peak_bytes": _most(cost.peak_bytes, answers.trained),
        "own_seconds": answers.own_seconds,
    }
    return cell, answers


def judge(folder: Path, truth: Mapping[str, SubsetOutcomes]) -> None:
    """Give every finished cell of a task that has scores of pairs its LDS.

    Args:
        folder: of the task.
        truth: retraining on random halves, by view.
    """
    for cell in read_cells(folder):
        file = cell_file(folder, cell["method"], cell["seed"])
        new = [view for view in truth if f"lds_{view}" not in cell]
        if not new or not file.with_suffix(".npz").exists():
            continue
        with np.load(file.with_suffix(".npz")) as kept:
            if "pairs" in kept:
                write_json(file, cell | {f"lds_{view}": lds_of(kept["pairs"], truth[view]) for view in new})


def lds_of(pairs: np.ndarray, truth: SubsetOutcomes) -> float:
    """Return the linear datamodeling score of scores [rows, queries]."""
    return lds(pairs, truth.subsets, truth.outcomes, bootstrap=Bootstrap(draws=2)).value


def _kept(answers: Answers, queries: int) -> dict[str, Any]:
    """Return what a cell keeps: the queries' scores, means over validation rows, and what is said of rows."""
    found = {f"own_{name}": np.asarray(values, np.float32) for name, values in answers.own.items()}
    if answers.pairs is not None:
        found["pairs"] = np.asarray(answers.pairs[:, :queries], np.float32)
        found["mean"] = np.asarray(answers.pairs.mean(1), np.float32)
    return found


def _most(scoring: int | None, trained: tuple[Trained, ...]) -> int | None:
    known = [size for size in (scoring, *(one.peak_bytes for one in trained)) if size is not None]
    return max(known, default=None)
