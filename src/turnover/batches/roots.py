"""From a row of a subset or concatenation down to its row in the root data set."""

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import index as as_int
from typing import Any, Protocol, TypeGuard

from torch.utils.data import ChainDataset, ConcatDataset, Subset

from turnover.errors import DataSetError

from .arrow_rows import is_hugging_face, table_rows
from .forms import Array, is_sequence

Place = tuple[Hashable, Any]
"""A root and the row in it."""


class _Node(Protocol):
    def locate(self, index: Any) -> Place: ...


@dataclass(frozen=True)
class _Root:
    key: Hashable
    data: Any

    def locate(self, index: Any) -> Place:
        try:
            row = as_int(index)
        except TypeError:  # a key that is no number
            return self.key, index
        return self.key, row if row >= 0 else row + len(self.data)


@dataclass(frozen=True)
class _Table:
    """A Hugging Face data set: rows of an Arrow table."""

    key: Hashable
    rows: Array

    def locate(self, index: Any) -> Place:
        return self.key, int(self.rows[as_int(index)])


@dataclass(frozen=True)
class _Subset:
    indices: Sequence[Any]
    inner: _Node

    def locate(self, index: Any) -> Place:
        return self.inner.locate(self.indices[index])


@dataclass(frozen=True)
class _Concat:
    ends: list[int]
    members: list[_Node]

    def locate(self, index: Any) -> Place:
        index = as_int(index)
        if index < 0:
            index += self.ends[-1]
        member = bisect_right(self.ends, index)
        return self.members[member].locate(index - (self.ends[member - 1] if member else 0))


class RootRows:
    """Row numbers in the root data sets of a map-style data set.

    Every distinct root object has an offset, the length of the distinct roots met before it, so
    that a row keeps its number when another member of a concatenation is subsetted.
    """

    def __init__(self, data: Any) -> None:
        """Walk down to the roots; rows are looked up when they are asked for."""
        lengths: dict[Hashable, int] = {}
        self._node = _walk(data, lengths)
        self._offsets: dict[Hashable, int] = {}
        total = 0
        for key, length in lengths.items():
            self._offsets[key] = total
            total += length

    @property
    def numbering(self) -> Hashable:
        """What two walks have in common if and only if their numbers mean the same rows."""
        return tuple(self._offsets.items())

    def number(self, index: Any) -> int:
        """Return the row number in the root for one index of the data set."""
        name = self.name(index)
        if isinstance(name, int):
            return name
        raise DataSetError(
            f"the data set is read by the key {name!r}, which is no row number. "
            'Name the column that holds the id: with_instance_ids(data, id="column").'
        )

    def name(self, index: Any) -> Any:
        """Return what identifies the root row: its number, or its key if that is no number."""
        key, row = self._node.locate(index)
        return self._offsets[key] + row if isinstance(row, int) else row


def leaves(data: Any) -> Iterator[Any]:
    """Yield the data sets below all subsets, concatenations and chains, from left to right."""
    if _is_subset(data):
        yield from leaves(data.dataset)
    elif isinstance(data, ConcatDataset | ChainDataset):
        members: Any = data.datasets  # pyright: ignore
        for member in members if is_sequence(members) else ():
            yield from leaves(member)
    else:
        yield data


def _walk(data: Any, lengths: dict[Hashable, int]) -> _Node:
    if _is_subset(data):
        return _Subset(data.indices, _walk(data.dataset, lengths))
    if _is_concat(data):
        return _Concat(data.cumulative_sizes, [_walk(part, lengths) for part in data.datasets])
    if is_hugging_face(data):
        key, rows, extent = table_rows(data)
        lengths[key] = max(extent, lengths.get(key, 0))
        return _Table(key, rows)
    lengths[id(data)] = len(data) if hasattr(data, "__len__") else 0
    return _Root(id(data), data)


def _is_subset(data: object) -> TypeGuard["Subset[Any]"]:
    return isinstance(data, Subset)


def _is_concat(data: object) -> TypeGuard["ConcatDataset[Any]"]:
    return isinstance(data, ConcatDataset)
