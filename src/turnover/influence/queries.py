"""Queries in any form, as a list of single rows ready for the model."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from turnover.errors import InfluenceError
from turnover.ids.batches import split_ids
from turnover.ids.known import carries_ids

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
        ids = None if self.ids is None else self.ids[index : index + 1]
        cut = _Cut(self.rows, index)
        return Batch(cut(self.args), cut(self.kwargs), cut(self.target), ids, 1)

    def to(self, device: torch.device) -> "Batch":
        """Return the batch with every tensor on a device; the ids stay where they are."""
        return Batch(
            _move(self.args, device), _move(self.kwargs, device), _move(self.target, device), self.ids, self.rows
        )


class _Cut:
    """Cuts one row out of everything that has as many rows as the batch."""

    def __init__(self, rows: int, index: int) -> None:
        self._rows, self._index = rows, index

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            whole = value.dim() > 0 and value.shape[0] == self._rows
            return value[self._index : self._index + 1] if whole else value
        if isinstance(value, Mapping):
            return {name: self(item) for name, item in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(self(item) for item in value)
        return value


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {name: _move(item, device) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_move(item, device) for item in value)
    return value


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
    return Batch(args, kwargs, target, ids, _rows(args, kwargs))


def _rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.dim() > 0:
            return value.shape[0]
    raise InfluenceError(
        "no tensor with rows was found among the inputs. Give tensors, a dict of tensors, a Dataset or a DataLoader."
    )


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
            yield open_batch(batch, targets=targets, with_ids=with_ids)
    elif isinstance(data, Tensor | Mapping | tuple) and not isinstance(data, Dataset):
        yield open_batch(
            data, targets=targets, with_ids=training_rows if isinstance(data, tuple) else _has_id_key(data)
        )
    elif isinstance(data, Dataset | IterableDataset) or hasattr(data, "__getitem__") or isinstance(data, Iterable):
        yield from _rows_in_batches(data, targets, batch_size)
    else:
        raise InfluenceError(
            f"a {type(data).__name__} holds no rows. Give tensors, a dict of tensors, a Dataset or a DataLoader."
        )


def _rows_in_batches(data: Any, targets: str | None, batch_size: int) -> Iterator[Batch]:
    """Yield rows of a data set; batches of one where rows differ in shape."""
    with_ids = carries_ids(data)
    rows = (data[index] for index in range(len(data))) if hasattr(data, "__getitem__") else iter(data)
    waiting: list[Any] = []
    for row in rows:
        waiting.append(row)
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
