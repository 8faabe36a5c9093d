"""Which training rows and which queries a compared method is asked about, and checksums of what scores depend on."""

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError
from turnover.layers.as_ids import as_ids
from turnover.training import TrainingRecipe

_SHOWN = 5


def ids_of(recipe: TrainingRecipe) -> np.ndarray:
    """Return the instance id of every row, int64: the recipe's, else row numbers."""
    return np.arange(len(recipe)) if recipe.ids is None else as_ids(recipe.ids).cpu().numpy()


def rows_of(recipe: TrainingRecipe, ids: Any) -> Tensor:
    """Return the rows of instance ids in the order asked for, all rows where several share an id; None: all rows."""
    if ids is None:
        return torch.arange(len(recipe))
    known, asked = ids_of(recipe), as_ids(ids).cpu().numpy()
    if not len(asked) or len(np.unique(asked)) < len(asked):
        raise BaselineError("ids= is empty or has an id twice. Give each id to score once, or None for all rows.")
    unknown = np.setdiff1d(asked, known)
    if len(unknown):
        raise BaselineError(
            f"{len(unknown)} of {len(asked)} ids are not among the recipe's rows: {unknown[:_SHOWN].tolist()}. "
            "Give ids of rows that were trained on."
        )
    order = np.argsort(known, kind="stable")
    first, last = (np.searchsorted(known, asked, side=side, sorter=order) for side in ("left", "right"))
    return torch.from_numpy(np.concatenate([order[start:stop] for start, stop in zip(first, last, strict=True)]))


def recipe_of(queries: Any, recipe: TrainingRecipe) -> TrainingRecipe:
    """Return a recipe whose rows are the queries, for their losses."""
    if not isinstance(queries, tuple | list) or len(queries) != 2 or not isinstance(queries[1], Tensor):
        raise BaselineError(
            f"queries are a {type(queries).__name__}. Give a tuple (inputs, targets): inputs in the form of the "
            "recipe's, targets as a tensor."
        )
    inputs, targets = queries
    if not len(targets):
        raise BaselineError("there are no queries: the targets are empty. Give one or more.")
    return dataclasses.replace(recipe, inputs=inputs, targets=targets, ids=None)


def digest_of(*values: Any) -> str:
    """Return a checksum of tensors, nested in tuples and dicts."""
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


def _tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _tensors(value[key], f"{name}.{key}")
    elif isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from _tensors(item, f"{name}.{place}")
