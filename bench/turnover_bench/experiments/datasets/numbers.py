"""Digits, sentences and images as numbers, in one shape: training rows and held-out rows with labels."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .images import load_cifar10, load_digits
from .texts import load_sst2, load_yahoo, text_features

Rows = tuple[Tensor, np.ndarray, Tensor, np.ndarray]
"""Training inputs and labels, held-out inputs and labels."""


def digit_rows(rows: int) -> Rows:
    """Return the first digits for training and all others held out."""
    found = load_digits()
    x = torch.from_numpy(found.pixels)
    return x[:rows], found.labels[:rows], x[rows:], found.labels[rows:]


def sst2_rows(rows: int, cache: Path, *, held_out: int | None = None) -> Rows:
    """Return features of sentences for training and of the dev set held out, standardized by the former."""
    train, dev = load_sst2("train", rows=rows), load_sst2("dev", rows=held_out)
    x, held = text_features(train.texts, cache=cache), text_features(dev.texts, cache=cache)
    x, held = standardized(x, held)
    return x, train.labels, held, dev.labels


def yahoo_rows(rows: int, cache: Path) -> Rows:
    """Return features of questions with answers for training and of all others held out, standardized by the former."""
    found = load_yahoo()
    x, held = standardized(*text_features(found.texts, cache=cache).split((rows, len(found.texts) - rows)))
    return x, found.labels[:rows], held, found.labels[rows:]


def cifar10_rows(rows: int, *, held_out: int | None = None, halved: bool = True) -> Rows:
    """Return the first images for training and test images held out, standardized by the former.

    Halved, every four pixels become their mean, so that an image has 16 × 16 of them.
    """
    train, test = load_cifar10("train", rows=rows), load_cifar10("test", rows=held_out)
    pixels = [torch.from_numpy(images.pixels).permute(0, 3, 1, 2).float().contiguous() for images in (train, test)]
    x, held = standardized(*(functional.avg_pool2d(images, 2) if halved else images for images in pixels))
    return x, train.labels, held, test.labels


def standardized(train: Tensor, *others: Tensor) -> list[Tensor]:
    """Return features [n, width] or images [n, channels, ...] in units of the training rows' mean and deviation."""
    over = [dim for dim in range(train.dim()) if dim != 1]
    mean, deviation = train.mean(over, keepdim=True), train.std(over, keepdim=True)
    return [(values - mean) / deviation for values in (train, *others)]
