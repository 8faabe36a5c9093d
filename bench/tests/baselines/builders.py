"""A builder of models that counts them, and a small training by SGD in float64."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR

from turnover.training import TrainingRecipe

ROWS = 14
X = torch.sin(torch.arange(ROWS * 3, dtype=torch.float64)).view(ROWS, 3)
Y = (X[:, 0] > 0).long()
QUERIES = (torch.cos(torch.arange(15, dtype=torch.float64)).view(5, 3), torch.tensor([0, 1, 1, 0, 1]))
cross_entropy = partial(functional.cross_entropy, reduction="none")


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def sgd(**settings) -> partial:
    return partial(torch.optim.SGD, **{"lr": 0.3, **settings})


def recipe(**changes) -> TrainingRecipe:
    given = {"build": build, "inputs": X, "targets": Y, "loss": cross_entropy, "optimizer": sgd(), "epochs": 4}
    return TrainingRecipe(**{**given, "batch_size": 4, **changes})


def decaying(optimizer):
    return LambdaLR(optimizer, lambda step: 0.9**step)


class Counted:
    """Builds models and counts them; described alike in every process."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        self.build = build
        self.built = 0

    def __call__(self) -> nn.Module:
        self.built += 1
        return self.build()

    def __repr__(self) -> str:
        return "Counted"
