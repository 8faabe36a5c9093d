"""A whole encoder on texts: masked adapters in it, or ordinary fine-tuning, as a training of rows and seed."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import turnover
from turnover.training import TrainingRecipe

ADAPTER = 64


def encoder_inputs(encoder: str | os.PathLike[str], texts: Sequence[str], *, longest: int = 64) -> dict[str, Tensor]:
    """Return the tokens of texts as an encoder takes them, all padded to the longest.

    Args:
        encoder: a folder or a name on the hub.
        texts: any number.
        longest: tokens of a text that are read.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    # To the same length for training and query rows alike: scoring compares batches of both.
    found = tokenizer(list(texts), padding="max_length", truncation=True, max_length=longest, return_tensors="pt")
    return {name: found[name] for name in ("input_ids", "attention_mask")}


def encoder_recipe(
    encoder: str | os.PathLike[str],
    inputs: Mapping[str, Tensor],
    labels: Tensor,
    *,
    masked: bool,
    rate: float,
    epochs: int,
    batch_size: int = 32,
    replicas: int = 1,
    seed: int = 0,
) -> TrainingRecipe:
    """Return how an encoder with an output layer is trained: AdamW, a rate that falls to zero.

    Args:
        encoder: a folder or a name on the hub.
        inputs: tokens of the rows.
        labels: of the rows.
        masked: train masked adapters in the frozen encoder; else fine-tune all of it without masks.
        rate: at the start.
        epochs: passes over the rows.
        batch_size: rows of a batch.
        replicas: masked parts in one training.
        seed: of the masks.
    """
    steps = epochs * -(-len(labels) // batch_size)
    build = partial(masked_encoder, encoder, seed=seed, replicas=replicas) if masked else partial(classifier, encoder)
    return TrainingRecipe(
        build,
        inputs,
        labels,
        optimizer=partial(torch.optim.AdamW, lr=rate, weight_decay=0.0),
        schedule=partial(torch.optim.lr_scheduler.LinearLR, start_factor=1.0, end_factor=0.0, total_iters=steps),
        epochs=epochs,
        batch_size=batch_size,
    )


def classifier(encoder: str | os.PathLike[str]) -> Any:
    """Return the encoder with a new output layer for two classes, drawn from torch's present seed."""
    from transformers import AutoModelForSequenceClassification

    return AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=2)


def masked_encoder(encoder: str | os.PathLike[str], *, seed: int, replicas: int = 1) -> nn.Module:
    """Return the same with masked adapters in all blocks and a masked input of the output layer."""
    return turnover.wrap(classifier(encoder), adapters=ADAPTER, seed=seed, replicas=replicas)
