"""The one batch type: inputs, target and ids of some rows, from data in any form; outputs and losses of rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    default_collate,  # pyright: ignore[reportUnknownVariableType]
)

from turnover.errors import BatchError, MissingIdError
from turnover.ids import Name, instance_id_of
from turnover.layers import TARGET_NAMES, map_tensors, tensors_in

from .datasets import carries_ids, names_in
from .rows import INSTANCE_ID, is_mapping, is_sequence, split_ids

Loss = Callable[[Any, Any], Tensor]
IGNORED = -100
"""Tokens with this target do not count, as for torch and Hugging Face."""
_GIVE = "Give tensors, a dict of tensors, a Dataset or a DataLoader."


@dataclass(frozen=True)
class Batch:
    """Rows as a model call takes them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Any  # taken out of the inputs; None: there is none
    ids: Tensor | None  # instance ids [rows]; None: the rows carry none
    rows: int
    names: tuple[Name, ...] | None = None  # what the user calls the rows [rows]; None: by their ids

    def logits(self, model: Callable[..., Any]) -> Any:
        """Return what a model makes of the inputs, as `logits_of` gives it."""
        return logits_of(model(*self.args, **self.kwargs))

    def to(self, device: torch.device) -> "Batch":
        """Return the batch with every tensor on a device; the ids stay where they are."""
        moved = map_tensors((self.args, self.kwargs, self.target), lambda tensor: tensor.to(device))
        return replace(self, args=moved[0], kwargs=moved[1], target=moved[2])

    def row(self, index: int) -> "Batch":
        """Return one row, still as a batch."""
        return self.part(index, index + 1)

    def part(self, start: int, stop: int) -> "Batch":
        """Return the rows from `start` to `stop`: of everything that has as many rows as the batch."""
        stop = min(stop, self.rows)

        def cut(value: Any) -> Any:
            if hasattr(value, "shape"):
                return value[start:stop] if len(value.shape) and value.shape[0] == self.rows else value
            if is_mapping(value):
                return {name: cut(item) for name, item in value.items()}
            if not is_sequence(value):
                return value
            if isinstance(value, list) and len(value) == self.rows and all(isinstance(item, str) for item in value):
                return value[start:stop]
            items = [cut(item) for item in value]
            kind: Any = type(value)
            return kind(*items) if hasattr(value, "_fields") else kind(items)

        ids = None if self.ids is None else self.ids[start:stop]
        names = None if self.names is None else self.names[start:stop]
        return Batch(cut(self.args), cut(self.kwargs), cut(self.target), ids, stop - start, names)

    @property
    def can_be_split(self) -> bool:
        """Whether all inputs have rows; another one could have as many as a part by chance, and be cut again."""
        return all(tensor.dim() > 0 and tensor.shape[0] == self.rows for tensor in tensors_in((self.args, self.kwargs)))


def open_batch(batch: Any, *, targets: str | None = None, with_ids: bool | None = None) -> Batch:
    """Return a batch taken apart: the last item before the ids, or the key `labels` or `label`, is the target.

    A batch is a tensor, a tuple (x, y), a dict whose target may be named by `targets`, or one of them with ids. With
    `with_ids` None, ids are wherever something can be ids; the key "instance_id" always is. Strings whose hashes are
    the ids, those of the user's own column, are names and no input.
    """
    ids: Tensor | None = None
    names: tuple[str, ...] | None = None
    if with_ids or (is_mapping(batch) and INSTANCE_ID in batch):
        batch, ids = split_ids(batch)
    elif with_ids is None:
        with suppress(MissingIdError):
            batch, ids = split_ids(batch)
    if ids is not None:
        batch, names = _take_names(batch, ids)
    args, kwargs, target = (), {}, None
    if is_mapping(batch):
        kwargs = dict(batch)
        name = next((name for name in (TARGET_NAMES if targets is None else (targets,)) if name in kwargs), None)
        if targets is not None and name is None:
            raise BatchError(
                f"the batch has no {targets!r}; it has {', '.join(map(repr, kwargs))}. Name its target: targets=..."
            )
        target = kwargs.pop(name) if name else None
    elif targets is not None:
        raise BatchError(
            f"targets={targets!r} names an entry of dict batches, and this batch is a {type(batch).__name__}. Leave "
            "targets out: the last item of a tuple is the target; or give a dict of what the model takes."
        )
    elif is_sequence(batch):
        args, target = (tuple(batch[:-1]), batch[-1]) if len(batch) > 1 else (tuple(batch), None)
    else:
        args = (batch,)
    return Batch(args, kwargs, target, ids, _rows((args, kwargs), target, ids), names)


