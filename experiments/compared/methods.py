"""The methods of the comparison, each as a function that trains what it needs and can then be asked."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import turnover
from turnover.baselines import (
    ConjugateGradients,
    FeldmanZhang,
    InfluenceFunctions,
    LeaveOneOut,
    SgdInfluence,
    TracIn,
)
from turnover.training import TrainingRecipe

from .config import ComparedConfig, TaskConfig
from .tasks import Prepared

NAMES = {
    "turnover": "turn-over dropout (the paper's estimate)",
    "turnover_several": "turn-over dropout, several models",
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

    def __init__(self, recipe: TrainingRecipe, seed: int) -> None:
        self._recipe, self._seed = recipe, seed
        self._own = np.zeros(0)

    def pairwise(self, queries: tuple[Tensor, Tensor]) -> np.ndarray:
        """Return what each row does to each query, [rows, queries]."""
        assert isinstance(self._recipe.inputs, Tensor)
        both = torch.cat([self._recipe.inputs, queries[0]]), torch.cat([self._recipe.targets, queries[1]])
        values = LeaveOneOut(self._recipe, seeds=(self._seed,)).pairwise(both, progress=True).values
        self._own = values.diagonal().copy()
        return values[:, len(self._recipe) :]

    def self_influence(self) -> np.ndarray:
        """Return what each row does to itself, from the models that `pairwise` trained."""
        return self._own


def methods(task: TaskConfig, ready: Prepared, recipe: TrainingRecipe, config: ComparedConfig, *, seed: int) -> Methods:
    """Return the methods by key, trained from one seed.

    Turn-over dropout trains the masked model; the others train what the ground truth retrains.

    Args:
        task: which task.
        ready: its data and trainings.
        recipe: what the ground truth retrains.
        config: sizes of the methods.
        seed: of the methods' own trainings and masks.
    """
    last_layer = f"{2 * task.layers}.weight"
    found: Methods = {
        "turnover": partial(_turn_over, ready, [seed]),
        "turnover_several": partial(_turn_over, ready, [seed + 1000 * place for place in range(config.ensemble)]),
        "retrain": partial(Retrain, recipe, seed),
        "koh": partial(_koh, recipe, seed, config.damping, last_layer),
        "hara": partial(SgdInfluence.train, recipe, seed=seed, last_epochs=1),
        "feldman_zhang": partial(FeldmanZhang, recipe, models=config.models, seed=seed),
        "tracin": partial(TracIn.train, recipe, seed=seed, checkpoints=config.checkpoints),
        "random": partial(RandomScores, len(recipe), seed),
    }
    if not task.retrain:
        del found["retrain"]
    return found


def _turn_over(ready: Prepared, seeds: list[int]) -> turnover.Influence:
    models = [ready.masked_by(seed).fit(seed=seed) for seed in seeds]
    assert isinstance(ready.masked.inputs, Tensor)
    rows = turnover.with_instance_ids(TensorDataset(ready.masked.inputs, ready.masked.targets))
    return turnover.Influence(models if len(models) > 1 else models[0], train=rows)


def _koh(recipe: TrainingRecipe, seed: int, damping: float, last_layer: str) -> InfluenceFunctions:
    solver = ConjugateGradients(tolerance=1e-3)
    return InfluenceFunctions(recipe, recipe.fit(seed=seed), solver=solver, damping=damping, parameters=last_layer)
