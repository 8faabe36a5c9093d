"""Mask sources by name: those that `turnover.wrap(masks=...)` and recipes can name."""

from turnover.errors import MaskError

from .codebook import Codebook
from .counter import Counter
from .source import MaskSource
from .volatile import Volatile

_SOURCES: dict[str, type] = {source.kind: source for source in (Counter, Volatile, Codebook)}
_NAMES = ", ".join(map(repr, _SOURCES))


def source_named(masks: str | MaskSource, seed: int) -> MaskSource:
    """Return the source that `turnover.wrap(masks=...)` asks for, by name or as an object."""
    if isinstance(masks, str):
        return source_from(masks, seed, {})
    if type(masks) not in _SOURCES.values():
        # A source of the user's own could not be made again from a recipe.
        raise MaskError(f"masks must be one of {_NAMES}, or a source object, got {masks!r}.")
    return masks


def source_from(kind: str, seed: int, options: dict[str, int]) -> MaskSource:
    """Return the source of a recipe."""
    if kind not in _SOURCES:
        raise MaskError(f"masks must be one of {_NAMES}, got {kind!r}.")
    return _SOURCES[kind](seed=seed, **options)
