"""The forms that a row or a batch comes in."""

import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any, TypeGuard

import numpy as np
from torch import Tensor

Array = np.ndarray[Any, Any]


def is_mapping(row: object) -> TypeGuard[Mapping[Any, Any]]:
    """Tell whether items are found by key: dict, UserDict, BatchEncoding."""
    return isinstance(row, Mapping)


def is_mutable_mapping(row: object) -> TypeGuard[MutableMapping[Any, Any]]:
    """Tell whether this is a mapping that takes new keys."""
    return isinstance(row, MutableMapping)


def is_namedtuple(row: Any) -> TypeGuard[Any]:
    """Tell whether this is an instance of a namedtuple class."""
    return hasattr(row, "_fields") and isinstance(row, tuple)


def is_sequence(row: object) -> TypeGuard[tuple[Any, ...] | list[Any]]:
    """Tell whether this is a tuple or a list, of any kind."""
    return isinstance(row, tuple | list)


def is_dataclass(row: object) -> TypeGuard[Any]:
    """Tell whether this is an instance of a dataclass."""
    return dataclasses.is_dataclass(row) and not isinstance(row, type)


def is_array(value: object, dims: int | None = None) -> TypeGuard[Any]:
    """Tell whether this is a tensor or NumPy array, of so many dimensions if given."""
    return isinstance(value, Tensor | np.ndarray) and dims in (None, value.ndim)


def holds_many(value: object) -> bool:
    """Tell whether a value of a column is one for each row of a batch."""
    return is_sequence(value) or is_array(value, dims=1)
