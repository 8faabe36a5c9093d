"""What both kinds of data sets with ids share: the data set below, and how it shows through."""

from collections.abc import Callable, Hashable
from typing import Any

from .columns import Column

Form = Callable[[Any, Any], Any]
"""What becomes of a row and its id: attached to each other, or side by side for a loader."""


class Carrier:
    """A data set whose rows carry ids.

    Public attributes of the data set below show through, for reading and for writing, so that code
    which configures it (`set_epoch`, a `worker_init_fn` that sets the worker's part) keeps working.
    """

    dataset: Any

    def __init__(self, dataset: Any, column: Column | None, form: Form, *, whole_batches: bool = False) -> None:
        """Stand above a data set.

        Args:
            dataset: the data set below.
            column: the user's own id or group column; None: rows are numbered.
            form: what becomes of a row and its id.
            whole_batches: a row may be a ready batch, with many values in its column.
        """
        self.dataset = dataset
        self._column = column
        self._form = form
        self._whole_batches = whole_batches
        self._names: dict[int, str] = {}

    @property
    def counts_rows(self) -> bool:
        """Whether ids are row numbers, not values of a column."""
        return self._column is None

    @property
    def numbering(self) -> Hashable:
        """What two data sets must have in common for equal numbers to mean equal rows."""
        return id(self)

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
