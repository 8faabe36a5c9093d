"""Rows that are counted must stay where they are: digests of their content, and guards of a stream's order."""

import dataclasses
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from turnover.errors import DataSetError, DuplicateIdError
from turnover.layers import tensor_bytes

from .forms import Array, is_dataclass, is_mapping, is_sequence

_DEEPEST = 8  # a row may refer to itself; nobody nests an example deeper than this


def digest(row: object) -> int:
    """Return 64 bits that are equal for equal content, in any process.

    Objects of unknown types count by their type alone: to miss a change is better than to see one where there is none.
    """
    state = blake2b(digest_size=8)
    _feed(state, row, 0)
    return int.from_bytes(state.digest(), "little")


def _feed(state: Any, value: Any, depth: int) -> None:
    kind: Any = value.__class__
    state.update(f"{kind.__module__}.{kind.__qualname__}(".encode())
    if depth > _DEEPEST:
        return
    if isinstance(value, Tensor):
        _feed_tensor(state, value.detach())
    elif isinstance(value, np.ndarray | np.generic):
        _feed_array(state, np.asarray(value), depth)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, bytes | bytearray | memoryview):
        state.update(value)
    elif isinstance(value, str | int | float | complex | None):
        state.update(repr(value).encode("utf-8", "backslashreplace"))
    else:
        for part in _parts(value):
            _feed(state, part, depth + 1)
    state.update(b")")


def _parts(value: Any) -> list[Any]:
    if is_mapping(value):
        return [part for item in value.items() for part in item]
    if is_sequence(value):
        return list(value)
    if is_dataclass(value):
        return [getattr(value, part.name, None) for part in dataclasses.fields(value)]
    if hasattr(value, "tobytes"):  # PIL images
        return [value.tobytes()]
    return []


def _feed_array(state: Any, array: Array, depth: int) -> None:
    state.update(f"{array.dtype}{array.shape}".encode())
    if array.dtype.hasobject:
        _feed(state, array.tolist(), depth + 1)
    else:
        state.update(array.tobytes())


def _feed_tensor(state: Any, tensor: Tensor) -> None:
    state.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    if tensor.layout == torch.strided and not tensor.is_nested and not tensor.is_quantized:
        state.update(tensor_bytes(tensor))


_GUARDED_ROWS = 1024
"""Rows whose content is remembered, to notice that a stream changes its order."""


class OrderGuard:
    """Remembers what the first rows of a stream held, and rejects other rows in their place."""

    def __init__(self) -> None:
        """Remember nothing yet."""
        self._digests: dict[int, int] = {}

    def check(self, number: int, row: object) -> None:
        """Raise if this row number held something else in an earlier epoch."""
        if number >= _GUARDED_ROWS:
            return
        now = digest(row)
        if self._digests.setdefault(number, now) != now:
            raise DuplicateIdError(
                f"row {number} is not what it was in an earlier epoch, so two different rows would "
                'have one id. Your iterable changes its order: give id="column", or shuffle after '
                "with_instance_ids. If it changes its rows at random (augmentation), do that "
                "after with_instance_ids, too."
            )


def reject_several_workers(count: int | None = None) -> None:
    """Raise if rows would be counted in several worker processes, each from 0; None: those of this loader."""
    if count is None:
        worker = get_worker_info()
        count = 0 if worker is None else worker.num_workers
    if count > 1:
        raise DataSetError(
            f"rows of an iterable cannot be counted by {count} workers: each starts from 0. Name "
            'the column that holds the id: with_instance_ids(data, id="column"), or use one worker.'
        )
