"""The forms of rows and batches: how an id is attached to each and taken off again, and what a row contains."""

import copy
import dataclasses
from collections import UserDict, namedtuple
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
import torch
from torch import Tensor

from turnover.errors import BatchError, InstanceIdError, MissingIdError
from turnover.layers import tensor_bytes

Array = np.ndarray[Any, Any]

INSTANCE_ID = "instance_id"
"""The key, field or attribute under which named rows and batches carry their id."""

_GIVE = "Give every example an id first: turnover.with_instance_ids(data)."
_DEEPEST = 8  # a row may refer to itself; nobody nests an example deeper than this


def is_mapping(row: object) -> TypeGuard[Mapping[Any, Any]]:
    """Tell whether items are found by key: dict, UserDict, BatchEncoding."""
    return isinstance(row, Mapping)


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


class NumberedRow(NamedTuple):
    """A row beside its id, before anything is attached: what a user's collate_fn must not see."""

    row: Any
    instance_id: Any


def attach(row: Any, number: Any, *, replace: bool = False) -> Any:
    """Return the row or batch with its id attached by its form; the argument is left as it was.

    Tuples and lists get one more last item, mappings the key "instance_id", namedtuples a last field and dataclasses an
    attribute of that name; anything else becomes `(row, number)`. With `replace`, an "instance_id" that is there
    already, the user's own id column, is overwritten.
    """
    if type(row) is tuple:  # by far the most rows
        return (*cast(tuple[Any, ...], row), number)
    if not replace and _has_id(row):
        raise InstanceIdError(
            f"a {type(row).__name__} already has {INSTANCE_ID!r}, so the data were given ids before. Use them as they "
            f"are; if it is a column of your own, say so: with_instance_ids(data, id={INSTANCE_ID!r})."
        )
    if is_mapping(row):
        clone = _open_copy(row)
        clone[INSTANCE_ID] = number
        return clone
    if is_namedtuple(row):
        if INSTANCE_ID in row._fields:
            return row._replace(**{INSTANCE_ID: number})
        return _make_with_field(type(row), (*row, number))
    if is_sequence(row):
        return [*row, number] if isinstance(row, list) else (*row, number)
    if is_dataclass(row):
        clone = copy.copy(row)
        try:
            object.__setattr__(clone, INSTANCE_ID, number)  # frozen classes too
        except AttributeError:
            raise BatchError(
                f"dataclass {type(row).__name__} cannot take the attribute {INSTANCE_ID!r}, because it has slots. Add "
                f"a field to it: {INSTANCE_ID}: int | None = None."
            ) from None
        return clone
    return (row, number)


def split_ids(batch: Any) -> tuple[Any, Tensor]:
    """Return the batch without its ids, and the ids as an int64 tensor: the inverse of attaching.

    A pair `(x, ids)` gives `((x,), ids)`: whether x was bare or in a tuple of one cannot be told. Missing ids raise
    `MissingIdError`; what cannot be ids, such as floats, `InstanceIdError`.
    """
    kind: Any = batch.__class__
    if is_sequence(batch) and not is_namedtuple(batch):
        last = batch[-1] if batch else None
        if not is_array(last):
            ending = f"ends in {type(last).__name__}" if batch else "is empty"
            raise MissingIdError(
                f"the batch {ending}; its last item must be the ids, integers in one dimension. {_GIVE}"
            )
        try:
            return batch[:-1], _as_ids(last, "the last item of the batch")
        except InstanceIdError as error:
            raise MissingIdError(f"{error} {_GIVE}") from None
    if not _has_id(batch):
        known = list(batch) if is_mapping(batch) else list(getattr(batch, "_fields", ()))
        having = f"no {INSTANCE_ID!r}, only {', '.join(map(repr, known))}" if known else f"no {INSTANCE_ID!r}"
        raise MissingIdError(f"the batch, a {kind.__name__}, has {having}. {_GIVE}")
    if is_mapping(batch):
        clone = _open_copy(batch)
        return clone, _as_ids(clone.pop(INSTANCE_ID), f"{INSTANCE_ID!r} of the batch")
    ids = _as_ids(getattr(batch, INSTANCE_ID), f"{INSTANCE_ID!r} of {kind.__name__}")
    if is_namedtuple(batch):
        rest = [getattr(batch, field) for field in batch._fields if field != INSTANCE_ID]
        return _without_field(kind)(*rest), ids
    clone = copy.copy(batch)
    if any(field.name == INSTANCE_ID for field in dataclasses.fields(batch)):
        object.__setattr__(clone, INSTANCE_ID, None)
    else:
        object.__delattr__(clone, INSTANCE_ID)
    return clone, ids


