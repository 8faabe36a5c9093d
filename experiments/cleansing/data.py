"""Both domains as a network takes them: film reviews to train on, reviews of electronics to validate and test."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.datasets.electronics import Reviews, load_electronics
from experiments.datasets.minilm import text_features
from experiments.datasets.sst2 import Sentences, load_sst2

from .config import Config
from .encoder import encoder_inputs

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
    reviews: Reviews
    inputs: Inputs
    labels: Tensor
    dev_inputs: Inputs
    dev_labels: Tensor
    review_inputs: Inputs
    review_labels: Tensor


def load_domains(config: Config, cache: Path) -> Domains:
    """Return both domains: features by the spread of the training rows, or tokens for an encoder.

    Args:
        config: how many rows.
        cache: folder for features.

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
    found = [text_features(some, cache=cache, longest=config.longest) for some in texts]
    mean, spread = found[0].mean(0), found[0].std(0)
    x = [(some - mean) / spread for some in found]
    return Domains(train, reviews, x[0], labels[0], x[1], labels[1], x[2], labels[2])


def part(inputs: Inputs, places: Any) -> Inputs:
    """Return the inputs of some rows."""
    return inputs[places] if isinstance(inputs, Tensor) else {name: value[places] for name, value in inputs.items()}


def labeled(inputs: Inputs, labels: Tensor, *, ids: bool = False) -> Any:
    """Return rows as `turnover.Influence` takes them, with their places as instance ids if asked for."""
    if isinstance(inputs, Tensor):
        return (inputs, labels, torch.arange(len(labels))) if ids else (inputs, labels)
    return {**inputs, "labels": labels, **({"instance_id": torch.arange(len(labels))} if ids else {})}
