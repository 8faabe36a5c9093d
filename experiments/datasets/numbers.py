"""Digits and sentences as numbers, in one shape for all comparisons: training rows and held-out rows with labels."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .digits import load_digits
from .minilm import text_features
from .sst2 import load_sst2

Rows = tuple[Tensor, np.ndarray, Tensor, np.ndarray]
"""Training inputs and labels, held-out inputs and labels."""


def digit_rows(rows: int) -> Rows:
    """Return the first digits for training and all others held out."""
    found = load_digits()
    x = torch.from_numpy(found.pixels)
    return x[:rows], found.labels[:rows], x[rows:], found.labels[rows:]


def sst2_rows(rows: int, cache: Path) -> Rows:
    """Return features of the first sentences for training and of the dev set held out, by the spread of the former.

    Args:
        rows: for training.
        cache: folder for the features.
    """
    train, dev = load_sst2("train", rows=rows), load_sst2("dev")
    x, held = text_features(train.texts, cache=cache), text_features(dev.texts, cache=cache)
    mean, spread = x.mean(0), x.std(0)
    return (x - mean) / spread, train.labels, (held - mean) / spread, dev.labels
