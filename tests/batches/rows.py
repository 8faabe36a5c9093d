"""Rows and data sets of several forms, for the tests of batches."""

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset


class Point(NamedTuple):
    x: object
    y: object = 0

    def total(self):
        return self.x + self.y


@dataclass
class Example:
    x: object
    tags: list = field(default_factory=list)


class Stream(IterableDataset):
    """Its rows in order, or the part of them that the worker was given."""

    def __init__(self, rows):
        self.rows = rows
        self.start = 0
        self.step = 1
        self.shuffled = False

    def __iter__(self):
        rows = self.rows[self.start :: self.step]
        return iter(random.sample(rows, len(rows)) if self.shuffled else rows)


class ByColumn(Dataset):
    """Gives ready batches: all columns of many rows, or one row."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {"uid": torch.arange(10, 16)[index], "x": torch.arange(6)[index]}


def numbered(size=10):
    return TensorDataset(torch.arange(size) * 10, torch.arange(size) % 2)
