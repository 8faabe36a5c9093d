"""A small training by SGD in float64, for the tests of SGD-influence."""

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
