"""Both domains as a network takes them, and its trainings with masks and without."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from experiments.datasets.electronics import load_electronics
from experiments.datasets.minilm import text_features
from experiments.datasets.numbers import standardized
from experiments.datasets.sst2 import Sentences, load_sst2
from experiments.encoders import encoder_inputs, encoder_recipe
from experiments.networks import masked_mlp, mlp
from turnover.training import TrainingRecipe

from .config import Config

Inputs = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class Domains:
    """Inputs and labels of both domains.

    Attributes:
        train: sentences of SST-2 that are trained.
        reviews: of electronics.
        inputs: of the sentences.
        labels: of the sentences.
        dev_inputs: of SST-2's dev rows.
        dev_labels: of SST-2's dev rows.
        review_inputs: of the reviews.
        review_labels: of the reviews.
    """

    train: Sentences
    reviews: Sentences
    inputs: Inputs
    labels: Tensor
    dev_inputs: Inputs
    dev_labels: Tensor
    review_inputs: Inputs
    review_labels: Tensor


def load_domains(config: Config, cache: Path) -> Domains:
    """Return both domains: standardized features, or tokens for an encoder.

    Raises:
        MissingDataError: SST-2, electronics or MiniLM is not there.
    """
    reviews = load_electronics(rows=config.reviews)
    train, dev = load_sst2("train", rows=config.rows), load_sst2("dev", rows=config.dev_rows)
    labels = [torch.from_numpy(some.labels) for some in (train, dev, reviews)]
    texts = [some.texts for some in (train, dev, reviews)]
    if config.encoder is not None:
        tokens = [encoder_inputs(config.encoder, some, longest=config.longest) for some in texts]
        return Domains(train, reviews, tokens[0], labels[0], tokens[1], labels[1], tokens[2], labels[2])
    x = standardized(*(text_features(some, cache=cache, longest=config.longest) for some in texts))
    return Domains(train, reviews, x[0], labels[0], x[1], labels[1], x[2], labels[2])


def part(inputs: Inputs, places: Any) -> Inputs:
    """Return the inputs of some rows."""
    return inputs[places] if isinstance(inputs, Tensor) else {name: value[places] for name, value in inputs.items()}


def labeled(inputs: Inputs, labels: Tensor, *, ids: bool = False) -> Any:
    """Return rows as `turnover.Influence` takes them, with their places as instance ids if asked for."""
    if isinstance(inputs, Tensor):
        return (inputs, labels, torch.arange(len(labels))) if ids else (inputs, labels)
    return {**inputs, "labels": labels, **({"instance_id": torch.arange(len(labels))} if ids else {})}


_AT_ONCE = 500
# Of the trainings that choose; no other training has it.
_CHOOSING_SEED = 99


@dataclass(frozen=True)
class Setting:
    """How long and how fast is trained.

    Attributes:
        rate: of AdamW.
        epochs: passes over the rows.
    """

    rate: float
    epochs: int


def recipe_of(
    config: Config, domains: Domains, setting: Setting, *, masked: bool, replicas: int = 1, seed: int = 0
) -> TrainingRecipe:
    """Return a training on the sentences."""
    how = {"rate": setting.rate, "epochs": setting.epochs, "batch_size": config.batch_size}
    if config.encoder is not None:
        assert not isinstance(domains.inputs, Tensor)
        return encoder_recipe(
            config.encoder, domains.inputs, domains.labels, masked=masked, replicas=replicas, seed=seed, **how
        )
    assert isinstance(domains.inputs, Tensor)
    sizes = (domains.inputs.shape[1], (config.hidden,), 2)
    return TrainingRecipe(
        partial(masked_mlp, *sizes, seed=seed, replicas=replicas) if masked else partial(mlp, *sizes),
        domains.inputs,
        domains.labels,
        optimizer=partial(torch.optim.AdamW, lr=setting.rate, weight_decay=0.01),
        epochs=setting.epochs,
        batch_size=config.batch_size,
    )


def choose(config: Config, domains: Domains, *, masked: bool) -> dict[str, Any]:
    """Return rate and epochs with the least loss on dev rows of SST-2; no review is looked at."""
    rates, epochs = (config.masked_rates, config.masked_epochs) if masked else (config.rates, config.epochs)
    tried = []
    grid = [Setting(*one) for one in product(rates, epochs)]
    for setting in tqdm(grid, desc="rate and epochs", disable=len(grid) == 1):
        found: dict[str, Any] = {"rate": setting.rate, "epochs": setting.epochs}
        if len(grid) > 1:
            model = recipe_of(config, domains, setting, masked=masked, seed=_CHOOSING_SEED).fit(seed=_CHOOSING_SEED)
            found |= judge(model, domains.dev_inputs, domains.dev_labels)
        tried.append(found)
    best = min(tried, key=lambda one: one.get("loss", 0.0))
    return {"rate": best["rate"], "epochs": best["epochs"], "tried": tried}


@torch.no_grad()
def row_losses(model: nn.Module, inputs: Inputs, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the full network's loss on each row, and whether its prediction is correct."""
    losses, correct = [], []
    for places in torch.arange(len(labels)).split(_AT_ONCE):
        given = part(inputs, places)
        outputs = model(given) if isinstance(given, Tensor) else model(**given).logits
        losses.append(functional.cross_entropy(outputs, labels[places], reduction="none"))
        correct.append(outputs.argmax(1) == labels[places])
    return torch.cat(losses).numpy(), torch.cat(correct).numpy()


def judge(model: nn.Module, inputs: Inputs, labels: Tensor) -> dict[str, float]:
    """Return accuracy and mean loss of the full network."""
    losses, correct = row_losses(model, inputs, labels)
    return {"accuracy": float(correct.mean()), "loss": float(losses.mean(dtype=np.float64))}