def _has_id(row: Any) -> bool:
    if is_mapping(row):
        return INSTANCE_ID in row
    if is_namedtuple(row):
        return INSTANCE_ID in row._fields
    # A declared field that is None is how a class with slots makes room for the id.
    return is_dataclass(row) and getattr(row, INSTANCE_ID, None) is not None


def _open_copy(row: Mapping[Any, Any]) -> Any:
    if isinstance(row, dict | UserDict):
        with suppress(AttributeError, LookupError, RuntimeError, TypeError, ValueError):  # other keys are not taken
            clone = copy.copy(row)
            clone[INSTANCE_ID] = clone.get(INSTANCE_ID)
            return clone
    return dict(row)


@cache
def _with_field(kind: Any) -> Any:
    """Return a namedtuple class with `instance_id` behind the fields of `kind`, derived from it.

    The new fields stand before the user's class, so that their machinery wins and the user's methods remain. Made at
    run time, it can only be pickled by naming the class it came from.
    """

    def reduce(self: Any) -> Any:
        return _make_with_field, (kind, tuple(self))

    fields = namedtuple(kind.__name__, (*kind._fields, INSTANCE_ID))  # pyright: ignore
    body: dict[str, Any] = {
        "__slots__": (),
        "__doc__": f"{kind.__name__} with its instance id.",
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__reduce__": reduce,
        "_without_id": kind,
    }
    return type(kind.__name__, (fields, kind), body)


def _make_with_field(kind: Any, values: tuple[Any, ...]) -> Any:
    return _with_field(kind)(*values)


@cache
def _without_field(kind: Any) -> Any:
    if hasattr(kind, "_without_id"):
        return kind._without_id
    return namedtuple(kind.__name__, [name for name in kind._fields if name != INSTANCE_ID])  # pyright: ignore


def _as_ids(value: Any, what: str) -> Tensor:
    """Return the ids of a batch as an int64 tensor of one dimension."""
    if isinstance(value, Tensor):
        whole = not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
        ids, kind, shape = value, str(value.dtype).removeprefix("torch."), tuple(value.shape)
    else:
        array: Array = np.asarray(value)
        whole, kind, shape = array.dtype.kind in "iu", str(array.dtype), array.shape
        ids = array.astype(np.int64) if whole else array
    if not whole or len(shape) != 1:
        raise InstanceIdError(f"{what} must be integers in one dimension, and is {kind} of shape {shape}.")
    return torch.as_tensor(ids, dtype=torch.int64)


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
    if isinstance(value, Tensor):
        state.update(f"{value.dtype}{tuple(value.shape)}".encode())
        if value.layout == torch.strided and not value.is_nested and not value.is_quantized:
            state.update(tensor_bytes(value))
    elif _is_numpy(value) and not value.dtype.hasobject:
        state.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, bytes | bytearray | memoryview):
        state.update(value)
    elif isinstance(value, str | int | float | complex | None):
        state.update(repr(value).encode("utf-8", "backslashreplace"))
    elif depth < _DEEPEST:
        for part in _parts(value):
            _feed(state, part, depth + 1)
    state.update(b")")


def _is_numpy(value: object) -> TypeGuard[Any]:
    return isinstance(value, np.ndarray | np.generic)


def _parts(value: Any) -> list[Any]:
    if is_mapping(value):
        return [part for item in value.items() for part in item]
    if is_sequence(value):
        return list(value)
    if is_array(value):  # of objects
        return [value.tolist()]
    if is_dataclass(value):
        return [getattr(value, part.name, None) for part in dataclasses.fields(value)]
    return [value.tobytes()] if hasattr(value, "tobytes") else []  # PIL images
