"""Worker processes on this machine: the same interface as a cluster, without one."""

import hashlib
import multiprocessing
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from copy import copy
from pathlib import Path
from typing import Any, Self

from turnover.errors import InfluenceError
from turnover.storage import write_atomically

from .execution import in_order
from .packing import UNPACKED, Shared, key_of, packed

_ITEMS_PER_WORKER = 4


class ProcessExecutor:
    """Computes tiles in worker processes on this machine; a worker that is killed costs its running tile only.

    Scores are the same, to the byte, as those of one process with as many threads as a worker has. Workers start with
    the first question and end with `close`, with a `with` block, or with this object. As always where Python starts
    processes, a script needs `if __name__ == "__main__":`, and what is handed over must be defined in a module.

    Args:
        workers: how many processes.
        threads: threads of torch in each of them.

    Example:
        >>> ProcessExecutor(2, threads=1).threads
        1
    """

    def __init__(self, workers: int = 2, *, threads: int = 1) -> None:
        """Start nothing yet."""
        for name, value in (("workers", workers), ("threads", threads)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InfluenceError(f"ProcessExecutor({name}=) must be an integer >= 1, got {value!r}.")
        self._workers, self._threads = workers, threads
        self._pool = _Pool(workers)
        self._shared: tuple[Shared, ...] = ()

    @property
    def threads(self) -> int:
        """Return how many threads of torch a task has."""
        return self._threads

    def sharing(self, objects: Sequence[Shared], *, memory: int) -> "ProcessExecutor":
        """Return the same executor with objects that many tasks hold; its workers are the same."""
        other = copy(self)
        other._shared = tuple(objects)
        return other

    def check_folder(self, folder: str) -> None:
        """Do nothing: processes of one machine see the same folders."""

    def map(self, task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield `task(item)` for every item, in order."""
        data = packed(task, self._shared)
        key = key_of(data)
        for one in self._shared:
            self._pool.keep(one.key, lambda one=one: packed(one.value))
        self._pool.keep(key, lambda: data)

        def submit(item: Any) -> Future[Any]:
            return self._pool.submit(_run, str(self._pool.folder), key, packed(item, self._shared), self._threads)

        window = _ITEMS_PER_WORKER * self._workers
        try:
            yield from in_order(items, submit, window=window, lost=BrokenProcessPool, restart=self._pool.restart)
        finally:
            self._pool.drop(key)

    def close(self) -> None:
        """End the workers; a later question starts them again."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Pool:
    """The processes, and a folder through which tasks and models reach them, each of them once."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._started: ProcessPoolExecutor | None = None
        self._folder: Path | None = None

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="turnover-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def keep(self, key: str, data: Callable[[], bytes]) -> None:
        place = _place(str(self.folder), key)
        if not place.exists():
            write_atomically(place, data())

    def drop(self, key: str) -> None:
        _place(str(self.folder), key).unlink(missing_ok=True)

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        if self._started is None:
            # Not forked: a fork of a process with threads, as torch has them, may hang.
            context = multiprocessing.get_context("spawn")
            self._started = ProcessPoolExecutor(self._workers, mp_context=context)
            weakref.finalize(self, self._started.shutdown, wait=False, cancel_futures=True)
        return self._started.submit(function, *given)

    def restart(self) -> None:
        self._started = None

    def close(self) -> None:
        if self._started is not None:
            self._started.shutdown(cancel_futures=True)
        self._started = None


def _place(folder: str, key: str) -> Path:
    return Path(folder) / hashlib.sha256(key.encode()).hexdigest()


def _run(folder: str, key: str, item: bytes, threads: int) -> Any:
    os.environ["OMP_NUM_THREADS"] = str(threads)
    return UNPACKED.run(key, item, lambda name: _place(folder, name).read_bytes(), threads=threads)
