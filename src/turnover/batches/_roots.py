"""From a row of a subset, a concatenation or a Hugging Face data set down to its row in the root.

`datasets` is never imported: its data sets are known by their methods.
"""

import warnings
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import index as as_int
from typing import Any, Protocol, TypeGuard

import numpy as np
from torch.utils.data import ChainDataset, ConcatDataset, Subset

from turnover.errors import DataSetError, TurnOverWarning

from .forms import Array, is_mapping, is_sequence


def is_hugging_face(data: Any) -> bool:
    """Tell whether this is a `datasets.Dataset`."""
    return _has(data, "column_names", "add_column", "__len__", "_indices")


def is_hugging_face_stream(data: Any) -> bool:
    """Tell whether this is a `datasets.IterableDataset`."""
    return _has(data, "column_names", "features", "map", "__iter__") and not _has(data, "__len__")


def is_splits(data: Any) -> bool:
    """Tell whether this is a dict of Hugging Face data sets."""
    if not is_mapping(data) or not data:
        return False
    values = list(data.values())
    return all(map(is_hugging_face, values)) or all(map(is_hugging_face_stream, values))


def _has(data: Any, *names: str) -> bool:
    return all(hasattr(data, name) for name in names)


def table_rows(data: Any) -> tuple[Hashable, Array, int]:
    """Return a key of the table below, the row in it of every row, and its length at least.

    `shuffle`, `filter`, `sort`, `train_test_split` and most `select` keep the table and put a
    mapping of indices before it. `select` of a range cuts the table itself; Arrow knows where.
    """
    table: Any = data.data
    key, start = _identity(table)
    extent = start + int(table.num_rows)
    if data._indices is None:
        return key, np.arange(start, extent), extent
    mapping: Array = np.asarray(data._indices.column(0).to_numpy(), dtype=np.int64)
    return key, mapping + start, extent


def _identity(table: Any) -> tuple[Hashable, int]:
    """Return a key that all cuts of one table share, and the row at which this cut starts."""
    steps: list[Any] = list(getattr(table, "replays", None) or ())
    if hasattr(table, "path") and not any(step[0] == "filter" for step in steps):
        return ("file", str(table.path)), sum(_cut(step) for step in steps if step[0] == "slice")
    chunks: list[Any] = table.column(0).chunks if table.num_columns else []
    pieces = tuple((_address(chunk), int(chunk.offset), len(chunk)) for chunk in chunks)
    if not pieces or pieces[0][0] is None:
        return ("table", id(table)), 0
    if len(pieces) == 1 and not hasattr(table, "blocks"):
        return ("memory", pieces[0][0]), pieces[0][1]
    if pieces[0][1]:
        warnings.warn(
            "this Hugging Face data set was cut out of a concatenated one, and where cannot be "
            "told: its ids count from its own first row. Give ids first, then select: "
            "with_instance_ids(data).select(...).",
            TurnOverWarning,
            stacklevel=2,
        )
    return ("pieces", pieces), 0


def _cut(step: Any) -> int:
    """Return the start of a recorded `slice(start, length)`."""
    _, args, kwargs = step
    return int(args[0] if args else kwargs.get("offset", 0))


def _address(chunk: Any) -> int | None:
    """Return where the chunk's data lie in memory: the same for all cuts of one table."""
    return next((int(buffer.address) for buffer in chunk.buffers() if buffer is not None), None)


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
        except TypeError:  # the key is not a number
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
        self._offsets = offsets_of(lengths)

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
            f"the data set is read by the key {name!r}, which is not a row number. "
            'Name the column that holds the id: with_instance_ids(data, id="column").'
        )

    def name(self, index: Any) -> Any:
        """Return what identifies the root row: its number, or its key if that is not a number."""
        key, row = self._node.locate(index)
        return self._offsets[key] + row if isinstance(row, int) else row


def offsets_of(lengths: Mapping[Hashable, int]) -> dict[Hashable, int]:
    """Return the number of the first row of every root, where they stand one behind the other."""
    return dict(zip(lengths, accumulate(lengths.values(), initial=0), strict=False))


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
