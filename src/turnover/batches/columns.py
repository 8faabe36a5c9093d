"""Ids of the user's own: where they stand in a row, and how a value becomes an id."""

import dataclasses
import difflib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

import numpy as np
import torch
from torch import Tensor

from turnover.errors import InstanceIdError, MissingIdError
from turnover.ids import FIRST_RESERVED_ID, collision, instance_id_of

from .rows import is_array, is_dataclass, is_mapping, is_namedtuple, is_sequence


def null_ids(count: int) -> Tensor:
    """Return ids that no training ever saw."""
    return torch.arange(FIRST_RESERVED_ID, FIRST_RESERVED_ID + count)


def names_of(values: Iterable[object]) -> dict[int, str]:
    """Return the mapping from instance id back to string for the values of a column.

    Hugging Face data sets cannot carry the mapping themselves: call this on the column of strings.

    Args:
        values: strings; repeated ones are fine, other values are left out.

    Raises:
        InstanceIdError: two different strings have the same hash.

    Example:
        >>> names_of(["anna", "ben", "anna"])[instance_id_of("ben")]
        'ben'
    """
    names: dict[int, str] = {}
    for value in values:
        if isinstance(value, str):
            _keep_name(names, instance_id_of(value), str(value))
    return names


@dataclass(frozen=True)
class Column:
    """A column of the user's own and what it means: one instance per row, or one per group of rows."""

    name: str | int
    kind: Literal["id", "groups"]

    def __str__(self) -> str:
        """Write the column as the user gave it."""
        return f"{self.kind}={self.name!r}"

    def value(self, row: Any, where: object) -> Any:
        """Return what a row, or a batch with one value per row, holds in this column; messages call it `where`."""
        if is_mapping(row):
            if self.name in row:
                return row[self.name]
            names = list(row)
        elif is_sequence(row) and isinstance(self.name, int):
            if -len(row) <= self.name < len(row):
                return row[self.name]
            raise MissingIdError(
                f"{_describe(where)} has {len(row)} items, so {self} finds nothing. Give a position from 0 to "
                f"{len(row) - 1}."
            )
        elif is_namedtuple(row) or is_dataclass(row):
            names = list(row._fields) if is_namedtuple(row) else [part.name for part in dataclasses.fields(row)]
            if self.name in names:
                return getattr(row, str(self.name))
        else:
            raise MissingIdError(
                f"{_describe(where)} is a {type(row).__name__} without names, so {self} finds nothing. Give the "
                f"position of the id in tuple rows, such as {self.kind}=0, or let the data set return tuples or dicts."
            )
        raise self.missing(names, _describe(where))

    def missing(self, names: list[Any], who: str) -> MissingIdError:
        """Return the error for a column that is not among `names`, with the nearest of them."""
        near = difflib.get_close_matches(str(self.name), [str(name) for name in names], cutoff=0.5)
        hint = f"Did you mean {near[0]!r}?" if near else f"Give the name of one as {self.kind}=."
        listed = ", ".join(repr(name) for name in names) or "none at all"
        return MissingIdError(f"{who} has no column {self.name!r}, only {listed}. {hint}")


def choose_column(id: object, groups: object) -> Column | None:
    """Return the column that the user asked for, or None: rows are numbered."""
    if id is not None and groups is not None:
        raise InstanceIdError(
            f"id={id!r} and groups={groups!r} were both given. With id= every row is an instance of its own and two "
            "rows with one id are an error; with groups= all rows of a group are one instance (an annotator, a source, "
            "a user). Give one of the two."
        )
    name, kind = (groups, "groups") if id is None else (id, "id")
    if name is None:
        return None
    if isinstance(name, bool) or not isinstance(name, str | int):
        raise InstanceIdError(
            f"{kind}={name!r} is of type {type(name).__name__}. Give the name of a column, or its position in tuple "
            "rows."
        )
    return Column(name, kind)


class Described(str):
    """What messages call a row where a number does not tell it: `row 3 of split 'test'`."""

    __slots__ = ()


def _describe(where: object) -> str:
    return where if isinstance(where, Described) else f"row {where!r}"


@dataclass
class Seen:
    """The ids met so far: which row claimed each, and the strings behind hashed ids."""

    column: Column
    names: dict[int, str] = field(default_factory=dict[int, str])  # filled as rows are read, over several epochs
    limit: int | None = None  # ids remembered at most, to bound the memory of endless streams
    _rows: dict[int, tuple[object, Hashable]] = field(default_factory=dict[int, tuple[object, Hashable]])

    def claim(self, value: object, where: object, token: Hashable = None) -> int:
        """Return the id for a value; raise if it cannot be one or belongs to another row.

        Messages call the row `where`. The token is equal for two readings of one row; None: not checked.
        """
        number = _number_of(value, self.column, where)
        if isinstance(value, str):
            _keep_name(self.names, number, str(value))
        elif number in self.names:
            raise collision(number, self.names[number], number)
        if self.column.kind == "groups" or token is None:
            return number
        first = self._rows.get(number)
        if first is None:
            if self.limit is None or len(self._rows) < self.limit:
                self._rows[number] = (where, token)
        elif first[1] != token:
            name = self.column.name
            raise InstanceIdError(
                f"{_describe(first[0])} and {_describe(where)} are different rows with one id, {_shown(value)} in "
                f"column {name!r}. Every row needs an id of its own; if these rows are one instance by design (an "
                f"annotator, a source, a user), give groups={name!r} instead of id=."
            )
        return number


def _number_of(value: Any, column: Column, where: object) -> int:
    if is_array(value, dims=0):
        value = value.item()
    if isinstance(value, str) and value:
        return instance_id_of(value)
    at = f"{_describe(where)} has {_shown(value)} in column {column.name!r}"
    if value is None or isinstance(value, str) or _is_nan(value):
        raise MissingIdError(f"{at}: the id is missing. Fill it in, or leave the row out.")
    if not _is_integer(value):
        raise InstanceIdError(
            f"{at}, of type {type(value).__name__}. An id is an integer or a string: convert the column, for example "
            "with str()."
        )
    number = int(value)
    if number < 0:
        raise InstanceIdError(f"{at}, which is negative. An id is an integer from 0 on.")
    if number >= FIRST_RESERVED_ID:
        raise InstanceIdError(
            f"{at}. Ids from 2**62 ({FIRST_RESERVED_ID}) on are reserved for instances that were never trained: give "
            "the column as strings, which are hashed to 62 bits."
        )
    return number


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(value != value)


def _keep_name(names: dict[int, str], number: int, string: str) -> None:
    if names.setdefault(number, string) != string:
        raise collision(string, names[number], number)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
