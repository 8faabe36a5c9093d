"""From a row of a subset, a concatenation or a Hugging Face data set down to its row in the root.

`datasets` is never imported: its data sets are known by their methods.
"""

import warnings
from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import index as as_int
from typing import Any, Protocol

import numpy as np
from torch.utils.data import ChainDataset, ConcatDataset, Subset

from turnover.errors import BatchError, TurnOverWarning

from .rows import Array, is_mapping, is_sequence


def is_hugging_face(data: Any) -> bool:
    """Tell whether this is a `datasets.Dataset`."""
    return hasattr(data, "_indices") and hasattr(data, "column_names") and hasattr(data, "__len__")


def is_hugging_face_stream(data: Any) -> bool:
    """Tell whether this is a `datasets.IterableDataset`."""
    has_all = all(hasattr(data, name) for name in ("column_names", "features", "map", "__iter__"))
    return has_all and not hasattr(data, "__len__")


def is_splits(data: Any) -> bool:
    """Tell whether this is a dict of Hugging Face data sets."""
    if not is_mapping(data) or not data:
        return False
    splits = list(data.values())
    return all(map(is_hugging_face, splits)) or all(map(is_hugging_face_stream, splits))


def table_rows(data: Any) -> tuple[Hashable, Array, int]:
    """Return a key of the Arrow table below, the row in it of every row, and its length at least.

    `shuffle`, `filter`, `sort`, `train_test_split` and most `select` keep the table and put a mapping of indices before
    it. `select` of a range cuts the table itself; Arrow knows where.
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
        starts = [int(args[0] if args else given["offset"]) for name, args, given in steps if name == "slice"]
        return ("file", str(table.path)), sum(starts)
    chunks: list[Any] = table.column(0).chunks if table.num_columns else []
    # Where the data lie in memory is the same for all cuts of one table.
    addresses = [next((int(part.address) for part in chunk.buffers() if part is not None), None) for chunk in chunks]
    if not chunks or addresses[0] is None:
        return ("table", id(table)), 0
    if len(chunks) == 1 and not hasattr(table, "blocks"):
        return ("memory", addresses[0]), int(chunks[0].offset)
    if chunks[0].offset:
        warnings.warn(
            "this Hugging Face data set was cut out of a concatenated one, and where cannot be told: its ids count "
            "from its own first row. Give ids first, then select: with_instance_ids(data).select(...).",
            TurnOverWarning,
            stacklevel=2,
        )
    pieces = tuple((address, int(one.offset), len(one)) for address, one in zip(addresses, chunks, strict=True))
    return ("pieces", pieces), 0


class _Node(Protocol):
    def locate(self, index: Any) -> tuple[Hashable, Any]: ...  # a root and the row in it


@dataclass(frozen=True)
class _Root:
    key: Hashable
    data: Any

    def locate(self, index: Any) -> tuple[Hashable, Any]:
        try:
            row = as_int(index)
        except TypeError:  # the key is not a number
            return self.key, index
        return self.key, row if row >= 0 else row + len(self.data)


@dataclass(frozen=True)
class _Table:
    key: Hashable
    rows: Array

    def locate(self, index: Any) -> tuple[Hashable, Any]:
        return self.key, int(self.rows[as_int(index)])


@dataclass(frozen=True)
class _Subset:
    indices: Sequence[Any]
    inner: _Node

    def locate(self, index: Any) -> tuple[Hashable, Any]:
        return self.inner.locate(self.indices[index])


@dataclass(frozen=True)
class _Concat:
    ends: list[int]
    members: list[_Node]

    def locate(self, index: Any) -> tuple[Hashable, Any]:
        index = as_int(index)
        if index < 0:
            index += self.ends[-1]
        member = bisect_right(self.ends, index)
        return self.members[member].locate(index - (self.ends[member - 1] if member else 0))


class RootRows:
    """Row numbers in the root data sets of a map-style data set.

    Every distinct root object has an offset, the length of the distinct roots met before it, so that a row keeps its
    number when another member of a concatenation is subsetted.
    """

    def __init__(self, data: Any) -> None:
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
        raise BatchError(
            f"the data set is read by the key {name!r}, which is not a row number. Name the column that holds the id: "
            'with_instance_ids(data, id="column").'
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
    if isinstance(data, Subset):
        yield from leaves(data.dataset)  # pyright: ignore[reportUnknownMemberType]
    elif isinstance(data, ConcatDataset | ChainDataset):
        members: Any = data.datasets  # pyright: ignore
        for member in members if is_sequence(members) else ():
            yield from leaves(member)
    else:
        yield data


def _walk(data: Any, lengths: dict[Hashable, int]) -> _Node:
    if isinstance(data, Subset):
        return _Subset(data.indices, _walk(data.dataset, lengths))  # pyright: ignore[reportUnknownMemberType]
    if isinstance(data, ConcatDataset):
        members: Any = data.datasets  # pyright: ignore
        return _Concat(data.cumulative_sizes, [_walk(member, lengths) for member in members])
    if is_hugging_face(data):
        key, rows, extent = table_rows(data)
        lengths[key] = max(extent, lengths.get(key, 0))
        return _Table(key, rows)
    lengths[id(data)] = len(data) if hasattr(data, "__len__") else 0
    return _Root(id(data), data)
