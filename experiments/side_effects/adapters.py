"""Adapters in a frozen encoder on SST-2: its rows for any encoder, and the network with masks or without."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

import turnover
from experiments.datasets.sst2 import Sentences, load_sst2
from experiments.real_models.text import LONGEST, Rows, classifier, encoder_folder

UNITS = 64


def open_encoder(name: str | None, *, blocks: int | None, out: Path) -> str:
    """Return what transformers opens: a name on the hub, else MiniLM, else a tiny untrained encoder.

    Args:
        name: on the Hugging Face hub, or a folder; None: MiniLM.
        blocks: of the tiny encoder, which stands in a toy run for MiniLM.
        out: where the tiny encoder is written.
    """
    return name or str(encoder_folder(blocks, out))


def load_rows(
    split: Literal["train", "dev"], *, encoder: str, seed: int, start: int = 0, rows: int | None = None
) -> Rows:
    """Return tokenized sentences of SST-2, drawn at random.

    Args:
        split: "train" or "dev".
        encoder: whose tokens they are.
        seed: of the draw; rows of the same seed and another start are other rows.
        start: the first that is taken, in the order in which they are drawn.
        rows: how many; None: all.
    """
    found, stop = _drawn(split, seed), None if rows is None else start + rows
    tokens = _tokenizer(encoder)(found.texts[start:stop], max_length=LONGEST, truncation=True)
    return Rows(tokens["input_ids"], torch.from_numpy(found.labels[start:stop]))


@lru_cache(maxsize=3)
def _drawn(split: Literal["train", "dev"], seed: int) -> Sentences:
    """Return all sentences in the order in which they are drawn, read once."""
    return load_sst2(split, seed=seed)


@lru_cache(maxsize=1)
def _tokenizer(encoder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(encoder)


def adapter_network(encoder: str, *, masked: bool, seed: int) -> nn.Module:
    """Return a frozen encoder with adapters and a new output layer, both under masks or both without.

    Both start from the same weights, whichever is asked for.
    """
    wrapped = turnover.wrap(classifier(Path(encoder), seed), adapters=UNITS, seed=seed)
    return wrapped if masked else turnover.unwrap(wrapped)


def encoder_title(name: str | None, blocks: int | None) -> str:
    """Return what a page calls the encoder."""
    if name is not None:
        return name
    return "MiniLM" if blocks is None else f"An untrained encoder of {blocks} blocks"


def told_setting(setting: dict[str, Any]) -> str:
    """Return encoder and adapters of a configuration, for a page."""
    return f"{encoder_title(setting['encoder'], setting['blocks'])} with adapters of {UNITS} units"
