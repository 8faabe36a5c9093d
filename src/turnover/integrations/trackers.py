"""Experiment trackers: TensorBoard, MLflow and Weights & Biases, each as one small object that takes figures."""

import importlib.util
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from turnover.errors import MissingExtraError, TrainingError

PROJECT = "turnover"


class Tracker(ABC):
    """Where figures of a training go; close it, or use it in a `with` block."""

    @abstractmethod
    def log(self, figures: Mapping[str, float], *, step: int) -> None:
        """Keep figures by their names, of a step or epoch."""

    @abstractmethod
    def close(self) -> None:
        """Write all that is not written yet."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class _TensorBoard(Tracker):
    def __init__(self, folder: Path, name: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / name))

    def log(self, figures: Mapping[str, float], *, step: int) -> None:
        for figure, value in figures.items():
            self._writer.add_scalar(figure, value, step)

    def close(self) -> None:
        self._writer.close()


class _MLflow(Tracker):
    """Goes to the server or data base of MLFLOW_TRACKING_URI; without one, to a data base in the folder."""

    def __init__(self, folder: Path, name: str) -> None:
        from mlflow import MlflowClient  # pyright: ignore[reportMissingImports] - needs an environment of its own

        folder.mkdir(parents=True, exist_ok=True)
        address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        self._client = MlflowClient(tracking_uri=address)
        known = self._client.get_experiment_by_name(PROJECT)
        experiment = self._client.create_experiment(PROJECT) if known is None else known.experiment_id
        self._run: str = self._client.create_run(experiment, run_name=name).info.run_id

    def log(self, figures: Mapping[str, float], *, step: int) -> None:
        for figure, value in figures.items():
            self._client.log_metric(self._run, figure, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._run)


class _Wandb(Tracker):
    """Offline unless WANDB_MODE says otherwise: nothing leaves the machine until `wandb sync`."""

    def __init__(self, folder: Path, name: str) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        folder.mkdir(parents=True, exist_ok=True)
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        quiet = wandb.Settings(silent=True)
        self._run = wandb.init(
            project=PROJECT, name=name, dir=str(folder), mode=mode, reinit="create_new", settings=quiet
        )

    def log(self, figures: Mapping[str, float], *, step: int) -> None:
        self._run.log(dict(figures), step=step)

    def close(self) -> None:
        self._run.finish()


TrackerName = Literal["tensorboard", "mlflow", "wandb"]
_TRACKERS: dict[str, Callable[[Path, str], Tracker]] = {
    "tensorboard": _TensorBoard,
    "mlflow": _MLflow,
    "wandb": _Wandb,
}


def open_tracker(name: TrackerName | str, folder: str | os.PathLike[str], *, run: str = "run") -> Tracker:
    """Return a tracker to log figures to, such as those of `measure_curves`.

    Trainers of Hugging Face and Lightning have trackers of their own, to which `HFLearningCurves` and
    `LightningLearningCurves` log.

    Args:
        name: "tensorboard", "mlflow" or "wandb".
        folder: where its files go; MLFLOW_TRACKING_URI and WANDB_MODE are honored.
        run: what the run is called there.

    Raises:
        TrainingError: there is no such tracker.
        MissingExtraError: its package is not installed.

    Example:
        >>> def train(steps, model, sample, folder):
        ...     with open_tracker("tensorboard", folder) as tracker:
        ...         for step in range(steps):
        ...             ...  # the training
        ...             tracker.log(measure_curves(model, train=sample), step=step)
    """
    check_tracker(name)
    return _TRACKERS[name](Path(folder), run)


def check_tracker(name: str) -> None:
    """Raise where there is no such tracker, or its package is missing.

    Raises:
        TrainingError: there is no such tracker.
        MissingExtraError: its package is not installed.
    """
    if name not in _TRACKERS:
        raise TrainingError(f"there is no tracker {name!r}. Give one of {', '.join(_TRACKERS)}.")
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(f"the tracker {name!r} needs its package: pip install {name}.")
