"""The compared methods on a task: data, both trainings, and every method as a function that trains what it needs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.baselines import (
    ConjugateGradients,
    FeldmanZhang,
    InfluenceFunctions,
    LeaveOneOut,
    SgdInfluence,
    TracIn,
)
from turnover_bench.experiments.datasets.changed_labels import change_labels
from turnover_bench.experiments.datasets.numbers import digit_rows, sst2_rows
from turnover_bench.experiments.networks import masked_mlp, mlp

from .config import ComparedConfig, TaskConfig

TASK_NAMES = {"digits": "Handwritten digits", "sst2": "SST-2, MiniLM features"}


@dataclass(frozen=True)
class Prepared:
    """Data and trainings of a task.

    Attributes:
        plain: the training without masks.
        size: inputs, hidden widths and classes of the network.
        queries: inputs and correct labels.
        wrong: bool [rows]: whose label was changed.
        held_out: inputs and correct labels, for accuracy.
    """

    plain: TrainingRecipe
    size: tuple[int, tuple[int, ...], int]
    queries: tuple[Tensor, Tensor]
    wrong: np.ndarray
    held_out: tuple[Tensor, Tensor]

    def masked(self, seed: int = 0) -> TrainingRecipe:
        """Return the same training with masks of a seed on all hidden layers."""
        return replace(self.plain, build=partial(masked_mlp, *self.size, seed=seed))


def prepare(config: TaskConfig, cache: Path) -> Prepared:
    """Return the data and trainings of a task."""
    rows = digit_rows(config.rows) if config.data == "digits" else sst2_rows(config.rows, cache)
    x, labels, held_x, held_labels = rows
    classes = int(labels.max()) + 1
    changed = change_labels(labels, share=config.changed, classes=classes)
    size = (x.shape[1], (config.hidden,) * config.layers, classes)
    plain = TrainingRecipe(
        partial(mlp, *size),
        x,
        torch.from_numpy(changed.given),
        optimizer=partial(torch.optim.SGD, lr=config.learning_rate, momentum=0.9),
        epochs=config.epochs,
        batch_size=config.batch_size,
    )
    held = held_x, torch.from_numpy(held_labels)
    asked = held[0][: config.queries], held[1][: config.queries]
    return Prepared(plain, size, asked, changed.changed, held)


NAMES = {
    "turnover": "turn-over dropout (original estimator)",
    "turnover_several": "turn-over dropout, several models",
    "recommended": "recommended estimator, several models",
    "retrain": "Re-train",
    "koh": "Koh+ (last layer)",
    "hara": "Hara+ (last epoch)",
    "feldman_zhang": "Feldman & Zhang",
    "tracin": "TracIn",
    "random": "random scores",
}
# What one training of their own costs too much to repeat.
ONCE = frozenset({"retrain", "feldman_zhang"})

Methods = dict[str, Callable[[], Any]]
_IDENTITY = {"experiment": "compared"}  # a recipe tells all the rest


class RandomScores:
    """The floor: scores that know nothing."""

    def __init__(self, rows: int, seed: int) -> None:
        self._rows, self._rng = rows, np.random.default_rng(seed)

    def pairwise(self, queries: tuple[Tensor, Tensor]) -> np.ndarray:
        """Return numbers at random, [rows, queries]."""
        return self._rng.normal(size=(self._rows, len(queries[1])))

    def self_influence(self) -> np.ndarray:
        """Return numbers at random, [rows]."""
        return self._rng.normal(size=self._rows)


class Retrain:
    """Leave-one-out retraining that asks queries and rows of the same models, so that a row costs one training."""

    def __init__(self, recipe: TrainingRecipe, seed: int, cache: Path) -> None:
        self._recipe, self._seed, self._cache = recipe, seed, cache
        self._own = np.zeros(0)

    def pairwise(self, queries: tuple[Tensor, Tensor]) -> np.ndarray:
        """Return what each row does to each query, [rows, queries]."""
        assert isinstance(self._recipe.inputs, Tensor)
        both = torch.cat([self._recipe.inputs, queries[0]]), torch.cat([self._recipe.targets, queries[1]])
        retraining = LeaveOneOut(self._recipe, seeds=(self._seed,), cache=self._cache, identity=_IDENTITY)
        values = retraining.pairwise(both, progress=True).values
        self._own = values.diagonal().copy()
        return values[:, len(self._recipe) :]

    def self_influence(self) -> np.ndarray:
        """Return what each row does to itself, from the models that `pairwise` trained."""
        return self._own


def methods(
    task: TaskConfig, ready: Prepared, recipe: TrainingRecipe, config: ComparedConfig, *, seed: int, cache: Path
) -> Methods:
    """Return the methods by key, trained from one seed.

    Turn-over dropout trains the masked model; the others train what the ground truth retrains. Those of many trainings
    keep them in the cache, so that they resume.
    """
    last_layer = f"{2 * task.layers}.weight"
    several = [seed + 1000 * place for place in range(config.ensemble)]
    found: Methods = {
        "turnover": partial(_turn_over, ready, [seed], estimator="tod"),
        "turnover_several": partial(_turn_over, ready, several, estimator="tod"),
        "recommended": partial(_turn_over, ready, several),
        "retrain": partial(Retrain, recipe, seed, cache / "retrain"),
        "koh": partial(_koh, recipe, seed, config.damping, last_layer),
        "hara": partial(SgdInfluence.train, recipe, seed=seed, last_epochs=1),
        "feldman_zhang": partial(
            FeldmanZhang, recipe, models=config.models, seed=seed, cache=cache / "feldman-zhang", identity=_IDENTITY
        ),
        "tracin": partial(TracIn.train, recipe, seed=seed, checkpoints=config.checkpoints),
        "random": partial(RandomScores, len(recipe), seed),
    }
    if not task.retrain:
        del found["retrain"]
    return found


def _turn_over(ready: Prepared, seeds: list[int], **options: Any) -> turnover.Influence:
    models = [ready.masked(seed).fit(seed=seed) for seed in seeds]
    assert isinstance(ready.plain.inputs, Tensor)
    rows = turnover.with_instance_ids(TensorDataset(ready.plain.inputs, ready.plain.targets))
    return turnover.Influence(models if len(models) > 1 else models[0], train=rows, **options)


def _koh(recipe: TrainingRecipe, seed: int, damping: float, last_layer: str) -> InfluenceFunctions:
    solver = ConjugateGradients(tolerance=1e-3)
    return InfluenceFunctions(recipe, recipe.fit(seed=seed), solver=solver, damping=damping, parameters=last_layer)
