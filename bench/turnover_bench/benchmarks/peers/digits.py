"""Rows, networks and trainings of the tasks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.experiments.datasets.images import change_labels, load_digits

REPLICAS = 8


@dataclass(frozen=True)
class Config:
    """How large the tasks are.

    Attributes:
        rows: that are trained on.
        tests: that are asked about.
        halves: random halves of the rows that dattri retrains on.
        epochs: of a training; None: those of the package.
        seeds: trainings that methods are asked about.
    """

    rows: int = 600
    tests: int = 60
    halves: int = 40
    epochs: int | None = None
    seeds: tuple[int, ...] = (0, 1)


SIZES = {"toy": Config(rows=120, tests=8, halves=4, epochs=2, seeds=(0,)), "full": Config()}


def digit_rows(config: Config, *, side: int = 8) -> tuple[TensorDataset, TensorDataset]:
    """Return training and test digits [1, side, side], enlarged from 8 × 8 pixels where asked for."""
    digits = load_digits()
    pixels = torch.from_numpy(digits.pixels).float().reshape(-1, 1, 8, 8)
    if side != 8:
        pixels = functional.interpolate(pixels, (side, side), mode="bilinear", align_corners=False)
    labels = torch.from_numpy(digits.labels)
    first = slice(config.rows)
    last = slice(config.rows, config.rows + config.tests)
    return TensorDataset(pixels[first], labels[first]), TensorDataset(pixels[last], labels[last])


def with_wrong_labels(rows: TensorDataset, *, share: float = 0.1) -> tuple[TensorDataset, np.ndarray]:
    """Return the rows with a share of their labels changed, and which were."""
    inputs, labels = rows.tensors
    changed = change_labels(labels.numpy(), share=share, classes=10)
    return TensorDataset(inputs, torch.from_numpy(changed.given)), changed.changed


def masked(build: Callable[[], nn.Module], at: list[str] | None, *, seed: int) -> nn.Module:
    return turnover.wrap(build(), at=at, seed=seed, replicas=REPLICAS)


def fitted(
    build: Callable[[], nn.Module],
    rows: tuple[Tensor, Tensor],
    optimizer: Callable[..., torch.optim.Optimizer],
    *,
    epochs: int,
    batch_size: int,
    seed: int,
) -> nn.Module:
    """Return a trained network; rows of one with masks have their numbers as ids."""
    recipe = TrainingRecipe(build, *rows, optimizer=optimizer, epochs=epochs, batch_size=batch_size)
    return recipe.fit(seed=seed)


SGD = partial(torch.optim.SGD, lr=0.01, momentum=0.9)
ADAM = partial(torch.optim.Adam, lr=1e-3)
