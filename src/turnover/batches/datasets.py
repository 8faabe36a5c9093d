"""`with_instance_ids`: ids for data sets and loaders of any kind, and what is known about ids without reading rows."""

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, overload

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    get_worker_info,
)

from turnover.errors import BatchError, InstanceIdError
from turnover.ids import Name, instance_id_of

from ._roots import RootRows, is_hugging_face, is_hugging_face_stream, is_splits, leaves, offsets_of, table_rows
from .columns import Column, Described, Seen, choose_column, names_of
from .rows import INSTANCE_ID, Array, NumberedRow, attach, digest, holds_many, is_array

REMEMBERED_IDS = 2**20
"""Ids of one epoch that are remembered, to notice that two rows of a stream share one."""
REMEMBERED_ROWS = 1024
"""Rows whose content is remembered, to notice that a stream changes its order."""
_SPLIT_BITS = 40  # streams have no length, so each split gets room for a trillion rows

Form = Callable[[Any, Any], Any]
"""What becomes of a row and its id: attached to each other, or side by side for a loader."""


@overload
def with_instance_ids(
    data: DataLoader[Any], *, id: str | int | None = None, groups: str | int | None = None
) -> DataLoader[Any]: ...
@overload
def with_instance_ids(  # pyright: ignore[reportOverlappingOverload] - an iterable data set is a data set, too
    data: IterableDataset[Any], *, id: str | int | None = None, groups: str | int | None = None
) -> "InstanceIdIterable": ...
@overload
def with_instance_ids(
    data: Dataset[Any] | Sequence[Any] | Tensor, *, id: str | int | None = None, groups: str | int | None = None
) -> "InstanceIdDataset": ...
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
        BatchError: the data cannot be numbered as they are, such as a generator.
        InstanceIdError: an id is unusable, missing or reserved, or there are ids already.

    Example:
        >>> from torch.utils.data import Subset
        >>> rows = [("a", 0), ("b", 1), ("c", 0)]
        >>> with_instance_ids(Subset(rows, [2, 0]))[0]
        ('c', 0, 2)
    """
    column = choose_column(id, groups)
    if isinstance(data, DataLoader):
        return _loader_with_ids(data, column)
    if is_splits(data):
        return _splits_with_ids(data, column)
    if is_hugging_face_stream(data):
        return _stream_with_ids(data, column)
    if is_hugging_face(data):
        return _splits_with_ids({None: data}, column)[None]
    if any(isinstance(leaf, _Carrier) for leaf in leaves(data)):
        raise InstanceIdError(
            "the data set already carries instance ids: with_instance_ids was called on it, or on what it is made of. "
            "Use it as it is, or give ids to the original data (.dataset)."
        )
    return _kind_of(data)(data, column, partial(attach, replace=True) if _is_own(column) else attach)


def _kind_of(data: Any) -> "type[InstanceIdDataset | InstanceIdIterable]":
    """Return the class that serves this data set, or raise and say what to give instead."""
    name = type(data).__name__
    if isinstance(data, IterableDataset):
        return InstanceIdIterable
    if isinstance(data, Iterator):
        raise BatchError(
            f"a {name} can be iterated only once, and training reads its data many times. Give something that starts "
            "anew, such as a list or an IterableDataset."
        )
    if hasattr(data, "iloc"):
        raise BatchError(
            f"a {name} has no numbered rows. Give its rows with their index: "
            "with_instance_ids(frame.reset_index().to_dict('records'), id='index')."
        )
    if isinstance(data, str | bytes | Mapping | set | frozenset):
        raise BatchError(
            f"a {name} has no numbered rows. Give a list of rows: of a set sorted(data), of several data sets each by "
            "itself."
        )
    if not isinstance(data, type | nn.Module) and not is_array(data, dims=0):  # some of which have a length, too
        if isinstance(data, Dataset) or (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            return InstanceIdDataset
        if isinstance(data, Iterable):
            return InstanceIdIterable
    raise BatchError(
        f"a {name} holds no rows. Give a data set (with __len__ and __getitem__), an iterable that can be read again, "
        "a DataLoader or a Hugging Face data set."
    )


def _is_own(column: Column | None) -> bool:
    return column is not None and column.name == INSTANCE_ID


# Data sets


class _Carrier:
    """A data set whose rows carry ids.

    Public attributes of the data set below show through, for reading and for writing, so that code
    which configures it (`set_epoch`, a `worker_init_fn` that sets the worker's part) keeps working.
    """

    dataset: Any

    def __init__(self, dataset: Any, column: Column | None, form: Form, *, whole_batches: bool = False) -> None:
        self.dataset = dataset
        self._column = column  # None: rows are numbered
        self._form = form
        self._whole_batches = whole_batches  # a row may be a ready batch, with many values in its column
        self._names: dict[int, str] = {}
        self._all_named = column is None
        self._was_read = False

    @property
    def names(self) -> dict[int, str]:
        return dict(self._names)

    def named(self, ids: Sequence[Name]) -> list[Name]:
        """Return ids with the string in place of each that is its hash.

        What worker processes have read is not known to this process. So where strings are missing, all rows are read
        here, once.
        """
        if not self._all_named and any(number not in self._names for number in ids):
            if not self._was_read:  # the first row tells whether the column has strings at all
                with suppress(LookupError):  # data that is read by keys, which are not known here
                    next(iter(cast("Iterator[Any]", self)), None)
            if self._names:
                self._read_names()
        return [self._names.get(number, number) if isinstance(number, int) else number for number in ids]

    def _read_names(self) -> None:
        for _ in cast("Iterator[Any]", self):
            pass
        self._all_named = True

    @property
    def counts_rows(self) -> bool:
        return self._column is None

    @property
    def numbering(self) -> Hashable:
        return id(self)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name == "dataset" or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "dataset" and not name.startswith("_") and hasattr(self.dataset, name):
            setattr(self.dataset, name, value)
        else:
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        try:
            size = f"{len(self.dataset)} rows"
        except TypeError:
            size = "rows"
        source = "the row number" if self._column is None else str(self._column)
        return f"{type(self).__name__}({size} of {type(self.dataset).__name__}, ids from {source})"


class InstanceIdDataset(_Carrier, Dataset[Any]):
    """A map-style data set with ids: `data[i]` is the row below with its id attached.

    Made by `turnover.with_instance_ids`; `.dataset` is the data set below.
    """

    def __init__(self, dataset: Any, column: Column | None, form: Form, *, whole_batches: bool = False) -> None:
        super().__init__(dataset, column, form, whole_batches=whole_batches)
        self._roots = RootRows(dataset)
        self._seen = None if column is None else Seen(column, self._names)

    @property
    def numbering(self) -> Hashable:
        """What two data sets must have in common for equal numbers to mean equal rows."""
        return self._roots.numbering

    @property
    def names(self) -> dict[int, str]:
        """The string behind every hashed id; the first call reads the whole data set once.

        What worker processes have read is not known to this process, hence the reading.
        """
        if not self._all_named and hasattr(self.dataset, "__len__"):
            self._read_names()
        return dict(self._names)

    def numbers(self) -> list[int]:
        """Return the ids of all rows where they are row numbers; no row is read."""
        return [self._roots.number(index) for index in range(len(self))]

    def __getitem__(self, index: Any) -> Any:
        many = _positions(index, self.dataset)
        if many is None:
            row = self.dataset[index]
            return self._form(row, self._id_of(row, index))
        if isinstance(index, slice) and isinstance(self.dataset, Sequence):
            return [self[position] for position in many]
        batch = self.dataset[index]
        return self._form(batch, self._ids_of(batch, many))

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return many rows, read in one go where the data set below can."""
        if callable(getattr(self.dataset, "__getitems__", None)):
            rows: list[Any] = self.dataset.__getitems__(indices)
        else:
            rows = [self.dataset[index] for index in indices]
        if len(rows) != len(indices):
            raise BatchError(
                f"{type(self.dataset).__name__}.__getitems__ gave {len(rows)} rows for {len(indices)} indices, so "
                "their ids are not known. Return one row for each."
            )
        return [self._form(row, self._id_of(row, index)) for row, index in zip(rows, indices, strict=True)]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def _id_of(self, row: Any, index: Any) -> Any:
        if self._seen is None:
            return self._roots.number(index)
        where = self._roots.name(index)
        self._was_read = True
        return _claimed(self._seen, row, where, where, self._whole_batches)

    def _ids_of(self, batch: Any, indices: list[int]) -> Tensor:
        """Return the ids of rows that the data set below gave as one batch."""
        if self._seen is None:
            return torch.tensor([self._roots.number(index) for index in indices], dtype=torch.int64)
        rows = [self._roots.name(index) for index in indices]
        values = self._seen.column.value(batch, rows[0] if rows else 0)
        if not holds_many(values) or len(values) != len(rows):
            raise InstanceIdError(
                f"{len(rows)} rows were read at once, and {self._column} does not hold one value for each of them. "
                "Read the rows one by one."
            )
        self._was_read = True
        ids = [self._seen.claim(value, row, row) for value, row in zip(values, rows, strict=True)]
        return torch.tensor(ids, dtype=torch.int64)


def _positions(index: Any, data: Any) -> list[int] | None:
    """Return the single positions behind an index of many rows, None for an index of one."""
    if isinstance(index, slice):
        return list(range(len(data))[index])
    if isinstance(index, list | range):
        return [*index]  # pyright: ignore[reportUnknownVariableType]
    if not is_array(index, dims=1):
        return None
    listed: list[Any] = index.tolist()
    if listed and isinstance(listed[0], bool):
        return [position for position, chosen in enumerate(listed) if chosen]
    return listed


class InstanceIdIterable(_Carrier, IterableDataset[Any]):
    """An iterable data set with ids: a row comes with its number in the stream, or its own id.

    Made by `turnover.with_instance_ids`; `.dataset` is the data set below. Rows that are counted
    must keep their order: the first ones are compared from epoch to epoch, within one process.
    """

    def __init__(self, dataset: Any, column: Column | None, form: Form, *, whole_batches: bool = False) -> None:
        super().__init__(dataset, column, form, whole_batches=whole_batches)
        self._ids = _StreamIds(column, self._names, whole_batches=whole_batches)

    def __iter__(self) -> Iterator[Any]:
        """Yield every row with its id."""
        number = -1
        for number, row in enumerate(self.dataset):
            given = self._ids.of(row, number)
            self._was_read = True
            yield self._form(row, given)
        if number < 0 and self._was_read:
            raise BatchError(
                f"{type(self.dataset).__name__} gave no rows the second time: it can be iterated only once. Give "
                "something that starts anew, such as a list or an IterableDataset."
            )


class _StreamIds:
    """The ids of a stream's rows; it lives on from epoch to epoch."""

    def __init__(
        self, column: Column | None, names: dict[int, str], *, first: int = 0, whole_batches: bool = False
    ) -> None:
        self._column, self._names, self._first, self._whole_batches = column, names, first, whole_batches
        self._digests: dict[int, int] = {}

    def of(self, row: Any, number: int) -> Any:
        """Return the id of the row of this number, or the ids of a ready batch."""
        if self._column is None:
            worker = get_worker_info()
            _reject_several_workers(0 if worker is None else worker.num_workers)
            self._check_order(number, row)
            return self._first + number
        if number == 0:  # a new epoch may come in another order
            self._seen = Seen(self._column, self._names, REMEMBERED_IDS)
        token = digest(row) if self._column.kind == "id" else None
        return _claimed(self._seen, row, number, token, self._whole_batches)

    def _check_order(self, number: int, row: Any) -> None:
        if number >= REMEMBERED_ROWS:
            return
        now = digest(row)
        if self._digests.setdefault(number, now) != now:
            raise InstanceIdError(
                f"row {number} is not what it was in an earlier epoch, so two different rows would have one id. Your "
                'iterable changes its order: give id="column", or shuffle after with_instance_ids. If it changes its '
                "rows at random (augmentation), do that after with_instance_ids, too."
            )


def _claimed(seen: Seen, row: Any, where: Any, token: Hashable, whole_batches: bool) -> Any:
    value = seen.column.value(row, where)
    if whole_batches and holds_many(value):
        return torch.tensor([seen.claim(item, where) for item in value], dtype=torch.int64)
    return seen.claim(value, where, token)


def _reject_several_workers(count: int) -> None:
    if count > 1:
        raise BatchError(
            f"rows of an iterable cannot be counted by {count} workers: each starts from 0. Name the column that holds "
            'the id: with_instance_ids(data, id="column"), or use one worker.'
        )


# Data sets of Hugging Face


def _stream_with_ids(data: Any, column: Column | None, *, first: int = 0) -> Any:
    """Return a `datasets.IterableDataset` that adds "instance_id" to every row as it is read."""
    _check_columns(data, column)
    ids = _StreamIds(column, {}, first=first)
    features: Any = data.features
    if features is not None:
        # `map` would forget the features. Their own class rebuilds them, so nothing is imported.
        number = {"dtype": "int64", "_type": "Value"}
        features = features.from_dict({**features.to_dict(), INSTANCE_ID: number})
    # Rows are read before they are formatted, and formatted once, as they would be without ids.
    format_type = getattr(getattr(data, "_formatting", None), "format_type", None)
    plain = data if format_type is None else data.with_format(None)
    given = plain.map(partial(_added_id, ids), with_indices=True, features=features)
    return given if format_type is None else given.with_format(format_type)


def _added_id(ids: _StreamIds, row: Any, number: int) -> dict[str, int]:
    return {INSTANCE_ID: ids.of(row, number)}


def _splits_with_ids(data: Mapping[Any, Any], column: Column | None) -> Any:
    """Return the dict of data sets with ids that two splits share only if they share the row."""
    for split in data.values():
        _check_columns(split, column)
    if not all(map(is_hugging_face, data.values())):
        given = {
            name: _stream_with_ids(split, column, first=place << _SPLIT_BITS)
            for place, (name, split) in enumerate(data.items())
        }
    elif column is None:
        rows = {name: table_rows(split) for name, split in data.items()}
        lengths: dict[Hashable, int] = {}
        for key, _, extent in rows.values():
            lengths[key] = max(extent, lengths.get(key, 0))
        offsets = offsets_of(lengths)
        given = {name: _with_column(data[name], at + offsets[key]) for name, (key, at, _) in rows.items()}
    else:
        seen = Seen(column)
        given = {name: _with_column(split, _claimed_column(split, name, seen)) for name, split in data.items()}
    kind: Any = type(data)
    return kind(given)


def _claimed_column(data: Any, split: Any, seen: Seen) -> Array:
    key, rows, _ = table_rows(data)
    values: list[Any] = data.with_format(None)[seen.column.name][:]
    ids = [
        seen.claim(value, row if split is None else Described(f"row {row} of split {split!r}"), (key, row))
        for value, row in zip(values, rows.tolist(), strict=True)
    ]
    return np.array(ids, dtype=np.int64)


def _with_column(data: Any, ids: Array) -> Any:
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
    if INSTANCE_ID in names and not _is_own(column):
        raise InstanceIdError(
            f"the data set already has a column {INSTANCE_ID!r}, so it was given ids before. Use it as it is; if the "
            f"column is your own, say so: with_instance_ids(data, id={INSTANCE_ID!r})."
        )


# Loaders


def _loader_with_ids(loader: Any, column: Column | None) -> Any:
    """Return a DataLoader with all settings of the given one whose batches carry ids."""
    if hasattr(loader, "base_dataloader"):
        raise BatchError(
            f"a {type(loader).__name__} only stands in for another loader. Give ids to the DataLoader first, then "
            "prepare it."
        )
    data: Any = loader.dataset
    if carries_ids(data) and not _is_own(column):
        if column is not None:
            raise InstanceIdError(
                f"the data set of this loader already carries ids, so {column} has no use. Give ids once, to the data "
                "set or to the loader."
            )
        return loader
    is_stream = isinstance(data, IterableDataset)
    if is_stream and column is None:
        _reject_several_workers(loader.num_workers)
    batched = loader.batch_sampler is not None
    kind = InstanceIdIterable if is_stream else InstanceIdDataset
    # A copy keeps subclasses and settings that are not known here. DataLoader.__setattr__ rejects another data set,
    # lest it have another length; this one has the same.
    clone = copy.copy(loader)
    clone.__dict__.update(
        dataset=kind(data, column, NumberedRow, whole_batches=not batched),
        collate_fn=_CollateWithIds(loader.collate_fn, batched, _is_own(column)),
        _iterator=None,
    )
    return clone


@dataclass(frozen=True)
class _CollateWithIds:
    """Hides the ids from the user's collate_fn and attaches them to what it returns."""

    collate_fn: Callable[[Any], Any]
    batched: bool  # whether it gets a list of rows (automatic batching) or one row
    replace: bool  # the user's own column is named "instance_id" and is overwritten

    def __call__(self, fetched: Any) -> Any:
        if not self.batched:
            return attach(self.collate_fn(fetched.row), fetched.instance_id, replace=self.replace)
        rows, ids = [row for row, _ in fetched], [number for _, number in fetched]
        given = list(rows)
        batch = self.collate_fn(rows)
        _reject_moved_rows(given, rows, ids)
        return attach(batch, torch.tensor(ids, dtype=torch.int64), replace=self.replace)


def _reject_moved_rows(given: list[Any], left: list[Any], ids: list[int]) -> None:
    """Raise where it shows that the collate_fn drops or reorders rows: ids could not follow."""
    for row, number in zip(given, ids, strict=True):
        if row is None:
            raise BatchError(
                f"the row with id {number} is None, and a collate_fn that drops it would shift the ids of the others. "
                "Leave such rows out of the data set."
            )
    known = {id(row) for row in given}
    if len(left) != len(given) or any(
        now is not before and id(now) in known for now, before in zip(left, given, strict=True)
    ):
        raise BatchError(
            "collate_fn reorders or drops rows of its list, and the ids cannot follow. Give ids to the data set, so "
            "that they are part of the rows: DataLoader(with_instance_ids(dataset), collate_fn=...)."
        )


# What is known without reading rows


def carries_ids(data: Any) -> bool:
    """Return whether all rows of a data set or batches of a loader carry ids; raise if they do not fit together."""
    parts = _parts_of(data)
    having = [isinstance(part, _Carrier) or _has_id_column(part) for part in parts]
    if any(having) and not all(having):
        raise InstanceIdError(
            "some parts of the concatenated data set carry ids and others do not. Concatenate first, then give ids to "
            "the whole."
        )
    numberings = {part.numbering for part in parts if isinstance(part, _Carrier) and part.counts_rows}
    if len(numberings) > 1:
        raise InstanceIdError(
            "the parts of the concatenated data set were given ids one by one, so different rows share an id: each "
            "part counts from 0. Concatenate first, then give ids to the whole."
        )
    return all(having)


def ids_of(data: Any) -> Tensor | None:
    """Return the ids of all rows in order, or None where only reading them would tell."""
    given: Any = data
    if isinstance(data, DataLoader):
        is_whole = isinstance(given.sampler, RandomSampler | SequentialSampler)
        return ids_of(given.dataset) if is_whole else None
    if isinstance(data, Subset):
        below = ids_of(given.dataset)
        return None if below is None else below[torch.as_tensor(list(given.indices))]
    if _has_id_column(data):
        return torch.tensor(list(data[INSTANCE_ID]), dtype=torch.int64)
    if isinstance(data, InstanceIdDataset) and data.counts_rows:
        return torch.tensor(data.numbers(), dtype=torch.int64)
    return None


def names_in(data: Any) -> Callable[[Sequence[Name]], list[Name]] | None:
    """Return what puts the user's strings in place of ids that are their hashes; None: the data has no strings.

    A data set with ids knows its strings. A Hugging Face data set has them in a column, also one that is not shown:
    that whose hashes the ids are.
    """
    lookups: list[Callable[[Sequence[Name]], list[Name]]] = []
    for part in _parts_of(data):
        if isinstance(part, _Carrier) and not part.counts_rows:
            lookups.append(part.named)
        elif _has_id_column(part) and len(part) and (names := _strings_in(part)):
            lookups.append(lambda ids, names=names: [names.get(cast(int, number), number) for number in ids])
    if not lookups:
        return None

    def named(ids: Sequence[Name]) -> list[Name]:
        for lookup in lookups:
            ids = lookup(ids)
        return list(ids)

    return named


def _parts_of(data: Any) -> list[Any]:
    return list(leaves(cast(Any, data).dataset if isinstance(data, DataLoader) else data))


def _has_id_column(data: Any) -> bool:
    return is_hugging_face(data) and INSTANCE_ID in data.column_names


def _strings_in(data: Any) -> dict[int, str]:
    every = data.with_format(None)
    first: dict[str, Any] = every[0]
    for name, value in first.items():
        if isinstance(value, str) and instance_id_of(value) == first[INSTANCE_ID]:
            return names_of(every[name][:])
    return {}
