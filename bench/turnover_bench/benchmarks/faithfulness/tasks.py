"""A task: rows with some wrong labels, clean validation rows, both trainings, and retraining on random halves."""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import turnover
from turnover.evaluation import SubsetOutcomes, subset_outcomes
from turnover.training import TrainingRecipe
from turnover_bench.experiments.datasets.changed_labels import change_labels
from turnover_bench.experiments.datasets.cifar10 import labels_by_people
from turnover_bench.experiments.datasets.numbers import cifar10_rows, digit_rows, sst2_rows
from turnover_bench.experiments.networks import cnn, masked_cnn, masked_mlp, mlp

from .config import TaskConfig

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
    """Return the data and trainings of a task."""
    loaders = {"digits": digit_rows, "sst2": partial(sst2_rows, cache=cache), "cifar10": cifar10_rows}
    x, right, held, held_labels = loaders[config.data](config.rows)
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


# No method has masks or trainings of this seed.
_MASKS = 777_777
VIEWS = ("plain", "full")


def ground_truth(ready: Prepared, folder: Path, *, processes: int = 1) -> dict[str, SubsetOutcomes]:
    """Return the query losses after retraining on random halves, by view: "plain" and "full"."""
    config = ready.config
    return {
        view: subset_outcomes(
            ready.plain if view == "plain" else ready.masked(_MASKS),
            ready.queries,
            subsets=config.halves,
            seeds=config.retrainings,
            processes=min(processes, os.cpu_count() or 1),
            cache=folder / f"truth-{view}",
            progress=True,
        )
        for view in VIEWS
    }
