"""What a mask source is, and how a recipe names one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from turnover.errors import MaskError

from .keep_rate import check_keep


@dataclass(frozen=True)
class Stream:
    """The masks of one site: its key, how many units it has and which share is kept."""

    site: str
    width: int
    keep: float = 0.5

    def __post_init__(self) -> None:
        """Refuse a width or rate that no mask can have."""
        check_keep(self.keep)
        if self.width < 1:
            raise MaskError(f"site {self.site!r} has width {self.width}: a mask needs at least one unit.")


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
        raise MaskError(f"seed={seed!r} is not a seed. Give an integer: seed=0.")
    return seed


def check_count(name: str, value: int, least: int) -> None:
    """Raise unless an option of a source is an integer of at least `least`."""
    number = isinstance(value, int)  # pyright: ignore[reportUnnecessaryIsInstance]
    if isinstance(value, bool) or not number or value < least:
        raise MaskError(f"{name}={value!r} is out of range. Give an integer of at least {least}.")


def source_named(masks: str | MaskSource, seed: int) -> MaskSource:
    """Return the source that `turnover.wrap(masks=...)` asks for, by name or as an object."""
    if isinstance(masks, str):
        return source_from(masks, seed, {})
    if type(masks) not in _sources().values():
        # A source of the user's own could not be made again from a recipe.
        raise MaskError(f"masks={masks!r} is no mask source. Give one of {_names()}, or a source object.")
    return masks


def source_from(kind: str, seed: int, options: dict[str, int]) -> MaskSource:
    """Return the source of a recipe."""
    sources = _sources()
    if kind not in sources:
        raise MaskError(f"masks={kind!r} is no mask source. Give one of {_names()}.")
    return sources[kind](seed=seed, **options)


def joint_words(sources: Sequence[MaskSource], ids: Tensor, streams: Sequence[Stream]) -> list[Tensor]:
    """Return the words [sources * ids, words] of each stream, one source after the other."""
    from .counter import Counter, words_of_seeds

    if all(isinstance(source, Counter) for source in sources):
        return words_of_seeds([source.seed for source in sources], ids, streams)
    found = [source.words(ids, streams) for source in sources]
    return [torch.cat(parts) for parts in zip(*found, strict=True)]


def _sources() -> dict[str, type]:
    # The sources import this file for `Stream`, so they are looked up when they are needed.
    from .codebook import Codebook
    from .counter import Counter
    from .volatile import Volatile

    return {source.kind: source for source in (Counter, Volatile, Codebook)}


def _names() -> str:
    return ", ".join(repr(name) for name in _sources())
