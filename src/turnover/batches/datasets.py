"""Data sets whose rows carry ids: map-style and iterable, and what both share."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from turnover.errors import DataSetError, InstanceIdError
from turnover.ids import Name

from ._content import OrderGuard, digest, reject_several_workers
from ._roots import RootRows
from .columns import Column, Seen
from .forms import holds_many, is_array

Form = Callable[[Any, Any], Any]
"""What becomes of a row and its id: attached to each other, or side by side for a loader."""


class Carrier:
    """A data set whose rows carry ids.

    Public attributes of the data set below show through, for reading and for writing, so that code
    which configures it (`set_epoch`, a `worker_init_fn` that sets the worker's part) keeps working.
    """

    dataset: Any

    def __init__(self, dataset: Any, column: Column | None, form: Form, *, whole_batches: bool = False) -> None:
        """Stand above a data set; `form` says what becomes of a row and its id.

        Without a column, rows are numbered. With `whole_batches` a row may be a ready batch, with many values in its
        column.
        """
        self.dataset = dataset
        self._column = column
        self._form = form
        self._whole_batches = whole_batches
        self._names: dict[int, str] = {}
        self._all_named = column is None
        self._was_read = False

    @property
    def names(self) -> dict[int, str]:
        """The string behind every hashed id of the rows that this process has read so far."""
        return dict(self._names)

    def named(self, ids: Sequence[Name]) -> list[Name]:
        """Return ids with the string in place of each that is its hash.

        What worker processes have read is not known to this process. So where strings are missing, all rows are read
        here, once.
        """
        if not self._all_named and any(number not in self._names for number in ids) and self._has_strings():
            self._read_names()
            self._all_named = True
        return [self._names.get(number, number) if isinstance(number, int) else number for number in ids]

    def _has_strings(self) -> bool:
        """Tell whether the column has strings, by the rows that were read here; where none was, by the first."""
        if not self._was_read:
            with suppress(LookupError):  # data that is read by keys, which are not known here
                next(iter(cast("Iterator[Any]", self)), None)
        return bool(self._names)

    def _read_names(self) -> None:
        """Read all rows for their names."""
        for _ in cast("Iterator[Any]", self):
            pass

    @property
    def counts_rows(self) -> bool:
        """Whether ids are row numbers, not values of a column."""
        return self._column is None

    @property
    def numbering(self) -> Hashable:
        """What two data sets must have in common for equal numbers to mean equal rows."""
        return id(self)

    def _claimed(self, row: Any, where: Any, seen: Seen, token: Hashable) -> Any:
        """Return the id that a row has in its column, or the ids of a ready batch."""
        value = seen.column.value(row, where)
        self._was_read = True
        if self._whole_batches and holds_many(value):
            return torch.tensor([seen.claim(item, where) for item in value], dtype=torch.int64)
        return seen.claim(value, where, token)

    def __len__(self) -> int:
        """Return the number of rows of the data set below."""
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        """Return a public attribute of the data set below."""
        if name == "dataset" or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute where it lives: here, or on the data set below."""
        if name != "dataset" and not name.startswith("_") and hasattr(self.dataset, name):
            setattr(self.dataset, name, value)
        else:
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        """Say what is below and where the ids come from."""
        try:
            size = f"{len(self.dataset)} rows"
        except TypeError:
            size = "rows"
        source = "the row number" if self._column is None else str(self._column)
        return f"{type(self).__name__}({size} of {type(self.dataset).__name__}, ids from {source})"


class InstanceIdDataset(Carrier, Dataset[Any]):
    """A map-style data set with ids: `data[i]` is the row below with its id attached.

    Made by `turnover.with_instance_ids`; `.dataset` is the data set below.
    """

    def __init__(self, dataset: Any, column: Column | None, form: Form, *, whole_batches: bool = False) -> None:
        """Stand above a data set; the arguments are those of `Carrier`."""
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
            self._all_named = True
        return dict(self._names)

    def numbers(self) -> list[int]:
        """Return the ids of all rows where they are row numbers; no row is read."""
        return [self._roots.number(index) for index in range(len(self))]

    def __getitem__(self, index: Any) -> Any:
        """Return a row with its id, or for many indices what the data set gives, with their ids."""
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
            raise DataSetError(
                f"{type(self.dataset).__name__}.__getitems__ gave {len(rows)} rows for "
                f"{len(indices)} indices, so their ids are not known. Return one row for each."
            )
        return [self._form(row, self._id_of(row, index)) for row, index in zip(rows, indices, strict=True)]

    def __iter__(self) -> Iterator[Any]:
        """Yield all rows in order."""
        return (self[index] for index in range(len(self)))

    def _id_of(self, row: Any, index: Any) -> Any:
        if self._seen is None:
            return self._roots.number(index)
        where = self._roots.name(index)
        return self._claimed(row, where, self._seen, where)

    def _ids_of(self, batch: Any, indices: list[int]) -> Tensor:
        """Return the ids of rows that the data set below gave as one batch."""
        if self._seen is None:
            return torch.tensor([self._roots.number(index) for index in indices], dtype=torch.int64)
        column = self._seen.column
        rows = [self._roots.name(index) for index in indices]
        values = column.value(batch, rows[0] if rows else 0)
        if not holds_many(values) or len(values) != len(rows):
            raise InstanceIdError(
                f"{len(rows)} rows were read at once, and {column} does not hold one value for "
                "each of them. Read the rows one by one."
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


REMEMBERED_IDS = 2**20
"""Ids of one epoch that are remembered, to notice that two rows of a stream share one."""


class InstanceIdIterable(Carrier, IterableDataset[Any]):
    """An iterable data set with ids: a row comes with its number in the stream, or its own id.

    Made by `turnover.with_instance_ids`; `.dataset` is the data set below. Rows that are counted
    must keep their order: the first ones are compared from epoch to epoch, within one process.
    """

    def __init__(self, dataset: Any, column: Column | None, form: Form, *, whole_batches: bool = False) -> None:
        """Stand above a data set; the arguments are those of `Carrier`."""
        super().__init__(dataset, column, form, whole_batches=whole_batches)
        self._order = OrderGuard()
        self._had_rows = False

    def __iter__(self) -> Iterator[Any]:
        """Yield every row with its id."""
        seen = None
        if self._column is None:
            reject_several_workers()
        else:
            # With ids of its own a stream may change its order: epochs are not compared.
            seen = Seen(self._column, self._names, REMEMBERED_IDS)
        number = -1
        for number, row in enumerate(self.dataset):
            yield self._form(row, self._id_of(row, number, seen))
        if number < 0 and self._had_rows:
            raise DataSetError(
                f"{type(self.dataset).__name__} gave no rows the second time: it can be iterated "
                "only once. Give something that starts anew, such as a list or an IterableDataset."
            )
        self._had_rows = self._had_rows or number >= 0

    def _id_of(self, row: Any, number: int, seen: Seen | None) -> Any:
        if seen is None:
            self._order.check(number, row)
            return number
        return self._claimed(row, number, seen, digest(row) if seen.column.kind == "id" else None)
