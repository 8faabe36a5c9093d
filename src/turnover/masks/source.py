"""What a mask source is, and what it is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from turnover.errors import MaskError

from .bits import check_keep


@dataclass(frozen=True)
class Stream:
    """The masks of one site: its key, how many units it has and which share is kept."""

    site: str
    width: int
    keep: float = 0.5

    def __post_init__(self) -> None:
        """Reject a width or rate that no mask can have."""
        check_keep(self.keep)
        if self.width < 1:
            raise MaskError(f"the width of site {self.site!r} must be an integer >= 1, got {self.width}.")


@runtime_checkable
class MaskSource(Protocol):
    """Anything that turns (site, ids) into mask bits."""

    @property
    def kind(self) -> str:
        """Name of the source in recipes."""
        ...

    @property
    def seed(self) -> int:
        """Seed of all bits."""
        ...

    def words(self, ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
        """Return packed int32 words [len(ids), ceil(width / 32)] for each stream.

        They are on the device of `ids`. Bits of a word above the width are undefined. A unit's bit
        does not depend on the width, nor on the other streams or ids asked for in the same call.
        """
        ...

    def options(self) -> dict[str, int]:
        """Return what besides kind and seed determines the bits."""
        ...

    def notes(self, keep: float) -> list[str]:
        """Return sentences for the plan: memory, and rates of collision or correlation if any."""
        ...


def check_seed(seed: int) -> int:
    """Return the seed as an int, or raise."""
    number = isinstance(seed, int)  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(seed, bool) or not number:
        raise MaskError(f"seed must be an integer, got {seed!r}.")
    return seed


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless an option of a source is an integer of at least `least`."""
    number = isinstance(value, int)  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(value, bool) or not number or value < least:
        raise MaskError(f"{name} must be an integer >= {least}, got {value!r}.")
