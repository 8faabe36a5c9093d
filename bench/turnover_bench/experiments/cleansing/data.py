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

from turnover.training import TrainingRecipe
from turnover_bench.experiments.checkpoints import next_checkpoint
from turnover_bench.experiments.datasets.electronics import load_electronics
from turnover_bench.experiments.datasets.minilm import minilm_folder, text_features
from turnover_bench.experiments.datasets.numbers import standardized
from turnover_bench.experiments.datasets.sst2 import Sentences, load_sst2
from turnover_bench.experiments.encoders import encoder_inputs, encoder_recipe
from turnover_bench.experiments.networks import masked_mlp, mlp

from .config import Config

Inputs = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class Rows:
    """Sentences, and their inputs and labels as a network takes them."""

    sentences: Sentences
    inputs: Inputs
    labels: Tensor


@dataclass(frozen=True)
class Domains:
    """Both domains: rows of SST-2 that are trained, its dev rows, and reviews of electronics."""

    train: Rows
    dev: Rows
    reviews: Rows


def encoder_of(config: Config) -> str:
    """Return the encoder as transformers opens it."""
    assert config.encoder is not None
    return str(minilm_folder()) if config.encoder == "minilm" else config.encoder


def load_domains(config: Config, cache: Path) -> Domains:
    """Return both domains: standardized features, or tokens for an encoder.

    Raises:
        MissingDataError: SST-2, electronics or MiniLM is not there.
    """
    reviews = load_electronics(rows=config.reviews)
    parts = load_sst2("train", rows=config.rows), load_sst2("dev", rows=config.dev_rows), reviews
    if config.encoder is not None:
        inputs = [encoder_inputs(encoder_of(config), one.texts, longest=config.longest) for one in parts]
    else:
        inputs = standardized(*(text_features(one.texts, cache=cache, longest=config.longest) for one in parts))
    return Domains(*(Rows(one, x, torch.from_numpy(one.labels)) for one, x in zip(parts, inputs, strict=True)))


def part(inputs: Inputs, places: Any) -> Inputs:
    """Return the inputs of some rows."""
    return inputs[places] if isinstance(inputs, Tensor) else {name: value[places] for name, value in inputs.items()}


def by_length(inputs: Inputs) -> Tensor:
    """Return the places of all rows, texts of few tokens first; vectors stay as they are."""
    if isinstance(inputs, Tensor):
        return torch.arange(len(inputs))
    return inputs["attention_mask"].sum(1).argsort(stable=True)


def labeled(inputs: Inputs, labels: Tensor, *, ids: Tensor | None = None) -> Any:
    """Return rows as `turnover.Influence` takes them, with instance ids if there are any."""
    if isinstance(inputs, Tensor):
        return (inputs, labels) if ids is None else (inputs, labels, ids)
    return {**inputs, "labels": labels, **({} if ids is None else {"instance_id": ids})}


_AT_ONCE = 500
# Of the trainings that choose; no other training has it.
_CHOOSING_SEED = 99


def recipe_of(
    config: Config, rows: Rows, setting: Mapping[str, Any], *, masked: bool, replicas: int = 1, seed: int = 0
) -> TrainingRecipe:
    """Return a training on rows with a rate and epochs."""
    how: dict[str, Any] = {"epochs": setting["epochs"], "batch_size": config.batch_size}
    if config.encoder is not None:
        assert not isinstance(rows.inputs, Tensor)
        how |= {"rate": setting["rate"], "masked": masked, "replicas": replicas, "seed": seed}
        return encoder_recipe(encoder_of(config), rows.inputs, rows.labels, **how)
    assert isinstance(rows.inputs, Tensor)
    sizes = (rows.inputs.shape[1], (config.hidden,), 2)
    return TrainingRecipe(
        partial(masked_mlp, *sizes, seed=seed, replicas=replicas) if masked else partial(mlp, *sizes),
        rows.inputs,
        rows.labels,
        optimizer=partial(torch.optim.AdamW, lr=setting["rate"], weight_decay=0.01),
        **how,
    )


def choose(config: Config, domains: Domains, *, masked: bool) -> dict[str, Any]:
    """Return rate and epochs with the least loss on dev rows of SST-2; no review is looked at."""
    rates, epochs = (config.masked_rates, config.masked_epochs) if masked else (config.rates, config.epochs)
    tried: list[dict[str, Any]] = [{"rate": rate, "epochs": count} for rate, count in product(rates, epochs)]
    for setting in tqdm(tried, desc="rate and epochs", disable=len(tried) == 1):
        if len(tried) > 1:
            recipe = recipe_of(config, domains.train, setting, masked=masked, seed=_CHOOSING_SEED)
            model = recipe.fit(seed=_CHOOSING_SEED, checkpoint=next_checkpoint())
            setting |= judge(model, domains.dev.inputs, domains.dev.labels)
    best = min(tried, key=lambda setting: setting.get("loss", 0.0))
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
