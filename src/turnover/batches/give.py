"""`with_instance_ids`: ids for anything that holds examples; Hugging Face data sets get a column."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, overload

import numpy as np
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from turnover.errors import DataSetError, InstanceIdError

from ._content import OrderGuard, digest, reject_several_workers
from ._roots import is_hugging_face, is_hugging_face_stream, is_splits, leaves, offsets_of, table_rows
from .columns import Column, Seen, SplitRow, choose_column
from .datasets import REMEMBERED_IDS, Carrier, InstanceIdDataset, InstanceIdIterable
from .forms import INSTANCE_ID, Array, attach, is_array
from .loaders import loader_with_ids

_GIVE = (
    "Give a data set (with __len__ and __getitem__), an iterable that can be read again, a DataLoader or a Hugging "
    "Face data set."
)
_SPLIT_BITS = 40  # streams have no length, so each split gets room for a trillion rows


@overload
def with_instance_ids(
    data: DataLoader[Any], *, id: str | int | None = None, groups: str | int | None = None
) -> DataLoader[Any]: ...
@overload
def with_instance_ids(  # pyright: ignore[reportOverlappingOverload] - an iterable data set is a data set, too
    data: IterableDataset[Any], *, id: str | int | None = None, groups: str | int | None = None
) -> InstanceIdIterable: ...
@overload
def with_instance_ids(
    data: Dataset[Any] | Sequence[Any] | Tensor, *, id: str | int | None = None, groups: str | int | None = None
) -> InstanceIdDataset: ...
@overload
def with_instance_ids(data: Any, *, id: str | int | None = None, groups: str | int | None = None) -> Any: ...
def with_instance_ids(data: Any, *, id: str | int | None = None, groups: str | int | None = None) -> Any:
    """Return the same data with a stable instance id on every row.

    `(x, y)` becomes `(x, y, id)`, a dict gets the key "instance_id", a namedtuple a last field and
    a dataclass an attribute of that name; a bare row becomes `(row, id)`. A DataLoader keeps all
    its settings, and its batches get an int64 tensor of ids in the same way.

    The id is the row number in the root data set: it survives shuffling, `Subset`, `random_split`,
    `ConcatDataset` and the `select` and `shuffle` of Hugging Face, whether ids are given before or
    after. A data set class of your own that wraps another is a root of its own. Rows of an iterable are
    counted from 0: one that changes its order, or gives every process another part, needs `id`. No id
    from 2**62 on is given out.

    Args:
        data: a map-style or iterable data set, a list or tensor of rows, a `DataLoader`, or a
            Hugging Face data set (also streaming, also a dict of splits).
        id: your own column with one id for every row: a key, a field or the position in a tuple.
            Integers are used as they are; strings are hashed to 62 bits for the masks, and results have
            the strings. They are not handed to the model. Two different rows with one id are an error
            when the second is read.
        groups: your own column whose equal values make one instance: an annotator, a source.

    Returns:
        A data set or loader of the kind given, with what was given as `.dataset`; for Hugging Face
        the data set with a new column; keep that of strings in it, shown or not, for their names.

    Raises:
        DataSetError: the data cannot be numbered as they are, such as a generator.
        InstanceIdError: an id is unusable, missing or reserved, or there are ids already.

    Example:
        >>> from torch.utils.data import Subset
        >>> rows = [("a", 0), ("b", 1), ("c", 0)]
        >>> with_instance_ids(Subset(rows, [2, 0]))[0]
        ('c', 0, 2)
    """
    column = choose_column(id, groups)
    if isinstance(data, DataLoader):
        return loader_with_ids(data, column)
    if is_splits(data):
        return _give_splits(data, column)
    if is_hugging_face_stream(data):
        return _give_stream(data, column)
    if is_hugging_face(data):
        return _give_splits({None: data}, column)[None]
    if any(isinstance(leaf, Carrier) for leaf in leaves(data)):
        raise InstanceIdError(
            "the data set already carries instance ids: with_instance_ids was called on it, or on "
            "what it is made of. Use it as it is, or give ids to the original data (.dataset)."
        )
    own = column is not None and column.name == INSTANCE_ID
    return _kind_of(data)(data, column, partial(attach, replace=True) if own else attach)


def _kind_of(data: Any) -> type[InstanceIdDataset] | type[InstanceIdIterable]:
    """Return the class that serves this data set, or raise and say what to give instead."""
    name = type(data).__name__
    if isinstance(data, IterableDataset):
        return InstanceIdIterable
    if isinstance(data, Iterator):
        raise DataSetError(
            f"a {name} can be iterated only once, and training reads its data many times. "
            "Give something that starts anew, such as a list or an IterableDataset."
        )
    if isinstance(data, str | bytes | Mapping | set | frozenset) or hasattr(data, "iloc"):
        raise DataSetError(f"a {name} has no numbered rows. {_instead_of(data)}")
    if isinstance(data, type | nn.Module) or is_array(data, dims=0):  # some of which have a length, too
        raise DataSetError(f"a {name} holds no rows. {_GIVE}")
    if isinstance(data, Dataset) or (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return InstanceIdDataset
    if isinstance(data, Iterable):
        return InstanceIdIterable
    raise DataSetError(f"a {name} holds no rows. {_GIVE}")


def _instead_of(data: Any) -> str:
    if hasattr(data, "iloc"):
        return "Give its rows with their index: with_instance_ids(frame.reset_index().to_dict('records'), id='index')."
    if isinstance(data, Mapping):
        return "Give each of its data sets by itself, or a list of rows."
    if isinstance(data, set | frozenset):
        return "Its order changes from run to run: give sorted(data)."
    return "Give a data set or a list of rows."


# Hugging Face


def _give_stream(data: Any, column: Column | None, *, first: int = 0) -> Any:
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


def _give_splits(data: Mapping[Any, Any], column: Column | None) -> Any:
    """Return the dict of data sets with ids that two splits share only if they share the row."""
    for split in data.values():
        _check_columns(split, column)
    if not all(map(is_hugging_face, data.values())):
        given = {
            name: _give_stream(split, column, first=place << _SPLIT_BITS)
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
            reject_several_workers()
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
    offsets = offsets_of(lengths)
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
