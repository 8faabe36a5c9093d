"""Tasks and their sizes: rows with some wrong labels, clean validation rows, trainings, retraining on random halves."""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import turnover
from turnover.evaluation import SubsetOutcomes, subset_outcomes
from turnover.training import TrainingRecipe
from turnover_bench.experiments.datasets.images import change_labels, labels_by_people
from turnover_bench.experiments.datasets.numbers import cifar10_rows, digit_rows, sst2_rows
from turnover_bench.experiments.networks import cnn, masked_cnn, masked_mlp, mlp


@dataclass(frozen=True)
class TaskConfig:
    """One task: its data, its network and its training.

    Attributes:
        title: for the page.
        data: which data set.
        network: "mlp": ReLU layers, all masked; "cnn": two convolutions, a pooling and a masked ReLU layer.
        rows: training rows.
        validation: held-out rows with right labels, for mean influence; the first of them are the queries of LDS.
        queries: how many those are.
        hidden: widths of the hidden layers; of a CNN, the channels of both convolutions and the hidden layer.
        labels: "changed": 10 % at random; "people": those that people gave (CIFAR-10N).
        learning_rate: of SGD with momentum 0.9.
        epochs: of every training.
        batch_size: of every training.
        halves: random halves of the rows that are retrained, for LDS.
        retrainings: of each half.
        subset_models: models of Feldman & Zhang.
        projection: dimensions of TRAK, about a tenth of the rows; on digits (seed 100) LDS is .25 with 128, .24 with
            256 and .18 with 512.
    """

    title: str
    data: Literal["digits", "sst2", "cifar10"]
    network: Literal["mlp", "cnn"]
    rows: int
    validation: int
    queries: int
    hidden: tuple[int, ...]
    labels: Literal["changed", "people"] = "changed"
    learning_rate: float = 0.05
    epochs: int = 20
    batch_size: int = 50
    halves: int = 50
    retrainings: int = 2
    subset_models: int = 60
    projection: int = 512


@dataclass(frozen=True)
class Config:
    """All of the benchmark.

    Attributes:
        tasks: by name.
        seeds: trainings that are reported.
        own_seeds: the same for methods that are judged by what they say of a row itself.
        checkpoints: of TracIn and of the mean training loss.
        folds: of cleanlab.
        replicas: of turn-over dropout with replicas.
        processes: for retraining; methods run in one.
    """

    tasks: dict[str, TaskConfig]
    seeds: tuple[int, ...] = (0, 1, 2)
    own_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    checkpoints: int = 3
    folds: int = 5
    replicas: int = 8
    processes: int = 1


_DIGITS = TaskConfig(
    "Handwritten digits",
    "digits",
    "mlp",
    1300,
    150,
    50,
    (512, 512),
    learning_rate=0.1,
    epochs=25,
    batch_size=100,
    projection=128,
)
_SST2 = TaskConfig(
    "SST-2, MiniLM features",
    "sst2",
    "mlp",
    5000,
    300,
    50,
    (512,),
    learning_rate=0.04,
    epochs=6,
    batch_size=100,
    projection=512,
)
_CIFAR10 = TaskConfig(
    "CIFAR-10, 16 × 16 pixels",
    "cifar10",
    "cnn",
    10_000,
    250,
    50,
    (24, 32, 512),
    epochs=8,
    batch_size=100,
    retrainings=1,
    subset_models=20,
)

SIZES = {
    "toy": Config(
        tasks={
            "digits": TaskConfig(
                "Handwritten digits",
                "digits",
                "mlp",
                rows=160,
                validation=12,
                queries=4,
                hidden=(32, 32),
                epochs=3,
                halves=4,
                subset_models=12,
                projection=104,  # traker needs more than 100
            )
        },
        seeds=(0,),
        own_seeds=(0,),
        checkpoints=2,
        folds=2,
        replicas=3,
    ),
    "full": Config(
        tasks={
            "digits": _DIGITS,
            "sst2": _SST2,
            "cifar10": _CIFAR10,
            "cifar10n": TaskConfig(
                **{
                    **vars(_CIFAR10),
                    "title": "CIFAR-10N, 16 × 16 pixels, labels by people",
                    "labels": "people",
                    "halves": 32,
                }
            ),
        }
    ),
}


CHANGED = 0.1


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
        return self.plain.targets

    def rows(self) -> TensorDataset:
        return TensorDataset(self.inputs, self.labels)

    def rows_with_ids(self) -> object:
        return turnover.with_instance_ids(self.rows())

    def masked(self, seed: int, replicas: int = 1) -> TrainingRecipe:
        """Return the same training of the masked network, with masks of a seed."""
        build = masked_mlp if self.config.network == "mlp" else masked_cnn
        return replace(self.plain, build=partial(build, *self.size, seed=seed, replicas=replicas))


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
