"""Cells of a task, one per method and seed: measured once, kept on disk, and judged by its ground truth."""

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from turnover.evaluation import Bootstrap, SubsetOutcomes, lds
from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.runner import ExperimentError, as_json, differences, read_json, write_json

from .methods import Method
from .tasks import Config, Prepared, TaskConfig, ground_truth, prepare
from .trainings import Answers, Cost, Trained, Trainings, detection

Cell = dict[str, Any]


def cell_file(folder: Path, method: str, seed: int) -> Path:
    return folder / "cells" / f"{method}-{seed}.json"


def read_cells(folder: Path) -> list[Cell]:
    return [read_json(file) for file in sorted((folder / "cells").glob("*.json"))]


def run_cells(
    ready: Prepared,
    methods: Mapping[str, Method],
    seeds_and_names: Iterable[tuple[int, str]],
    *,
    checkpoints: int,
    folder: Path,
) -> None:
    """Measure the cells that are not there yet; a method that fails is kept with its reason.

    Cells of one seed should follow each other, for they share trainings.
    """
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    todo = [(seed, name) for seed, name in seeds_and_names if not cell_file(folder, name, seed).exists()]
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
    """Give every finished cell of a task that has scores of pairs its LDS."""
    for cell in read_cells(folder):
        file = cell_file(folder, cell["method"], cell["seed"])
        new = [view for view in truth if f"lds_{view}" not in cell]
        if not new or not file.with_suffix(".npz").exists():
            continue
        with np.load(file.with_suffix(".npz")) as kept:
            if "pairs" in kept:
                write_json(file, cell | {f"lds_{view}": lds_of(kept["pairs"], truth[view]) for view in new})


def lds_of(pairs: np.ndarray, truth: SubsetOutcomes) -> float:
    return lds(pairs, truth.subsets, truth.outcomes, bootstrap=Bootstrap(draws=2)).value


def _kept(answers: Answers, queries: int) -> dict[str, Any]:
    """Return what a cell keeps: the queries' scores, means over validation rows, and what is said of rows."""
    found = {f"own_{name}": np.asarray(values, np.float32) for name, values in answers.own.items()}
    if answers.pairs is not None:
        found["pairs"] = np.asarray(answers.pairs[:, :queries], np.float32)
        found["mean"] = np.asarray(answers.mean_influence, np.float32)
    return found


def _most(scoring: int | None, trained: tuple[Trained, ...]) -> int | None:
    known = [size for size in (scoring, *(one.peak_bytes for one in trained)) if size is not None]
    return max(known, default=None)


_FEATURES = Path("runs/cache")


def measure(
    config: Config, folder: Path, task: str, everyone: dict[str, Method], seeds_and_names: Sequence[tuple[int, str]]
) -> None:
    """Measure cells of a task, then judge them; the ground truth is trained where it is not there yet."""
    try:
        ready = prepare(config.tasks[task], _FEATURES)
    except MissingDataError as error:
        print(f"{task} is skipped: {error}")
        return
    claim(folder / task, config.tasks[task])
    run_cells(ready, everyone, seeds_and_names, checkpoints=config.checkpoints, folder=folder / task)
    if any(_with_pairs(folder / task, seeds_and_names)):
        judge(folder / task, ground_truth(ready, folder / task, processes=config.processes))


def _with_pairs(folder: Path, seeds_and_names: Sequence[tuple[int, str]]) -> Iterator[bool]:
    """Tell of each finished cell whether it has scores of pairs, which alone are judged by retraining."""
    for seed, name in seeds_and_names:
        file = cell_file(folder, name, seed).with_suffix(".npz")
        if file.exists():
            with np.load(file) as kept:
                yield "pairs" in kept


def claim(folder: Path, task: TaskConfig) -> None:
    """Make a folder that of a task as it is now; reject one that holds cells of other settings."""
    mark, settings = folder / "task.json", as_json(asdict(task))
    if mark.exists() and (stored := read_json(mark)) != settings:
        changed = "; ".join(differences(stored, settings))
        raise ExperimentError(f"{folder} was measured with other settings ({changed}). Delete it first.")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(mark, settings)
