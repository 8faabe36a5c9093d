"""Digits, sentences and images as numbers, in one shape: training rows and held-out rows with labels."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .cifar10 import load_cifar10
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
    """Return features of the first sentences for training and of the dev set held out, standardized by the former.

    Args:
        rows: for training.
        cache: folder for the features.
    """
    train, dev = load_sst2("train", rows=rows), load_sst2("dev")
    x, held = text_features(train.texts, cache=cache), text_features(dev.texts, cache=cache)
    x, held = standardized(x, held)
    return x, train.labels, held, dev.labels


def cifar10_rows(rows: int) -> Rows:
    """Return the first images for training and all test images held out, averaged to 16 × 16 pixels."""
    train, test = load_cifar10("train", rows=rows), load_cifar10("test")
    x, held = standardized(*(halved(torch.from_numpy(images.pixels)) for images in (train, test)))
    return x, train.labels, held, test.labels


def halved(pixels: Tensor) -> Tensor:
    """Return float images [n, 3, 16, 16] of bytes [n, 32, 32, 3]: every four pixels become their mean."""
    return functional.avg_pool2d(pixels.permute(0, 3, 1, 2).float().contiguous(), 2)


def standardized(train: Tensor, *others: Tensor) -> list[Tensor]:
    """Return features [n, width] or images [n, channels, ...] in units of the training rows' mean and deviation."""
    over = [dim for dim in range(train.dim()) if dim != 1]
    mean, deviation = train.mean(over, keepdim=True), train.std(over, keepdim=True)
    return [(values - mean) / deviation for values in (train, *others)]
