"""Who computes the tiles of a question, and the progress bar that counts them."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from tqdm import tqdm

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


def progress_bar(total: int | None, show: bool | None, unit: str) -> "tqdm[Any]":
    """Return a bar with the speed and the time left; `show` None: on a terminal only."""
    hidden = not (sys.stderr.isatty() if show is None else show)
    return tqdm(total=total, unit=f" {unit}", unit_scale=True, disable=hidden, smoothing=0.1)
