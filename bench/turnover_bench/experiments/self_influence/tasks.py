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
from turnover.training import TrainingRecipe
from turnover_bench.experiments.cleansing.data import Inputs
from turnover_bench.experiments.datasets.cifar10 import load_cscores
from turnover_bench.experiments.datasets.numbers import cifar10_rows, sst2_rows
from turnover_bench.experiments.datasets.sst2 import load_sst2
from turnover_bench.experiments.encoders import encoder_inputs, encoder_recipe
from turnover_bench.experiments.networks import VGG19, masked_cnn, masked_mlp, vgg_sites
from turnover_bench.experiments.runner import ExperimentError

from .config import ImageConfig, TextConfig


def _masked_vgg(width: float, *, seed: int, replicas: int) -> nn.Module:
    """Return VGG19 with masks after the 11th layer; a narrow one cannot bear a second mask before the classifier."""
    network = VGG19(width=width, dropout=0.5 if width >= 1 else 0.1)
    return turnover.wrap(network, at=vgg_sites(classifier_input=width >= 1), seed=seed, replicas=replicas)


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
    if config.encoder is not None:
        train, dev = load_sst2("train", rows=config.rows), load_sst2("dev", rows=test_rows)
        x, held = (encoder_inputs(config.encoder, split.texts) for split in (train, dev))
        labels, held_labels = train.labels, dev.labels
        make = partial(encoder_recipe, config.encoder, batch_size=config.batch_size, masked=True)
    else:
        x, labels, held, held_labels = sst2_rows(config.rows, cache, held_out=test_rows)
        build = partial(masked_mlp, x.shape[1], (config.hidden,), 2)
        make = partial(_recipe, build, optimizer=partial(torch.optim.AdamW, weight_decay=0.01), size=config.batch_size)
    rows = x, torch.from_numpy(labels), held, torch.from_numpy(held_labels)
    return Task(*rows, config.rates, config.epochs, make)


def image_task(config: ImageConfig, *, test_rows: int | None = None) -> Task:
    """Return images of CIFAR-10 with their C-scores.

    Raises:
        ExperimentError: the C-scores are of other images.
    """
    x, labels, held, held_labels = cifar10_rows(config.rows, held_out=test_rows, halved=not config.vgg)
    scores, theirs = load_cscores(rows=len(labels))
    if not np.array_equal(theirs, labels):
        raise ExperimentError(
            "the labels in cifar10_cscores.npz are not those of the images. Give C-scores in the original order of "
            "CIFAR-10's training images."
        )
    build = partial(_masked_vgg, config.vgg) if config.vgg else partial(masked_cnn, 3, config.hidden, 10)
    optimizer = partial(torch.optim.SGD, momentum=0.9, weight_decay=config.weight_decay)
    how = {"size": config.batch_size, "milestones": config.milestones, "bfloat16": config.bfloat16}
    make = partial(_recipe, build, optimizer=optimizer, **how)
    rows = x, torch.from_numpy(labels), held, torch.from_numpy(held_labels)
    return Task(*rows, config.rates, config.epochs, make, scores)


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
    bfloat16: bool = False,
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
        bfloat16=bfloat16,
    )
