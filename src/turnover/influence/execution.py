"""Who computes the tiles of a question, and the progress bar that counts them.

A task is a serializable function (a dataclass with `__call__`), an item is what one call needs of its own: a range of
instances, some rows. Results come back in the order of the items, so that sums over them are the same whoever made
them.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeGuard, TypeVar, runtime_checkable

import torch

from turnover.errors import InfluenceError

from .packing import Shared

_MOST_LOSSES = 3
_SECONDS_OF_A_BUNDLE, _MOST_ITEMS, _MANY = 0.5, 256, 2**31
T = TypeVar("T")


class Executor(Protocol):
    """Runs a task on many items and yields the results in the order of the items; a pool of threads is one."""

    def map(self, task: Callable[[T], Any], items: Iterable[T]) -> Iterator[Any]:
        """Yield `task(item)` for every item, in order."""
        ...


@runtime_checkable
class RemoteExecutor(Executor, Protocol):
    """An executor whose tasks run in other processes, on this machine or on others."""

    @property
    def threads(self) -> int:
        """Return how many threads of torch a task has."""
        ...

    def sharing(self, objects: Sequence[Shared], *, memory: int) -> "RemoteExecutor":
        """Return the same executor with objects that many tasks hold, or raise where its workers cannot work.

        `memory` is what a task may take beside them, in bytes.
        """
        ...

    def check_folder(self, folder: str) -> None:
        """Raise where a worker cannot write to a folder, or sees another one under its name."""
        ...


class LocalExecutor:
    """Works in this process, one item after the other: a tile already uses all threads of torch."""

    def map(self, task: Callable[[T], Any], items: Iterable[T]) -> Iterator[Any]:
        """Yield `task(item)` for every item, in order."""
        return map(task, items)


def as_executor(executor: Executor | None) -> Executor:
    """Return the executor, or this process where none is given; raise where it is none."""
    if executor is None:
        return LocalExecutor()
    if isinstance(executor, type) or not callable(getattr(executor, "map", None)):
        raise InfluenceError(
            f"executor= must be an object that computes tiles, got {executor!r}. Give "
            "turnover.influence.ProcessExecutor(workers=2), turnover.integrations.RayExecutor(address='host:6379'), or "
            "None for this process."
        )
    return executor


def is_remote(executor: Executor) -> TypeGuard[RemoteExecutor]:
    """Tell whether tasks run in other processes."""
    # The protocol is looked at last: of a small job that would be a part of the time.
    return not isinstance(executor, LocalExecutor) and isinstance(executor, RemoteExecutor)


def threads_of(executor: Executor) -> int:
    """Return how many threads of torch each task has; the last bits of scores depend on it."""
    return executor.threads if is_remote(executor) else torch.get_num_threads()


@contextmanager
def as_workers(executor: Executor) -> Iterator[None]:
    """Let this process compute what is its own part with as many threads as the tasks have."""
    before, threads = torch.get_num_threads(), threads_of(executor)
    if threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_order(
    items: Iterable[T],
    submit: Callable[[T], "Future[Any]"],
    *,
    window: int,
    lost: type[Exception] | tuple[()] = (),
    restart: Callable[[], None] | None = None,
) -> Iterator[Any]:
    """Yield the results of items that are submitted a few ahead, in their order.

    `lost` is what a future raises when its worker has ended: then, after `restart`, what was not finished is submitted
    again. What is still to be computed when nobody asks any more is canceled.
    """
    waiting: deque[tuple[T, Future[Any]]] = deque()
    losses, rest = 0, iter(items)
    try:
        while True:
            while len(waiting) < window and (item := next(rest, waiting)) is not waiting:
                waiting.append((item, submit(item)))  # pyright: ignore[reportArgumentType]
            if not waiting:
                return
            try:
                result = waiting[0][1].result()
            except lost as error:
                losses += 1
                if losses > _MOST_LOSSES or restart is None:
                    raise InfluenceError(
                        f"workers end before their task does, {losses} times in a row ({error}). Where the system "
                        "kills them for lack of memory, give fewer workers or less memory=. What is finished is kept."
                    ) from error
                restart()
                for place, (item, future) in enumerate(waiting):
                    if not future.done() or future.cancelled() or future.exception() is not None:
                        waiting[place] = item, submit(item)
                continue
            waiting.popleft()
            losses = 0
            yield result
    finally:
        for _, future in waiting:
            future.cancel()


@dataclass(frozen=True)
class Several:
    """A task on several items: their results, and the seconds that they took."""

    task: Callable[[Any], Any]

    def __call__(self, items: Sequence[Any]) -> tuple[list[Any], float]:
        """Run them one after the other."""
        start = time.perf_counter()
        return [self.task(item) for item in items], time.perf_counter() - start


class Bundles(Generic[T]):
    """Items in bundles for `Several`: as many as take half a second, by the time that finished ones took.

    Towards the end they become smaller, so that workers end together; a worker that is lost costs its bundle.
    """

    def __init__(self, items: Iterable[T], workers: int) -> None:
        self._rest, self._workers = iter(items), workers
        self._left = len(items) if isinstance(items, Sequence) else _MANY
        self._size = 1

    def __iter__(self) -> Iterator[list[T]]:
        """Yield the bundles; each is made when it is asked for."""
        while bundle := list(islice(self._rest, min(self._size, -(-self._left // (2 * self._workers))))):
            self._left = max(self._left - len(bundle), 1)
            yield bundle

    def results(self, finished: Iterable[tuple[list[Any], float]]) -> Iterator[Any]:
        """Yield the results of all items, and learn from the seconds of each bundle how many the next ones hold."""
        for results, seconds in finished:
            self._size = int(min(max(_SECONDS_OF_A_BUNDLE * len(results) / max(seconds, 1e-9), 1), _MOST_ITEMS))
            yield from results
