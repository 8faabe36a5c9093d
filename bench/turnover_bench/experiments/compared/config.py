"""How large the comparison is."""

from dataclasses import dataclass
from typing import Literal

from turnover_bench.experiments.runner import Needs


@dataclass(frozen=True)
class TaskConfig:
    """One task: its data, its model and its training.

    Attributes:
        data: which data set.
        rows: training rows.
        queries: rows that are asked about, none of them trained on.
        hidden: width of the hidden layers, which are masked.
        layers: how many hidden layers.
        learning_rate: of SGD with momentum 0.9.
        epochs: of every training.
        batch_size: of every training.
        changed: share of the training labels that are made wrong.
        retrain: whether Re-train can be afforded on all rows.
    """

    data: Literal["digits", "sst2"]
    rows: int
    queries: int
    hidden: int = 256
    layers: int = 1
    learning_rate: float = 0.02
    epochs: int = 8
    batch_size: int = 32
    changed: float = 0.1
    retrain: bool = False


@dataclass(frozen=True)
class ComparedConfig:
    """Tasks, ground truth and methods.

    Attributes:
        tasks: what is compared on.
        subsets: random halves of the rows, for the linear datamodeling score.
        subset_seeds: retrainings of each.
        loo_rows: rows that are left out one at a time.
        loo_seeds: retrainings without each of them.
        removed: how many of a query's most helpful rows are removed for brittleness.
        brittle_queries: queries for which that is done, a training each.
        seeds: trainings of each method of its own; Re-train, Feldman & Zhang and brittleness have one.
        models: of Feldman & Zhang.
        ensemble: models of the row "turn-over dropout, several models".
        damping: of Koh+.
        checkpoints: of TracIn.
        draws: of the bootstrap intervals.
        processes: for the ground truth; methods run in one, so that their seconds can be compared.
    """

    tasks: tuple[TaskConfig, ...]
    subsets: int = 32
    subset_seeds: int = 2
    loo_rows: int = 30
    loo_seeds: int = 2
    removed: int = 30
    brittle_queries: int = 10
    seeds: int = 2
    models: int = 60
    ensemble: int = 8
    damping: float = 0.01
    checkpoints: int = 5
    draws: int = 1000
    processes: int = 1


SIZES = {
    "toy": ComparedConfig(
        tasks=(TaskConfig("digits", rows=20, queries=3, hidden=16, learning_rate=0.1, epochs=6, retrain=True),),
        subsets=5,
        loo_rows=4,
        loo_seeds=1,
        removed=5,
        brittle_queries=1,
        models=20,
        ensemble=2,
        checkpoints=2,
        draws=50,
    ),
    "small": ComparedConfig(
        tasks=(
            TaskConfig(
                "digits",
                rows=240,
                queries=40,
                hidden=512,
                learning_rate=0.1,
                epochs=10,
                batch_size=40,
                retrain=True,
            ),
            TaskConfig("sst2", rows=500, queries=40, learning_rate=0.02, epochs=5, batch_size=50, retrain=True),
        )
    ),
    "medium": ComparedConfig(
        tasks=(
            TaskConfig("digits", rows=500, queries=100, layers=2, learning_rate=0.05, epochs=15, retrain=True),
            TaskConfig("sst2", rows=2000, queries=100, learning_rate=0.01, epochs=6),
        ),
        subsets=50,
        loo_rows=100,
        removed=50,
        brittle_queries=20,
        models=200,
        processes=2,
    ),
    "full": ComparedConfig(
        tasks=(
            TaskConfig(
                "digits", rows=1400, queries=300, hidden=512, layers=2, learning_rate=0.05, epochs=20, retrain=True
            ),
            TaskConfig("sst2", rows=5000, queries=300, hidden=512, learning_rate=0.01, epochs=6, retrain=True),
        ),
        subsets=100,
        subset_seeds=3,
        loo_rows=300,
        loo_seeds=5,
        removed=100,
        brittle_queries=50,
        seeds=5,
        models=2000,
        processes=2,
    ),
}

NEEDS = {"medium": Needs(disk=1, memory=4, hours=0.8)}
MEASURES_MEMORY = True
