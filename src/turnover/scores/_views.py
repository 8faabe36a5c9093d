"""Rows as people see them, beside results: who made a result may know pixels or texts of its instances and queries."""

from typing import Any, Protocol


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
