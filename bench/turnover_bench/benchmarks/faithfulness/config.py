"""Which tasks there are, and how large."""

from dataclasses import dataclass
from typing import Literal


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
        chosen_on: trainings that options are chosen on; never reported.
        checkpoints: of TracIn and of the mean training loss.
        folds: of cleanlab.
        replicas: of turn-over dropout with replicas.
        processes: for retraining; methods run in one.
    """

    tasks: dict[str, TaskConfig]
    seeds: tuple[int, ...] = (0, 1, 2)
    own_seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    chosen_on: tuple[int, ...] = (100, 101, 102)
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
        chosen_on=(100,),
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
