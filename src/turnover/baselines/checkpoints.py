"""Weights and learning rates at some steps of a training, in memory or in a folder."""

import json
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from turnover.errors import BaselineError
from turnover.training import Step, TrainingRecipe

from .rows_and_queries import check_unchanged

_INDEX = "checkpoints.json"
_FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """A model before one step of its training.

    Attributes:
        step: number of the step, from 0.
        rates: learning rate of every trainable parameter at that step, by its name.
        weights: the state dict, or the file that holds it.
    """

    step: int
    rates: dict[str, float]
    weights: dict[str, Tensor] | Path

    def load(self, model: nn.Module) -> None:
        """Give a model these weights."""
        model.load_state_dict(self.read())

    def read(self) -> dict[str, Tensor]:
        """Return the state dict."""
        if not isinstance(self.weights, Path):
            return self.weights
        if not self.weights.is_file():
            raise BaselineError(
                f"the checkpoint {self.weights} is missing. Record the training again: "
                "TracIn.train(recipe, folder=...)."
            )
        return torch.load(self.weights, weights_only=True)


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of one training.

    Attributes:
        data: checksum of the rows that were trained on.
        items: the checkpoints, in the order of the training.
    """

    data: str
    items: list[Checkpoint]

    def check(self, recipe: TrainingRecipe) -> None:
        """Raise where there are none, or where they come from other rows."""
        if not self.items:
            raise BaselineError(
                "there are no checkpoints. Record some: TracIn.train(recipe, checkpoints=3), or a smaller every=."
            )
        check_unchanged(recipe, self.data, "TracIn.train(recipe)")


@dataclass
class Recorder:
    """Takes checkpoints at chosen steps, as the `on_step` of a training."""

    steps: Collection[int]
    folder: Path | None = None
    items: list[Checkpoint] = field(default_factory=list)

    def __call__(self, step: Step) -> None:
        """Keep the weights if this step was chosen."""
        if step.number not in self.steps:
            return
        names = {id(parameter): name for name, parameter in step.model.named_parameters()}
        rates = {
            names[id(parameter)]: float(group["lr"])
            for group in step.optimizer.param_groups
            for parameter in group["params"]
        }
        weights: Any = {name: value.detach().clone() for name, value in step.model.state_dict().items()}
        if self.folder is not None:
            path = self.folder / f"step-{step.number:08d}.pt"
            torch.save(weights, path)
            weights = path
        self.items.append(Checkpoint(step.number, rates, weights))


def write_index(folder: Path, checkpoints: Checkpoints) -> None:
    """Write what `open_folder` reads; last, so that a folder without it is known to be unfinished."""
    items = [{"step": item.step, "rates": item.rates} for item in checkpoints.items]
    text = json.dumps({"format": _FORMAT, "data": checkpoints.data, "checkpoints": items}, indent=1)
    (folder / _INDEX).write_text(text, encoding="utf-8")


def open_folder(folder: str | os.PathLike[str]) -> Checkpoints:
    """Return the checkpoints in a folder; their weights stay on disk."""
    index = Path(folder) / _INDEX
    if not index.is_file():
        raise BaselineError(
            f"{os.fspath(folder)!r} holds no finished recording ({_INDEX} is missing). Record a training: "
            "TracIn.train(recipe, folder=...)."
        )
    found = json.loads(index.read_text(encoding="utf-8"))
    if found.get("format") != _FORMAT:
        raise BaselineError(
            f"{index} has format {found.get('format')!r}; this version reads {_FORMAT}. Record the training again."
        )
    items = [
        Checkpoint(item["step"], item["rates"], Path(folder) / f"step-{item['step']:08d}.pt")
        for item in found["checkpoints"]
    ]
    missing = [str(item.weights) for item in items if isinstance(item.weights, Path) and not item.weights.is_file()]
    if missing:
        raise BaselineError(
            f"{len(missing)} of {len(items)} checkpoints are missing: {', '.join(missing[:3])}. Record the training "
            "again into an empty folder: TracIn.train(recipe, folder=...)."
        )
    return Checkpoints(found["data"], items)


def new_folder(folder: str | os.PathLike[str]) -> Path:
    """Return an empty folder, made if need be."""
    path, name = Path(folder), repr(os.fspath(folder))
    path.mkdir(parents=True, exist_ok=True)
    if (path / _INDEX).is_file():
        raise BaselineError(
            f"{name} is not empty. Give another folder, or use what this one holds: TracIn(recipe, checkpoints={name})."
        )
    if any(path.iterdir()):
        raise BaselineError(
            f"{name} is not empty and holds no finished recording: a training was cut off, or it is a folder of "
            "something else. Give another folder, or empty this one."
        )
    return path
