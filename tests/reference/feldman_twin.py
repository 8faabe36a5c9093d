"""Feldman and Zhang's estimates by their definition: one loop over rows, queries and models, no matrices."""

from collections.abc import Callable, Sequence
from math import nan, sqrt
from statistics import fmean, variance

import numpy as np
import torch
from torch import Tensor, nn

from turnover.training import TrainingRecipe


def trained(recipe: TrainingRecipe, subsets: np.ndarray, seeds: Sequence[int]) -> list[nn.Module]:
    return [
        recipe.fit([row for row in range(len(recipe)) if subset[row]], seed=seed)
        for subset, seed in zip(subsets, seeds, strict=True)
    ]


def loss_turned_round(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Return minus the cross-entropy of one example: larger is better, as for the other measures."""
    return float(torch.log_softmax(model(x[None]), -1)[0, int(y)])


def probability(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return float(torch.softmax(model(x[None]), -1)[0, int(y)])


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return float(int(model(x[None])[0].argmax()) == int(y))


def influence_twin(
    models: Sequence[nn.Module],
    subsets: np.ndarray,
    row: int,
    query: tuple[Tensor, Tensor],
    score: Callable[[nn.Module, Tensor, Tensor], float],
) -> tuple[float, float]:
    """Return the influence of one row on one query and its standard error; NaN where a group is too small."""
    having, lacking = [], []
    with torch.no_grad():
        for model, subset in zip(models, subsets, strict=True):
            (having if subset[row] else lacking).append(score(model, *query))
    if not having or not lacking:
        return nan, nan
    if len(having) < 2 or len(lacking) < 2:
        return fmean(having) - fmean(lacking), nan
    error = sqrt(variance(having) / len(having) + variance(lacking) / len(lacking))
    return fmean(having) - fmean(lacking), error
