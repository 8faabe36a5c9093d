"""What results of a recipe depend on, in plain data: ids of its rows, checksums of rows and weights, its settings."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.layers import as_ids

from .recipe import TrainingRecipe


def ids_of(recipe: TrainingRecipe) -> NDArray[np.int64]:
    """Return the instance id of every row: the recipe's, else row numbers."""
    return np.arange(len(recipe)) if recipe.ids is None else as_ids(recipe.ids).cpu().numpy()


def digest_of(*values: Any) -> str:
    """Return a checksum of tensors, nested in tuples and dicts.

    Example:
        >>> digest_of({"x": torch.ones(2)}) == digest_of({"x": torch.ones(2)}) != digest_of({"x": torch.zeros(2)})
        True
    """
    whole = hashlib.sha256()
    for name, tensor in _tensors(values):
        whole.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        # View as bytes: numpy has no bfloat16.
        whole.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def data_digest(recipe: TrainingRecipe) -> str:
    """Return a checksum of a recipe's rows."""
    return digest_of(recipe.inputs, recipe.targets, recipe.ids)


def weights_digest(model: nn.Module) -> str:
    """Return a checksum of a model's parameters and buffers."""
    return digest_of(dict(model.named_parameters()), dict(model.named_buffers()))


def described(recipe: TrainingRecipe) -> dict[str, Any]:
    """Return what can be told of a recipe, the same in every process; functions by name only."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # initial parameters count: a model may start from one checkpoint or another
        model = recipe.build()
        optimizer = recipe.optimizer(model.parameters())
    return {
        "model": hashlib.sha256(f"{plain_text(model)}\n{weights_digest(model)}".encode()).hexdigest(),
        "optimizer": plain_text(optimizer),
        "schedule": plain_text(recipe.schedule),
        "loss": plain_text(recipe.loss),
        "epochs": recipe.epochs,
        "batch_size": recipe.batch_size,
        "data": data_digest(recipe),
    }


def plain_text(value: Any) -> str:
    """Return the repr without addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _tensors(value[key], f"{name}.{key}")
    elif isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from _tensors(item, f"{name}.{place}")
