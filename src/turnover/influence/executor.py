"""Who does the work on tiles: this process now, a cluster later."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Executor(Protocol):
    """Runs a function on many tiles and yields the results in the order of the tiles."""

    def map(self, function: Callable[[T], Any], tiles: Iterable[T]) -> Iterator[Any]:
        """Yield `function(tile)` for every tile, in order."""
        ...


class LocalExecutor:
    """Works in this process, one tile after the other: a tile already uses all threads of torch."""

    def map(self, function: Callable[[T], Any], tiles: Iterable[T]) -> Iterator[Any]:
        """Yield `function(tile)` for every tile, in order."""
        return map(function, tiles)