def _take_names(batch: Any, ids: Tensor) -> tuple[Any, tuple[str, ...] | None]:
    """Return a batch without the strings whose hashes its ids are, and these strings; None: it has none."""
    items = batch.items() if is_mapping(batch) else enumerate(batch) if is_sequence(batch) else ()
    for place, values in items:
        if not is_sequence(values) or len(values) != len(ids) or not all(isinstance(one, str) for one in values):
            continue
        if [instance_id_of(one) for one in values] == [int(number) for number in ids]:
            if is_mapping(batch):
                return {key: value for key, value in batch.items() if key != place}, tuple(values)
            return [item for at, item in enumerate(batch) if at != place], tuple(values)
    return batch, None


def _rows(inputs: Any, target: Any, ids: Tensor | None) -> int:
    lengths = [tensor.shape[0] for tensor in tensors_in(inputs) if tensor.dim() > 0]
    if not lengths:
        raise BatchError(f"no tensor with rows was found among the inputs. {_GIVE}")
    for name, value in (("targets", target), ("instance ids", ids)):
        if isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] not in lengths:
            raise BatchError(f"{value.shape[0]} {name}, but the inputs have {lengths[0]} rows. Give one for every row.")
    # Not every input has rows, a temperature for example; every target has.
    return target.shape[0] if isinstance(target, Tensor) and target.dim() > 0 else lengths[0]


def batches_of(
    data: Any, *, targets: str | None = None, training_rows: bool = False, batch_size: int = 64
) -> Iterator[Batch]:
    """Yield batches of a data set, loader, tensors, tuple or dict.

    A tuple of training rows that is given by hand ends with ids, (x, y, ids), any other with the target.
    """
    named = names_in(data)
    for batch in _opened(data, targets, training_rows, batch_size):
        if named is not None and batch.ids is not None and batch.names is None:
            ids = [int(number) for number in batch.ids]
            names = named(ids)
            batch = batch if names == ids else replace(batch, names=tuple(names))
        yield batch


def _opened(data: Any, targets: str | None, training_rows: bool, batch_size: int) -> Iterator[Batch]:
    if isinstance(data, DataLoader):
        with_ids = carries_ids(data)
        for batch in cast("Iterable[Any]", data):
            yield open_batch(batch, targets=targets, with_ids=with_ids)
    elif (isinstance(data, Tensor | Mapping | tuple) and not isinstance(data, Dataset)) or _is_batch(data):
        with_ids = training_rows and not isinstance(data, Tensor | Mapping)
        whole = open_batch(data, targets=targets, with_ids=with_ids)
        size = batch_size if training_rows and whole.can_be_split else max(1, whole.rows)
        for start in range(0, whole.rows, size):
            yield whole.part(start, start + size)
    elif isinstance(data, Dataset) or hasattr(data, "__getitem__") or isinstance(data, Iterable):
        with_ids = carries_ids(data)
        for rows in _row_lists(data, batch_size):
            for batch in _collated([_with_tensors(row) for row in rows]):
                yield open_batch(batch, targets=targets, with_ids=with_ids)
    else:
        raise BatchError(f"a {type(data).__name__} holds no rows. {_GIVE}")


def _is_batch(data: Any) -> bool:
    if not isinstance(data, list):
        return False
    items = cast("list[Any]", data)
    if not all(isinstance(item, Tensor) and item.dim() > 0 for item in items):
        return False
    return len({item.shape for item in items}) > 1 and len({item.shape[0] for item in items}) == 1


def _row_lists(data: Any, size: int) -> Iterator[list[Any]]:
    # An IterableDataset has a __getitem__ too, which only raises.
    if hasattr(data, "__getitem__") and not issubclass(type(data), IterableDataset):
        many = getattr(data, "__getitems__", None)  # as DataLoaders ask for rows
        for start in range(0, len(data), size):
            indices = list(range(start, min(start + size, len(data))))
            yield [data[index] for index in indices] if many is None else many(indices)
    else:
        rows: Iterator[Any] = iter(cast("Iterable[Any]", data))
        while waiting := list(islice(rows, size)):
            yield waiting


