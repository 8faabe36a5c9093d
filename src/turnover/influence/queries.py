"""Queries in any form, as a list of single rows ready for the model."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from turnover.batches import carries_ids, split_ids
from turnover.errors import InfluenceError

TARGET_NAMES = ("labels", "label")


@dataclass(frozen=True)
class Batch:
    """Rows as a model call needs them: inputs, targets taken out, ids if they carry any."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Any
    ids: Tensor | None
    rows: int

    def row(self, index: int) -> "Batch":
        """Return one row, still as a batch."""
        return self.part(index, index + 1)

    @property
    def can_be_parted(self) -> bool:
        """Tell whether all inputs have rows; another one could have as many as a part by chance, and be cut again."""
        tensors = [value for value in tree_leaves((self.args, self.kwargs)) if isinstance(value, Tensor)]
        return all(value.dim() > 0 and value.shape[0] == self.rows for value in tensors)

    def part(self, start: int, stop: int) -> "Batch":
        """Return the rows from `start` to `stop`."""
        stop = min(stop, self.rows)
        ids = None if self.ids is None else self.ids[start:stop]
        cut = _Cut(self.rows, start, stop)
        return Batch(cut(self.args), cut(self.kwargs), cut(self.target), ids, stop - start)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch with every tensor on a device; the ids stay where they are."""
        return Batch(
            _move(self.args, device), _move(self.kwargs, device), _move(self.target, device), self.ids, self.rows
        )


class _Cut:
    """Cuts rows out of everything that has as many rows as the batch."""

    def __init__(self, rows: int, start: int, stop: int) -> None:
        self._rows, self._wanted = rows, slice(start, stop)

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Tensor | np.ndarray):
            return value[self._wanted] if value.ndim > 0 and value.shape[0] == self._rows else value
        if isinstance(value, Mapping):
            return {name: self(item) for name, item in value.items()}
        if isinstance(value, list) and len(value) == self._rows and all(isinstance(item, str) for item in value):
            return value[self._wanted]
        if isinstance(value, tuple | list):
            return like(value, [self(item) for item in value])
        return value


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {name: _move(item, device) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return like(value, [_move(item, device) for item in value])
    return value


def like(value: tuple[Any, ...] | list[Any], items: list[Any]) -> Any:
    """Return items in a tuple, list or namedtuple of the same type as `value`."""
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


def open_batch(batch: Any, *, targets: str | None, with_ids: bool) -> Batch:
    """Return a batch taken apart.

    Args:
        batch: tensor, tuple (x, y), dict, or one of them with ids.
        targets: name of the target in a dict; None: "labels", else "label".
        with_ids: whether the batch carries instance ids.
    """
    ids: Tensor | None = None
    if with_ids:
        batch, ids = split_ids(batch)
    args, kwargs, target = (), {}, None
    if isinstance(batch, Mapping):
        kwargs = dict(batch)
        names = TARGET_NAMES if targets is None else (targets,)
        found = next((name for name in names if name in kwargs), None)
        if targets is not None and found is None:
            raise InfluenceError(
                f"the batch has no {targets!r}; it has {', '.join(map(repr, kwargs))}. Name its target: targets=..."
            )
        target = kwargs.pop(found) if found else None
    elif isinstance(batch, tuple | list) and len(batch) > 1:
        *inputs, target = batch
        args = tuple(inputs)
    elif isinstance(batch, tuple | list):
        args = tuple(batch)
    else:
        args = (batch,)
    return Batch(args, kwargs, target, ids, _rows((args, kwargs), target, ids))


def _rows(inputs: Any, target: Any, ids: Tensor | None) -> int:
    """Return how many rows there are; inputs, target and ids must agree."""
    lengths = [value.shape[0] for value in tree_leaves(inputs) if isinstance(value, Tensor) and value.dim() > 0]
    if not lengths:
        raise InfluenceError(
            "no tensor with rows was found among the inputs. Give tensors, a dict of tensors, a Dataset or a "
            "DataLoader."
        )
    for name, value in (("targets", target), ("instance ids", ids)):
        if isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] not in lengths:
            raise InfluenceError(
                f"{value.shape[0]} {name}, but the inputs have {lengths[0]} rows. Give one for every row."
            )
    # Not every input has rows, a temperature for example; every target has.
    return target.shape[0] if isinstance(target, Tensor) and target.dim() > 0 else lengths[0]


def batches_of(data: Any, *, targets: str | None, training_rows: bool, batch_size: int = 64) -> Iterator[Batch]:
    """Yield batches of a data set, loader, tensors, tuple or dict.

    Args:
        data: the rows.
        targets: name of the target in a dict.
        training_rows: a tuple given by hand ends with ids, (x, y, ids); else with the target.
        batch_size: rows at a time where the data is not batched yet.
    """
    if isinstance(data, DataLoader):
        with_ids = carries_ids(data)
        for batch in data:
            yield open_batch(batch, targets=targets, with_ids=with_ids or _has_id_key(batch))
    elif (isinstance(data, Tensor | Mapping | tuple) and not isinstance(data, Dataset)) or _is_batch(data):
        with_ids = _has_id_key(data) if isinstance(data, Tensor | Mapping) else training_rows
        whole = open_batch(data, targets=targets, with_ids=with_ids)
        size = batch_size if training_rows and whole.can_be_parted else max(1, whole.rows)
        for start in range(0, whole.rows, size):
            yield whole.part(start, start + size)
    elif isinstance(data, Dataset | IterableDataset) or hasattr(data, "__getitem__") or isinstance(data, Iterable):
        yield from _rows_in_batches(data, targets, batch_size)
    else:
        raise InfluenceError(
            f"a {type(data).__name__} holds no rows. Give tensors, a dict of tensors, a Dataset or a DataLoader."
        )


def _rows_in_batches(data: Any, targets: str | None, batch_size: int) -> Iterator[Batch]:
    """Yield rows of a data set; batches of one where rows differ in shape."""
    with_ids = carries_ids(data)
    # An IterableDataset has a __getitem__ too, which only raises.
    if hasattr(data, "__getitem__") and not isinstance(data, IterableDataset):
        rows = (data[index] for index in range(len(data)))
    else:
        rows = iter(data)
    waiting: list[Any] = []
    for row in rows:
        waiting.append(_with_tensors(row))
        if len(waiting) == batch_size:
            yield from _collated(waiting, targets, with_ids)
            waiting = []
    if waiting:
        yield from _collated(waiting, targets, with_ids)


def _collated(rows: list[Any], targets: str | None, with_ids: bool) -> Iterator[Batch]:
    try:
        batch = default_collate(rows)
    except (RuntimeError, TypeError):
        for row in rows:
            yield open_batch(default_collate([row]), targets=targets, with_ids=with_ids or _has_id_key(row))
        return
    yield open_batch(batch, targets=targets, with_ids=with_ids or _has_id_key(batch))


def _is_batch(data: Any) -> bool:
    """Tell whether a list is a batch, as loaders make them, and no list of rows: other shapes, as many rows."""
    if not isinstance(data, list) or not all(isinstance(item, Tensor) and item.dim() > 0 for item in data):
        return False
    return len({item.shape for item in data}) > 1 and len({item.shape[0] for item in data}) == 1


def _with_tensors(row: Any) -> Any:
    """Return a dict row with lists of numbers as tensors: torch would collate them position by position."""
    if not isinstance(row, Mapping):
        return row
    return {name: _as_tensor(value) if isinstance(value, list) else value for name, value in row.items()}


def _as_tensor(value: list[Any]) -> Any:
    try:
        return torch.tensor(value)
    except (TypeError, ValueError, RuntimeError):
        return value


def _has_id_key(row: Any) -> bool:
    return isinstance(row, Mapping) and "instance_id" in row


def single_queries(data: Any, *, targets: str | None, device: torch.device) -> list[Batch]:
    """Return every query as a batch of one on a device, or raise where there is none."""
    queries = [
        batch.row(index).to(device)
        for batch in batches_of(data, targets=targets, training_rows=False)
        for index in range(batch.rows)
    ]
    if not queries:
        raise InfluenceError("there are no queries: the data is empty. Give at least one row.")
    return queries
