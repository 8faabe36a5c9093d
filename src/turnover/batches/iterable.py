"""Iterable data sets whose rows carry ids."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset

from turnover.errors import DataSetError

from .carrier import Carrier, Form
from .columns import Column, Seen
from .content import digest
from .forms import holds_many
from .order import OrderGuard, refuse_several_workers

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

    @property
    def names(self) -> dict[int, str]:
        """The string behind every hashed id of the rows that this process has read so far."""
        return dict(self._names)

    def __iter__(self) -> Iterator[Any]:
        """Yield every row with its id."""
        seen = None
        if self._column is None:
            refuse_several_workers()
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
        value = seen.column.value(row, number)
        if self._whole_batches and holds_many(value):
            return torch.tensor([seen.claim(one, number) for one in value], dtype=torch.int64)
        return seen.claim(value, number, digest(row) if seen.column.kind == "id" else None)
