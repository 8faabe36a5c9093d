"""The network of the experiments on digits: two hidden layers, both masked, nothing before them shared."""

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.experiments.datasets.images import change_labels, load_digits

QUERIES_FROM = 1437
"""Rows from here on are not trained on."""


def masked_network(
    *, hidden: int = 512, seed: int = 0, replicas: int = 1, at: tuple[str, ...] = ("1", "3")
) -> nn.Module:
    """Return the untrained network with masks; with at=("3",) its first layer is a trunk that all replicas share."""
    layers = [nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10)]
    return turnover.wrap(nn.Sequential(*layers), at=list(at), seed=seed, replicas=replicas)


def digits_recipe(
    *,
    rows: int = QUERIES_FROM,
    hidden: int = 512,
    seed: int = 0,
    replicas: int = 1,
    epochs: int = 20,
    at: tuple[str, ...] = ("1", "3"),
) -> tuple[TrainingRecipe, np.ndarray]:
    """Return how the network is trained on the first digits, a tenth of their labels changed, and which were."""
    digits = load_digits()
    labels = change_labels(digits.labels[:rows], share=0.1, classes=10)
    recipe = TrainingRecipe(
        partial(masked_network, hidden=hidden, seed=seed, replicas=replicas, at=at),
        torch.from_numpy(digits.pixels[:rows]),
        torch.from_numpy(labels.given),
        optimizer=partial(torch.optim.Adam, lr=1e-3, fused=True),
        epochs=epochs,
        batch_size=64,
    )
    return recipe, labels.changed


def digit_queries(count: int) -> tuple[Tensor, Tensor]:
    """Return digits that were not trained on, with their true labels."""
    digits = load_digits()
    chosen = slice(QUERIES_FROM, QUERIES_FROM + count)
    return torch.from_numpy(digits.pixels[chosen]), torch.from_numpy(digits.labels[chosen])
