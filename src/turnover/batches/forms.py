"""The forms that rows and batches come in, and how an id is attached to each and taken off again."""

import copy
import dataclasses
from collections import namedtuple
from collections.abc import Mapping, MutableMapping
from functools import cache
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np
import torch
from torch import Tensor

from turnover.errors import DataSetError, InstanceIdError, MissingIdError

Array = np.ndarray[Any, Any]


def is_mapping(row: object) -> TypeGuard[Mapping[Any, Any]]:
    """Tell whether items are found by key: dict, UserDict, BatchEncoding."""
    return isinstance(row, Mapping)


def _is_mutable_mapping(row: object) -> TypeGuard[MutableMapping[Any, Any]]:
    """Tell whether this is a mapping that takes new keys."""
    return isinstance(row, MutableMapping)


def _is_namedtuple(row: Any) -> TypeGuard[Any]:
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


INSTANCE_ID = "instance_id"
"""The key, field or attribute under which named rows and batches carry their id."""

_GIVE = "Give every example an id first: turnover.with_instance_ids(data)."


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
    if is_mapping(row):
        return _attach_key(row, number, replace)
    if _is_namedtuple(row):
        return _attach_field(row, number, replace)
    if is_sequence(row):
        return [*row, number] if isinstance(row, list) else (*row, number)
    if is_dataclass(row):
        return _attach_attribute(row, number, replace)
    return (row, number)


def split_ids(batch: Any) -> tuple[Any, Tensor]:
    """Return the batch without its ids, and the ids as an int64 tensor: the inverse of attaching.

    A pair `(x, ids)` gives `((x,), ids)`: whether x was bare or in a tuple of one cannot be told. Missing ids raise
    `MissingIdError`; what cannot be ids, such as floats, `InstanceIdError`.
    """
    if is_mapping(batch):
        return _split_key(batch)
    if _is_namedtuple(batch):
        return _split_field(batch)
    if is_sequence(batch):
        return _split_last(batch)
    if is_dataclass(batch):
        return _split_attribute(batch)
    raise MissingIdError(f"a batch of type {type(batch).__name__} carries no instance ids. {_GIVE}")


# Mappings


def _attach_key(row: Mapping[Any, Any], number: Any, replace: bool) -> Mapping[Any, Any]:
    if INSTANCE_ID in row and not replace:
        raise _already(row)
    clone = _copy(row)
    if clone is None:
        return {**row, INSTANCE_ID: number}
    clone[INSTANCE_ID] = number
    return clone


def _split_key(batch: Mapping[Any, Any]) -> tuple[Any, Tensor]:
    if INSTANCE_ID not in batch:
        keys = ", ".join(repr(key) for key in batch)
        raise MissingIdError(f"the batch has no {INSTANCE_ID!r}: its keys are {keys}. {_GIVE}")
    ids = _as_ids(batch[INSTANCE_ID], f"{INSTANCE_ID!r} of the batch")
    clone = _copy(batch)
    if clone is None:
        return {key: value for key, value in batch.items() if key != INSTANCE_ID}, ids
    del clone[INSTANCE_ID]
    return clone, ids


def _copy(row: object) -> MutableMapping[Any, Any] | None:
    """Return an independent shallow copy of the same type, or None when a plain dict must serve."""
    if type(row) is dict or not _is_mutable_mapping(row):
        return None
    had, before, probe = INSTANCE_ID in row, row.get(INSTANCE_ID), object()
    try:
        clone = copy.copy(row)
        clone[INSTANCE_ID] = probe
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None  # a type that takes no other keys, or is locked
    if row.get(INSTANCE_ID) is not probe:
        return clone
    if had:  # the copy shares its storage with the original: put that back
        row[INSTANCE_ID] = before
    else:
        del row[INSTANCE_ID]
    return None


# Namedtuples


@cache
def _with_field(kind: Any) -> Any:
    """Return a namedtuple class with `instance_id` behind the fields of `kind`, derived from it.

    The new fields stand before the user's class, so that their machinery wins and the user's
    methods remain. Made at run time, it can only be pickled by naming the class it came from.
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
    """Return the class of the batch without ids: the user's, unless that declares the id itself."""
    if hasattr(kind, "_without_id"):
        return kind._without_id
    fields: list[str] = [name for name in kind._fields if name != INSTANCE_ID]
    return namedtuple(kind.__name__, fields)  # pyright: ignore


def _attach_field(row: Any, number: Any, replace: bool) -> Any:
    if INSTANCE_ID not in row._fields:
        return _make_with_field(type(row), (*row, number))
    if not replace:
        raise _already(row)
    return row._replace(**{INSTANCE_ID: number})


def _split_field(batch: Any) -> tuple[Any, Tensor]:
    if INSTANCE_ID not in batch._fields:
        fields = ", ".join(batch._fields)
        raise MissingIdError(f"the batch has no field {INSTANCE_ID!r}: it has {fields}. {_GIVE}")
    ids = _as_ids(getattr(batch, INSTANCE_ID), f"field {INSTANCE_ID!r} of the batch")
    rest = [getattr(batch, name) for name in batch._fields if name != INSTANCE_ID]
    return _without_field(batch.__class__)(*rest), ids


# Dataclasses


def _attach_attribute(row: Any, number: Any, replace: bool) -> Any:
    # A declared field that is None is how a class with slots makes room for the id.
    if getattr(row, INSTANCE_ID, None) is not None and not replace:
        raise _already(row)
    clone = copy.copy(row)
    try:
        object.__setattr__(clone, INSTANCE_ID, number)  # frozen classes too
    except AttributeError:
        raise DataSetError(
            f"dataclass {type(row).__name__} cannot take the attribute {INSTANCE_ID!r}, because it "
            f"has slots. Add a field to it: {INSTANCE_ID}: int | None = None."
        ) from None
    return clone


def _split_attribute(batch: Any) -> tuple[Any, Tensor]:
    value = getattr(batch, INSTANCE_ID, None)
    if value is None:
        raise MissingIdError(f"{type(batch).__name__} has no {INSTANCE_ID!r}. {_GIVE}")
    ids = _as_ids(value, f"{INSTANCE_ID!r} of {type(batch).__name__}")
    clone = copy.copy(batch)
    if any(field.name == INSTANCE_ID for field in dataclasses.fields(batch)):
        object.__setattr__(clone, INSTANCE_ID, None)
    else:
        object.__delattr__(clone, INSTANCE_ID)
    return clone, ids


# Tuples and lists


def _split_last(batch: tuple[Any, ...] | list[Any]) -> tuple[Any, Tensor]:
    last = batch[-1] if batch else None
    if not is_array(last):
        ending = f"ends in {type(last).__name__}" if batch else "is empty"
        raise MissingIdError(f"the batch {ending}; its last item must be the ids, integers in one dimension. {_GIVE}")
    try:
        ids = _as_ids(last, "the last item of the batch")
    except InstanceIdError as error:
        raise MissingIdError(f"{error} {_GIVE}") from None
    return batch[:-1], ids


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


def _already(row: object) -> InstanceIdError:
    return InstanceIdError(
        f"a {type(row).__name__} already has {INSTANCE_ID!r}, so the data were given ids before. "
        "Use them as they are; if it is a column of your own, say so: "
        f"with_instance_ids(data, id={INSTANCE_ID!r})."
    )
