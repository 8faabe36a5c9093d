"""What results have in common: ids of their instances, and rows as people see them, where who made them knows these."""

from typing import Any, Protocol

from numpy.typing import ArrayLike

from turnover.ids import Ids, Ints, Names

from ._arrays import both_ids, close


class Views(Protocol):
    """Knows rows as people see them: uint8 pixels [height, width, channels], or a text; None: not known."""

    def instance(self, mask_id: int) -> Any:
        """Return the row of an instance, of a group its first."""
        ...

    def query(self, name: Any) -> Any:
        """Return a query by its name."""
        ...


class Nothing:
    """Knows no rows."""

    def instance(self, mask_id: int) -> None:
        """Return None."""

    def query(self, name: Any) -> None:
        """Return None."""


class Viewed:
    """A result that may know its rows as people see them. They are neither compared nor written nor pickled."""

    views: Views = Nothing()

    def seen_by(self, views: Views) -> Any:
        """Give the result what knows its rows, and return it."""
        object.__setattr__(self, "views", views)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Leave the rows out: they may be a whole data set."""
        return {name: value for name, value in vars(self).items() if name != "views"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled, arrays read-only again."""
        vars(self).update(close(state))


class OfInstances(Viewed):
    """A result with one row per instance."""

    def __init__(self, ids: ArrayLike, mask_ids: ArrayLike | None) -> None:
        self._ids, self._mask_ids, self._names = both_ids(ids, mask_ids)

    @property
    def ids(self) -> Ids:
        """Return the ids of the instances as they were given [n]: int64, or objects where there are strings."""
        return self._ids

    @property
    def mask_ids(self) -> Ints:
        """Return the integers that the masks of the instances are made of, int64 [n]: what `instances` takes."""
        return self._mask_ids

    @property
    def names(self) -> Names:
        """Return the names of instances that are not called by their mask id."""
        return self._names

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._ids)
