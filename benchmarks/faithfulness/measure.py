"""Cells of a task: measured, then judged by its ground truth."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.datasets import MissingDataError
from experiments.runner import ExperimentError, as_json, write_json

from .cells import judge, run_cells
from .config import Config, TaskConfig
from .ground_truth import ground_truth
from .methods import Method
from .tasks import prepare

_FEATURES = Path("runs/cache")


def measure(
    config: Config, folder: Path, task: str, everyone: dict[str, Method], wanted: Sequence[tuple[int, str]]
) -> None:
    """Measure cells of a task, then judge them; the ground truth is trained where it is not there yet."""
    try:
        ready = prepare(config.tasks[task], _FEATURES)
    except MissingDataError as error:
        print(f"{task} is left out: {error}")
        return
    claim(folder / task, config.tasks[task])
    run_cells(ready, everyone, wanted, checkpoints=config.checkpoints, folder=folder / task)
    judge(folder / task, ground_truth(ready, folder / task, processes=config.processes))


def claim(folder: Path, task: TaskConfig) -> None:
    """Make a folder that of a task as it is now; refuse one that holds cells of other settings.

    Raises:
        ExperimentError: it belongs to other settings.
    """
    mark, told = folder / "task.json", as_json(asdict(task))
    if mark.exists() and (there := json.loads(mark.read_text(encoding="utf-8"))) != told:
        changed = [f"{key}: there {there.get(key)}, now {told[key]}" for key in told if there.get(key) != told[key]]
        raise ExperimentError(f"{folder} was measured with other settings ({'; '.join(changed)}). Delete it first.")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(mark, told)
