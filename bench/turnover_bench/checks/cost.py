"""Cost of a method: seconds, memory of the process and its workers, and bytes that it keeps."""

import ctypes
import gc
import os
import threading
import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, Self

import numpy as np
from torch import Tensor

_EVERY = 0.005


class PeakResident:
    """Measures how far the resident memory of this process and its children grows within a `with` block.

    Resident memory is what the operating system has given out: torch, numpy and Python alike, but no memory of other
    devices. It is read every 5 ms, so that a shorter peak may be missed, and memory that was freed before and not
    given back may be used again without being counted; what can be given back is given back first.

    Attributes:
        bytes: the growth; None where it cannot be read (it needs Linux's /proc).

    Example:
        >>> with PeakResident() as peak:
        ...     room = np.ones(4_000_000)
        >>> peak.bytes is None or peak.bytes > 30_000_000
        True
    """

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._most = self._start = 0
        self._end = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        """Note what is in use and begin to look."""
        gc.collect()
        _give_back()
        self._start = self._most = resident_bytes() or 0
        if self._start:
            self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look a last time."""
        self._end.set()
        if self._start:
            self._watch.join()
            self._most = max(self._most, resident_bytes() or 0)
            self.bytes = self._most - self._start

    def _look(self) -> None:
        while not self._end.wait(_EVERY):
            self._most = max(self._most, resident_bytes() or 0)


class Stopwatch:
    """Measures the seconds of a `with` block."""

    seconds: float = 0.0

    def __enter__(self) -> Self:
        """Start."""
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.seconds = time.perf_counter() - self._start


def resident_bytes() -> int | None:
    """Return the resident memory of this process and all below it; None where there is no /proc."""
    sizes: list[int] = []
    processes = [os.getpid()]
    while processes:
        folder = Path(f"/proc/{processes.pop()}")
        try:
            sizes.append(int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
            for children in folder.glob("task/*/children"):
                processes += map(int, children.read_text().split())
        except (OSError, IndexError, ValueError):  # it has ended, or there is no /proc
            continue
    return sum(sizes) if sizes else None


def stored_bytes(method: Any, *, without: Iterable[Any] = ()) -> int:
    """Return what a method keeps to answer queries: its own `storage_bytes`, else its tensors and arrays."""
    if hasattr(method, "storage_bytes"):
        return int(method.storage_bytes)
    others: dict[int, int] = {}
    mine: dict[int, int] = {}
    seen: dict[int, Any] = {}
    for thing in without:
        _collect(thing, others, seen)
    _collect(method, mine, seen)
    return sum(size for place, size in mine.items() if place not in others)


def _collect(root: Any, sizes: dict[int, int], seen: dict[int, Any]) -> None:
    """Note address and size of all memory of tensors and arrays that can be reached."""
    todo = [root]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        # Kept with its address, so that no other object takes it while we look.
        seen[id(thing)] = thing
        if isinstance(thing, Tensor):
            memory = thing.untyped_storage()
            sizes[memory.data_ptr()] = memory.nbytes()
        elif isinstance(thing, np.ndarray):
            while isinstance(thing.base, np.ndarray):
                thing = thing.base
            sizes[thing.__array_interface__["data"][0]] = thing.nbytes
        elif isinstance(thing, Mapping):
            todo += thing.values()
        elif isinstance(thing, list | tuple | set | frozenset):
            todo += thing
        elif isinstance(thing, partial):
            todo += [thing.func, thing.args, thing.keywords]
        elif isinstance(thing, FunctionType):
            todo += [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
        else:
            todo += getattr(thing, "__dict__", {}).values()
            todo += [getattr(thing, name, None) for name in _slots(thing)]


def _slots(thing: Any) -> list[str]:
    given = [getattr(kind, "__slots__", ()) for kind in type(thing).__mro__]
    return [name for names in given for name in ([names] if isinstance(names, str) else names)]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _give_back() -> None:
    """Let the C library return freed memory, where it can: glibc keeps it otherwise."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return
