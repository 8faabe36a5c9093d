"""The two tasks: rows, held-out rows, and the masked training as a function of rate, replicas and seed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import turnover
from experiments.cleansing.data import Inputs
from experiments.datasets.cifar10 import load_cifar10
from experiments.datasets.cscores import load_cscores
from experiments.datasets.minilm import text_features
from experiments.datasets.numbers import standardized
from experiments.datasets.sst2 import load_sst2
from experiments.encoders import encoder_inputs, encoder_recipe
from experiments.networks import VGG19, masked_cnn, masked_mlp, vgg_sites
from experiments.runner import ExperimentError
from turnover.training import TrainingRecipe

from .config import ImageConfig, TextConfig


def _masked_vgg(width: float, *, seed: int, replicas: int) -> nn.Module:
    """Return VGG19 with masks after the 11th layer; a narrow one cannot bear a second mask before the classifier."""
    network = VGG19(width=width, dropout=0.5 if width >= 1 else 0.1)
    return turnover.wrap(network, at=vgg_sites(classifier_input=width >= 1), seed=seed, replicas=replicas)


def _pixels(images: Tensor, *, halved: bool) -> Tensor:
    """Return float images [n, 3, 32, 32] of bytes [n, 32, 32, 3]; halved: every four pixels become their mean."""
    found = images.permute(0, 3, 1, 2).to(torch.float32).contiguous()
    return nn.functional.avg_pool2d(found, 2) if halved else found


@dataclass(frozen=True)
class Task:
    """Rows and how a masked network learns them.

    Attributes:
        inputs: of the training rows.
        labels: of the training rows.
        test_inputs: of rows that are not trained.
        test_labels: of these.
        rates: from which one is chosen.
        epochs: of a training.
        recipe: (inputs, labels, rate, epochs, replicas, seed of masks) -> training.
        consistency: C-scores of the training rows; None: there are none.
    """

    inputs: Inputs
    labels: Tensor
    test_inputs: Inputs
    test_labels: Tensor
    rates: tuple[float, ...]
    epochs: int
    recipe: Callable[..., TrainingRecipe]
    consistency: np.ndarray | None = None


def text_task(config: TextConfig, cache: Path, *, test_rows: int | None = None) -> Task:
    """Return sentences of SST-2, tested with its dev rows."""
    train, dev = load_sst2("train", rows=config.rows), load_sst2("dev", rows=test_rows)
    labels = torch.from_numpy(train.labels), torch.from_numpy(dev.labels)
    if config.encoder is not None:
        inputs = [encoder_inputs(config.encoder, some.texts) for some in (train, dev)]
        make = partial(encoder_recipe, config.encoder, batch_size=config.batch_size, masked=True)
        return Task(inputs[0], labels[0], inputs[1], labels[1], config.rates, config.epochs, make)
    x, held = standardized(*(text_features(some.texts, cache=cache) for some in (train, dev)))
    build = partial(masked_mlp, x.shape[1], (config.hidden,), 2)
    make = partial(_recipe, build, optimizer=partial(torch.optim.AdamW, weight_decay=0.01), size=config.batch_size)
    return Task(x, labels[0], held, labels[1], config.rates, config.epochs, make)


def image_task(config: ImageConfig, *, test_rows: int | None = None) -> Task:
    """Return images of CIFAR-10 with their C-scores.

    Raises:
        ExperimentError: the C-scores are of other images.
    """
    train, test = load_cifar10("train", rows=config.rows), load_cifar10("test", rows=test_rows)
    scores, theirs = load_cscores(rows=len(train))
    if not np.array_equal(theirs, train.labels):
        raise ExperimentError(
            "the labels in cifar10_cscores.npz are not those of the images. Give C-scores in the original order of "
            "CIFAR-10's training images."
        )
    x, held = (_pixels(torch.from_numpy(some.pixels), halved=not config.vgg) for some in (train, test))
    x, held = standardized(x, held)
    build = partial(_masked_vgg, config.vgg) if config.vgg else partial(masked_cnn, 3, config.hidden, 10)
    optimizer = partial(torch.optim.SGD, momentum=0.9, weight_decay=config.weight_decay)
    make = partial(_recipe, build, optimizer=optimizer, size=config.batch_size, milestones=config.milestones)
    labels = torch.from_numpy(train.labels), torch.from_numpy(test.labels)
    return Task(x, labels[0], held, labels[1], config.rates, config.epochs, make, scores)


def _recipe(
    build: Callable[..., nn.Module],
    inputs: Tensor,
    labels: Tensor,
    *,
    rate: float,
    epochs: int,
    replicas: int,
    seed: int,
    optimizer: Any,
    size: int,
    milestones: tuple[int, ...] = (),
) -> TrainingRecipe:
    steps = -(-len(labels) // size)
    falls = [epoch * steps for epoch in milestones]
    return TrainingRecipe(
        partial(build, seed=seed, replicas=replicas),
        inputs,
        labels,
        optimizer=partial(optimizer, lr=rate),
        schedule=partial(torch.optim.lr_scheduler.MultiStepLR, milestones=falls) if falls else None,
        epochs=epochs,
        batch_size=size,
    )