def _with_tensors(row: Any) -> Any:
    """Return a dict row with lists of numbers as tensors: torch would collate them position by position."""
    if not is_mapping(row):
        return row

    def as_tensor(value: Any) -> Any:
        try:
            return torch.tensor(value)
        except (TypeError, ValueError, RuntimeError):
            return value

    return {name: as_tensor(value) if isinstance(value, list) else value for name, value in row.items()}


def _collated(rows: list[Any]) -> list[Any]:
    """Return rows as one batch, or as batches of one where they differ in shape."""
    try:
        return [default_collate(rows)]
    except (RuntimeError, TypeError):
        try:
            return [default_collate([row]) for row in rows]
        except TypeError as error:
            raise BatchError(
                f"rows of type {type(rows[0]).__name__} cannot be put together: {error}. {_GIVE}"
            ) from error


# Outputs and losses


def logits_of(outputs: Any) -> Any:
    """Return the tensor that a loss is made of: `.logits`, "logits", the first of a tuple, or the output itself."""
    if isinstance(outputs, Tensor):
        return outputs
    if hasattr(outputs, "logits"):
        return outputs.logits
    if is_mapping(outputs) and "logits" in outputs:
        return outputs["logits"]
    return outputs[0] if is_sequence(outputs) and outputs else cast(Any, outputs)


def default_loss(target: Any) -> Loss:
    """Return cross-entropy for integer targets and squared error for floats, one value per row."""
    if not isinstance(target, Tensor):
        raise BatchError(f"targets are a {type(target).__name__}. Give a tensor, or a loss of your own: loss=...")
    return _squared_error if target.is_floating_point() else _cross_entropy


def per_row(values: Any, outputs: Tensor, targets: Any, *, name: str = "the loss") -> Tensor:
    """Return what a loss or measure of the user's own gave as one value per row, or say what is wrong with it.

    Tokens are averaged, without those that are ignored.
    """
    rows = len(outputs)
    shape = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
    if not isinstance(values, Tensor) or values.shape[:1] != (rows,):
        raise BatchError(
            f"{name} returned {shape} for {rows} rows, but one value per row is needed. With a loss of torch use "
            "reduction='none': nn.CrossEntropyLoss(reduction='none')."
        )
    if isinstance(targets, Tensor) and values.numel() > max(outputs.numel(), targets.numel()):
        raise BatchError(
            f"{name} returned {shape}, more values than there are outputs {list(outputs.shape)} or targets "
            f"{list(targets.shape)}: it compared every row with every target. Bring both to one shape in it."
        )
    # Tokens are known to be ignored only where each has a target of its own.
    if isinstance(targets, Tensor) and not targets.is_floating_point() and targets.shape == values.shape:
        return mean_over_tokens(values, targets)
    return values.flatten(1).mean(1) if values.dim() > 1 else values


def mean_over_tokens(values: Tensor, targets: Tensor) -> Tensor:
    """Return one value per row: the mean over its tokens, without those that are ignored."""
    if values.dim() == 1:
        return values
    counted = (targets != IGNORED).flatten(1)
    return values.flatten(1).masked_fill(~counted, 0).sum(1) / counted.sum(1).clamp(min=1)


def _squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    # [rows, 1] minus [rows] would be [rows, rows]: every row against every target.
    if outputs.dim() == targets.dim() + 1 and outputs.shape[-1] == 1:
        outputs = outputs.squeeze(-1)
    elif targets.dim() == outputs.dim() + 1 and targets.shape[-1] == 1:
        targets = targets.squeeze(-1)
    if outputs.shape != targets.shape:
        raise BatchError(
            f"outputs have shape {list(outputs.shape)} and targets {list(targets.shape)}; for the squared error both "
            "need the same. Give targets like the outputs, or a loss of your own: loss=..."
        )
    errors = (outputs - targets).square()
    return errors.flatten(1).mean(1) if errors.dim() > 1 else errors


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    # Classes are the last dimension here and dimension 1 for torch.
    losses = functional.cross_entropy(
        outputs.movedim(-1, 1), targets.to(torch.int64), reduction="none", ignore_index=IGNORED
    )
    return mean_over_tokens(losses, targets)
