"""Ids for Hugging Face data sets, which get a column; `datasets` is never imported."""

from collections.abc import Hashable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from turnover.errors import InstanceIdError

from .arrow_rows import is_hugging_face, table_rows
from .batches import INSTANCE_ID
from .columns import Column, Seen, SplitRow
from .content import digest
from .forms import Array
from .iterable import REMEMBERED_IDS
from .order import OrderGuard, refuse_several_workers

_SPLIT_BITS = 40  # streams have no length, so each split gets room for a trillion rows


def give_table(data: Any, column: Column | None) -> Any:
    """Return a `datasets.Dataset` with the column "instance_id"."""
    return give_splits({None: data}, column)[None]


def give_stream(data: Any, column: Column | None, *, first: int = 0) -> Any:
    """Return a `datasets.IterableDataset` that adds "instance_id" to every row as it is read."""
    _check_columns(data, column)
    features: Any = data.features
    if features is not None:
        # `map` would forget the features. Their own class rebuilds them, so nothing is imported.
        kind: Any = features.__class__
        number = {"dtype": "int64", "_type": "Value"}
        features = kind.from_dict({**features.to_dict(), INSTANCE_ID: number})
    # Rows are read before they are formatted, and formatted once, as they would be without ids.
    format_type = getattr(getattr(data, "_formatting", None), "format_type", None)
    plain = data if format_type is None else data.with_format(None)
    given = plain.map(_StreamIds(column, first), with_indices=True, features=features)
    return given if format_type is None else given.with_format(format_type)


def give_splits(data: Mapping[Any, Any], column: Column | None) -> Any:
    """Return the dict of data sets with ids that two splits share only if they share the row."""
    for split in data.values():
        _check_columns(split, column)
    if not all(map(is_hugging_face, data.values())):
        given = {
            name: give_stream(split, column, first=place << _SPLIT_BITS)
            for place, (name, split) in enumerate(data.items())
        }
    elif column is None:
        given = _number(data)
    else:
        seen = Seen(column)
        given = {name: _add(split, _claim(split, name, seen)) for name, split in data.items()}
    kind: Any = type(data)
    return kind(given)


class _StreamIds:
    """The function that a stream is mapped with; it lives on from epoch to epoch."""

    def __init__(self, column: Column | None, first: int) -> None:
        self._first = first
        self._order = OrderGuard()
        self._seen = None if column is None else Seen(column, limit=REMEMBERED_IDS)

    def __call__(self, row: Mapping[str, Any], number: int) -> dict[str, int]:
        if self._seen is None:
            refuse_several_workers()
            self._order.check(number, row)
            return {INSTANCE_ID: self._first + number}
        column = self._seen.column
        if number == 0:  # a new epoch may come in another order
            self._seen = Seen(column, limit=REMEMBERED_IDS)
        token = digest(row) if column.kind == "id" else None
        return {INSTANCE_ID: self._seen.claim(column.value(row, number), number, token)}


def _number(data: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the splits with root row numbers, distinct tables one behind the other."""
    places = {name: table_rows(split) for name, split in data.items()}
    lengths: dict[Hashable, int] = {}
    for key, _, extent in places.values():
        lengths[key] = max(extent, lengths.get(key, 0))
    offsets = dict(zip(lengths, accumulate(lengths.values(), initial=0), strict=False))
    return {name: _add(data[name], rows + offsets[key]) for name, (key, rows, _) in places.items()}


def _claim(data: Any, split: Any, seen: Seen) -> Array:
    """Return the ids of a user's column, all of them checked."""
    key, rows, _ = table_rows(data)
    values: list[Any] = data.with_format(None)[seen.column.name][:]
    ids = [
        seen.claim(value, row if split is None else SplitRow(row, split), (key, row))
        for value, row in zip(values, rows.tolist(), strict=True)
    ]
    return np.array(ids, dtype=np.int64)


def _add(data: Any, ids: Array) -> Any:
    if INSTANCE_ID not in data.column_names:
        return data.add_column(INSTANCE_ID, ids)
    # The user's own id column, as asked for. It goes last: a table without columns has no rows.
    own = f"{INSTANCE_ID} as given"
    return data.rename_column(INSTANCE_ID, own).add_column(INSTANCE_ID, ids).remove_columns(own)


def _check_columns(data: Any, column: Column | None) -> None:
    names: list[str] | None = data.column_names
    if names is None:  # a stream that does not know its columns yet
        return
    if column is not None and column.name not in names:
        raise column.missing(names, "the data set")
    if INSTANCE_ID in names and (column is None or column.name != INSTANCE_ID):
        raise InstanceIdError(
            f"the data set already has a column {INSTANCE_ID!r}, so it was given ids before. Use "
            "it as it is; if the column is your own, say so: "
            f"with_instance_ids(data, id={INSTANCE_ID!r})."
        )
