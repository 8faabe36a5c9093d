"""A tiny task: some handwritten digits, part of them with a wrong label, and an MLP that learns in a moment."""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

import turnover
from turnover.evaluation import Queries
from turnover.training import TrainingRecipe


class Task(NamedTuple):
    recipe: TrainingRecipe
    queries: Queries
    wrong: np.ndarray


def mlp(hidden: int = 32) -> nn.Module:
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 3))


def masked_mlp(hidden: int = 64) -> nn.Module:
    return turnover.wrap(mlp(hidden), at=["1"], seed=3)


def digits_task(rows: int = 60, queries: int = 8, *, masked: bool = False, epochs: int = 8) -> Task:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    few = np.flatnonzero(labels < 3)[: rows + queries]
    x, y = torch.tensor(pixels[few] / 16.0, dtype=torch.float32), torch.tensor(labels[few])
    wrong = np.arange(rows) % 10 == 5
    given = torch.where(torch.from_numpy(wrong), (y[:rows] + 1) % 3, y[:rows])
    recipe = TrainingRecipe(
        masked_mlp if masked else mlp,
        x[:rows],
        given,
        optimizer=partial(torch.optim.SGD, lr=0.3),
        epochs=epochs,
        batch_size=20,
    )
    return Task(recipe, (x[rows:], y[rows:]), wrong)


class Similarity:
    def __init__(self, recipe):
        self.recipe = recipe

    def pairwise(self, queries):
        return self._scores(*queries)

    def self_influence(self):
        # A row unlike the others of its label is memorized.
        return -self._scores(self.recipe.inputs, self.recipe.targets).mean(1)

    def _scores(self, inputs, targets):
        alike = torch.nn.functional.cosine_similarity(self.recipe.inputs[:, None], inputs[None], dim=2)
        return alike * torch.where(self.recipe.targets[:, None] == targets, 1.0, -1.0)


class Broken:
    def pairwise(self, queries):
        raise ZeroDivisionError("no such luck")
