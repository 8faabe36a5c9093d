"""Map-style data sets whose rows carry ids."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from turnover.errors import DataSetError, InstanceIdError

from .carrier import Carrier, Form
from .columns import Column, Seen
from .forms import holds_many, is_array
from .roots import RootRows


class InstanceIdDataset(Carrier, Dataset[Any]):
    """A map-style data set with ids: `data[i]` is the row below with its id attached.

    Made by `turnover.with_instance_ids`; `.dataset` is the data set below.
    """

    def __init__(self, dataset: Any, column: Column | None, form: Form, *, whole_batches: bool = False) -> None:
        """Stand above a data set; the arguments are those of `Carrier`."""
        super().__init__(dataset, column, form, whole_batches=whole_batches)
        self._roots = RootRows(dataset)
        self._seen = None if column is None else Seen(column, self._names)
        self._all_named = column is None

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
            for index in range(len(self)):
                self._id_of(self.dataset[index], index)
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
        if isinstance(index, slice) and _is_plain_sequence(self.dataset):
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
        pairs = zip(rows, indices, strict=True)
        return [self._form(row, self._id_of(row, index)) for row, index in pairs]

    def __iter__(self) -> Iterator[Any]:
        """Yield all rows in order."""
        return (self[index] for index in range(len(self)))

    def _id_of(self, row: Any, index: Any) -> Any:
        if self._seen is None:
            return self._roots.number(index)
        where = self._roots.name(index)
        value = self._seen.column.value(row, where)
        if self._whole_batches and holds_many(value):
            return torch.tensor([self._seen.claim(one, where) for one in value], dtype=torch.int64)
        return self._seen.claim(value, where, where)

    def _ids_of(self, batch: Any, indices: list[int]) -> Tensor:
        """Return the ids of rows that the data set below gave as one batch."""
        if self._seen is None:
            ids = [self._roots.number(index) for index in indices]
            return torch.tensor(ids, dtype=torch.int64)
        column = self._seen.column
        rows = [self._roots.name(index) for index in indices]
        values = column.value(batch, rows[0] if rows else 0)
        if not holds_many(values) or len(values) != len(rows):
            raise InstanceIdError(
                f"{len(rows)} rows were read at once, and {column} does not hold one value for "
                "each of them. Read the rows one by one."
            )
        pairs = zip(values, rows, strict=True)
        ids = [self._seen.claim(value, row, row) for value, row in pairs]
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


def _is_plain_sequence(data: object) -> bool:
    return isinstance(data, Sequence)
