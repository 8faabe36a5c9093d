"""A task: rows of which some labels are wrong, clean validation rows, the plain and the masked training."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import turnover
from experiments.datasets.changed_labels import change_labels
from experiments.datasets.cifar10 import labels_by_people, load_cifar10
from experiments.datasets.numbers import Rows, digit_rows, sst2_rows
from turnover.training import TrainingRecipe

from .config import TaskConfig
from .networks import cnn, masked_cnn, masked_mlp, mlp, pooled

CHANGED = 0.1


@dataclass(frozen=True)
class Masks:
    """How a network is masked.

    Attributes:
        replicas: masked parts in one training.
        keep: share of the units that an instance has.
        wider: factor of the widths of all hidden layers.
    """

    replicas: int = 1
    keep: float = 0.5
    wider: int = 1


@dataclass(frozen=True)
class Prepared:
    """Data and trainings of a task.

    Attributes:
        config: which task.
        plain: the training without masks.
        validation: inputs and right labels of held-out rows.
        wrong: bool [rows]: whose label is wrong.
        size: inputs, hidden widths and classes of the network.
    """

    config: TaskConfig
    plain: TrainingRecipe
    validation: tuple[Tensor, Tensor]
    wrong: np.ndarray
    size: tuple[int, tuple[int, ...], int]

    @property
    def queries(self) -> tuple[Tensor, Tensor]:
        """Return the validation rows that LDS asks about."""
        count = self.config.queries
        return self.validation[0][:count], self.validation[1][:count]

    @property
    def inputs(self) -> Tensor:
        """Return the inputs of all rows."""
        assert isinstance(self.plain.inputs, Tensor)
        return self.plain.inputs

    @property
    def labels(self) -> Tensor:
        """Return the labels that rows are trained with."""
        return self.plain.targets

    def rows(self) -> TensorDataset:
        """Return the training rows as a data set."""
        return TensorDataset(self.inputs, self.labels)

    def rows_with_ids(self) -> object:
        """Return the training rows with instance ids."""
        return turnover.with_instance_ids(self.rows())

    def masked(self, seed: int, masks: Masks | None = None) -> TrainingRecipe:
        """Return the same training of the masked network, with masks of a seed."""
        masks = masks or Masks()
        inputs, hidden, classes = self.size
        build = masked_mlp if self.config.network == "mlp" else masked_cnn
        wide = tuple(width * masks.wider for width in hidden)
        return replace(
            self.plain,
            build=partial(build, inputs, wide, classes, seed=seed, replicas=masks.replicas, keep=masks.keep),
        )


def prepare(config: TaskConfig, cache: Path) -> Prepared:
    """Return the data and trainings of a task.

    Args:
        config: which task.
        cache: folder for text features.
    """
    x, right, held, held_labels = _LOADERS[config.data](config, cache)
    classes = int(right.max()) + 1
    if config.labels == "people":
        given = labels_by_people("aggre", rows=config.rows)
    else:
        given = change_labels(right, share=CHANGED, classes=classes).given
    size = (x.shape[1], config.hidden, classes)
    plain = TrainingRecipe(
        partial(mlp if config.network == "mlp" else cnn, *size),
        x,
        torch.from_numpy(given),
        optimizer=partial(torch.optim.SGD, lr=config.learning_rate, momentum=0.9),
        epochs=config.epochs,
        batch_size=config.batch_size,
    )
    some = slice(config.validation)
    return Prepared(config, plain, (held[some], torch.from_numpy(held_labels[some])), given != right, size)


def _digits(config: TaskConfig, cache: Path) -> Rows:
    del cache  # nothing to keep
    return digit_rows(config.rows)


def _sst2(config: TaskConfig, cache: Path) -> Rows:
    return sst2_rows(config.rows, cache)


def _cifar10(config: TaskConfig, cache: Path) -> Rows:
    del cache
    train, test = load_cifar10("train", rows=config.rows), load_cifar10("test")
    x, held = (
        pooled(torch.from_numpy(images.pixels).permute(0, 3, 1, 2).float().contiguous()) for images in (train, test)
    )
    mean, spread = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True)
    return (x - mean) / spread, train.labels, (held - mean) / spread, test.labels


_LOADERS: dict[str, Callable[[TaskConfig, Path], Rows]] = {"digits": _digits, "sst2": _sst2, "cifar10": _cifar10}
