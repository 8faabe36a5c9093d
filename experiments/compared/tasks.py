"""A task of the comparison: rows of which some labels are wrong, clean queries, the plain and the masked training."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import turnover
from experiments.datasets.changed_labels import change_labels
from experiments.datasets.numbers import Rows, digit_rows, sst2_rows
from turnover.training import TrainingRecipe

from .config import TaskConfig

NAMES = {"digits": "Handwritten digits", "sst2": "SST-2, MiniLM features"}


@dataclass(frozen=True)
class Prepared:
    """Data and trainings of a task.

    Attributes:
        plain: the training without masks.
        masked: the same training with masks on all hidden layers.
        queries: inputs and right labels.
        wrong: bool [rows]: whose label was changed.
        held_out: inputs and right labels, for accuracy.
    """

    plain: TrainingRecipe
    masked: TrainingRecipe
    queries: tuple[Tensor, Tensor]
    wrong: np.ndarray
    held_out: tuple[Tensor, Tensor]

    def masked_by(self, seed: int) -> TrainingRecipe:
        """Return the masked training with masks of another seed."""
        build = self.masked.build
        assert isinstance(build, partial)
        return replace(self.masked, build=partial(build.func, *build.args, **{**build.keywords, "seed": seed}))


def mlp(inputs: int, hidden: int, layers: int, classes: int) -> nn.Sequential:
    """Return a ReLU network; without an output bias, nothing in it leaks a row into its flipped part."""
    parts: list[nn.Module] = []
    for width in [inputs, *[hidden] * (layers - 1)]:
        parts += [nn.Linear(width, hidden), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(hidden, classes, bias=False))


def masked_mlp(inputs: int, hidden: int, layers: int, classes: int, *, seed: int = 0) -> nn.Module:
    """Return the same network with masks on the outputs of all hidden layers."""
    sites = [str(2 * layer + 1) for layer in range(layers)]
    return turnover.wrap(mlp(inputs, hidden, layers, classes), at=sites, seed=seed)


def prepare(config: TaskConfig, cache: Path) -> Prepared:
    """Return the data and trainings of a task.

    Args:
        config: which task.
        cache: folder for text features.
    """
    x, labels, held_x, held_labels = _LOADERS[config.data](config, cache)
    classes = int(labels.max()) + 1
    some = change_labels(labels, share=config.changed, classes=classes)
    size = (x.shape[1], config.hidden, config.layers, classes)
    plain = TrainingRecipe(
        partial(mlp, *size),
        x,
        torch.from_numpy(some.given),
        optimizer=partial(torch.optim.SGD, lr=config.learning_rate, momentum=0.9),
        epochs=config.epochs,
        batch_size=config.batch_size,
    )
    held = held_x, torch.from_numpy(held_labels)
    asked = held[0][: config.queries], held[1][: config.queries]
    return Prepared(plain, replace(plain, build=partial(masked_mlp, *size, seed=0)), asked, some.changed, held)


def _digits(config: TaskConfig, cache: Path) -> Rows:
    del cache  # nothing to keep
    return digit_rows(config.rows)


def _sst2(config: TaskConfig, cache: Path) -> Rows:
    return sst2_rows(config.rows, cache)


_LOADERS: dict[str, Callable[[TaskConfig, Path], Rows]] = {"digits": _digits, "sst2": _sst2}
