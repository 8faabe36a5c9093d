"""Rows of a fixed generator, as many as wanted, and the small network that all methods train on them."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

import turnover
from turnover.training import TrainingRecipe

from .config import Table1Config

FEATURES, CLASSES = 32, 4


@dataclass(frozen=True)
class Task:
    """One cell of the measurement: a plain recipe, the same with turn-over dropout, one query and the settings."""

    plain: TrainingRecipe
    masked: TrainingRecipe
    query: tuple[Tensor, Tensor]
    config: Table1Config


def make_task(config: Table1Config, rows: int, width: int) -> Task:
    """Return the task for a size of the data and a width of the network; the smaller data are part of the larger."""
    inputs, targets = generated(rows + 1, config.seed)
    # The query comes first, so that it is the same for every size.
    data = {"inputs": inputs[1:], "targets": targets[1:], "epochs": config.epochs, "batch_size": config.batch_size}
    return Task(
        plain=TrainingRecipe(partial(network, width), **data),
        masked=TrainingRecipe(partial(masked_network, width, config.seed), **data),
        query=(inputs[:1], targets[:1]),
        config=config,
    )


def generated(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows around one center a class, drawn one after the other."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(CLASSES, FEATURES, generator=generator)
    targets = torch.randint(CLASSES, (rows,), generator=torch.Generator().manual_seed(seed + 1))
    # A second draw for the noise: torch draws in another order for other sizes, hence blocks of a fixed size.
    blocks = [torch.randn(64, FEATURES, generator=generator) for _ in range(-(-rows // 64))]
    return centers[targets] + 2 * torch.cat(blocks)[:rows], targets


def network(width: int) -> nn.Sequential:
    """Return an MLP with two hidden layers; without an output bias, so that nothing leaks when it is masked."""
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES, bias=False),
    )


def masked_network(width: int, seed: int) -> nn.Module:
    """Return the same network with turn-over dropout on both hidden layers."""
    return turnover.wrap(network(width), at=["1", "3"], seed=seed)
