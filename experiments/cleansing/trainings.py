"""The trainings: with masks for the estimate, without for the retraining; rates and epochs chosen on SST-2."""

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import turnover
from turnover.training import TrainingRecipe

from .config import Config
from .data import Domains, Inputs, part
from .encoder import encoder_recipe

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
    """Return a training on the sentences.

    Args:
        config: which network.
        domains: the rows.
        setting: rate and epochs.
        masked: with turn-over dropout.
        replicas: masked parts in one training.
        seed: of the masks.
    """
    how = {"rate": setting.rate, "epochs": setting.epochs, "batch_size": config.batch_size}
    if config.encoder is not None:
        assert not isinstance(domains.inputs, Tensor)
        return encoder_recipe(
            config.encoder, domains.inputs, domains.labels, masked=masked, replicas=replicas, seed=seed, **how
        )
    assert isinstance(domains.inputs, Tensor)
    build = partial(plain_head, domains.inputs.shape[1], config.hidden)
    return TrainingRecipe(
        partial(_masked, build, seed, replicas) if masked else build,
        domains.inputs,
        domains.labels,
        optimizer=partial(torch.optim.AdamW, lr=setting.rate, weight_decay=0.01),
        epochs=setting.epochs,
        batch_size=config.batch_size,
    )


def plain_head(inputs: int, hidden: int) -> nn.Sequential:
    """Return a ReLU layer between features and two outputs, which have no bias: it would leak a row past the masks."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 2, bias=False))


def _masked(build: Any, seed: int, replicas: int) -> nn.Module:
    return turnover.wrap(build(), at=["1"], seed=seed, replicas=replicas)


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
def judge(model: nn.Module, inputs: Inputs, labels: Tensor) -> dict[str, float]:
    """Return accuracy and mean loss of the full network."""
    right, losses = [], []
    for places in torch.arange(len(labels)).split(_AT_ONCE):
        given = part(inputs, places)
        outputs = model(given) if isinstance(given, Tensor) else model(**given).logits
        right.append((outputs.argmax(1) == labels[places]).numpy())
        losses.append(functional.cross_entropy(outputs, labels[places], reduction="none").numpy())
    return {
        "accuracy": float(np.concatenate(right).mean()),
        "loss": float(np.concatenate(losses).mean(dtype=np.float64)),
    }
