"""Who computes tasks: this process, worker processes on this machine, or a cluster; tasks as bytes.

A task is a serializable function (a dataclass with `__call__`), an item is what one call needs of its own: a range of
instances, some rows. Results come back in the order of the items, so that sums over them are the same whoever made
them. Models and data, which many tasks hold, travel apart and only once.
"""

import copyreg
import hashlib
import io
import multiprocessing
import os
import pickle
import shutil
import tempfile
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from copy import copy
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from turnover.errors import InfluenceError
from turnover.storage import write_atomically

_MOST_LOSSES = 3
_SECONDS_OF_A_BUNDLE, _MOST_ITEMS, _MANY = 0.5, 256, 2**31
_ITEMS_PER_WORKER = 4
_KEPT = 4
T = TypeVar("T")
Fetch = Callable[[str], Any]
"""Returns the bytes that were packed under a key, as bytes or something with a buffer of them."""


@dataclass(frozen=True)
class Shared:
    """A large object that many tasks hold: a list of models, or the training data."""

    key: str  # the same for the same content, as long as the process lives
    value: Any

    def parts(self) -> Iterator[tuple[Any, tuple[str, int, str]]]:
        """Yield what of it a task may hold, and how it is named: of models every module, of other things the whole."""
        several = isinstance(self.value, list) and all(isinstance(one, nn.Module) for one in self.value)
        models = self.value if several else []
        for number, model in enumerate(models):
            for path, module in model.named_modules():
                yield module, (self.key, number, path)
        if not models:
            yield self.value, (self.key, -1, "")


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
    return not isinstance(executor, LocalExecutor) and isinstance(executor, RemoteExecutor)


def threads_of(executor: Executor) -> int:
    """Return how many threads of torch each task has; the last bits of scores depend on it."""
    return executor.threads if is_remote(executor) else torch.get_num_threads()


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


@cache
def keep_freed_memory() -> None:
    """Let this process keep the memory of a chunk for the next one, where it would be handed back and asked for again.

    The C library of Linux does so with blocks that are smaller than the largest that was ever freed, up to 32 MiB
    (mallopt(3), M_MMAP_THRESHOLD). So one is freed here, which nobody wrote to.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


# Tasks as bytes


def packed(value: Any, shared: Sequence[Shared] = (), *, pickler: Any = pickle.Pickler) -> bytes:
    """Return a value as bytes, with names in place of what is shared; `pickler` is a class like pickle's.

    Raises:
        InfluenceError: something in it cannot leave this process.
    """
    names: dict[int, tuple[str, int, str]] = {}
    for one in shared:
        for part, name in one.parts():
            names.setdefault(id(part), name)

    known = getattr(pickler, "dispatch_table", None)
    table = {**(known if isinstance(known, Mapping) else copyreg.dispatch_table), Tensor: _reduced}

    class Packer(pickler):
        # Of the class: a pickler whose class has a table of its own never asks the object for one.
        dispatch_table = table

        def persistent_id(self, obj: Any) -> tuple[str, int, str] | None:
            return names.get(id(obj))

    target = io.BytesIO()
    packer = Packer(target, protocol=5)
    try:
        packer.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InfluenceError(
            f"this cannot be sent to another process: {error}. Define loss, measure, model and data set at the top of "
            "a module or script, not within a function, and leave open files and locks out of them; or give no "
            "executor."
        ) from error
    return target.getvalue()


def key_of(data: bytes) -> str:
    """Return the name of packed bytes."""
    return hashlib.sha256(data).hexdigest()


def _reduced(tensor: Tensor) -> Any:
    """Return what pickle writes of a tensor: of ids in a row their range, of a part of a larger tensor that part."""
    if tensor.dtype == torch.int64 and tensor.dim() == 1 and len(tensor) and tensor.device.type == "cpu":
        start = int(tensor[0])
        if start + len(tensor) < 2**63 and torch.equal(tensor, _in_a_row(start, len(tensor))):
            return _in_a_row, (start, len(tensor))
    if tensor.layout == torch.strided and tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size():
        tensor = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return tensor.__reduce_ex__(5)


def _in_a_row(start: int, count: int) -> Tensor:
    return torch.arange(start, start + count)


class Unpacked:
    """What a worker process has unpacked, the last few of each kind, so that items of one task find it ready."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._tasks: OrderedDict[str, Any] = OrderedDict()
        self._shared: OrderedDict[str, Any] = OrderedDict()

    def run(self, key: str, item: bytes, fetch: Fetch, *, threads: int) -> Any:
        """Return what a task makes of an item; both may name what is shared."""
        keep_freed_memory()
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        task = _kept(self._tasks, key, lambda: self._read(fetch(key), fetch))
        with torch.no_grad():
            return task(self._read(item, fetch))

    def _read(self, data: Any, fetch: Fetch) -> Any:
        def named(name: tuple[str, int, str]) -> Any:
            key, number, path = name
            value = _kept(self._shared, key, lambda: self._read(fetch(key), fetch))
            return value if number < 0 else value[number].get_submodule(path)

        class Unpacker(pickle.Unpickler):
            def persistent_load(self, pid: Any) -> Any:
                return named(pid)

        return Unpacker(io.BytesIO(data)).load()


def _kept(values: "OrderedDict[str, Any]", key: str, make: Callable[[], Any]) -> Any:
    """Return a value that is kept, or make it; the one that was not used for longest goes."""
    if key not in values:
        while len(values) >= _KEPT:
            values.popitem(last=False)
        values[key] = make()
    values.move_to_end(key)
    return values[key]


UNPACKED = Unpacked()
"""Of this process, where it is a worker."""


# Worker processes


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
