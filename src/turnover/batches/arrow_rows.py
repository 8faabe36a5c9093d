"""Which row of its Arrow table a row of a Hugging Face data set is.

`datasets` is never imported: its data sets are known by their methods.
"""

import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np

from turnover.errors import TurnOverWarning

from .forms import Array, is_mapping


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
