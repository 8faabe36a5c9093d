"""A small store that the tests write, by themselves or in processes that get killed."""

import hashlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from turnover.storage import LOCK_FILES, ArraySpec, TileStore

IDENTITY = {"model": {"seed": 0, "at": ["fc1", "fc2"]}, "keep": 0.5}
# Neither dimension is a multiple of its tile.
ARRAYS = {"values": ArraySpec((7, 5), "float32", (3, 2)), "counts": ArraySpec((7, 5), "int64", (3, 2))}
LONG = {"values": ArraySpec((27, 11), "float32", (1, 4))}
SHORT = {"values": ArraySpec((3, 2), "float32", (2, 2))}
ATTRIBUTES = {"unit": "nats", "path": "generic"}
WRITING = os.O_WRONLY | os.O_RDWR
WHOLE = {"offset": np.linspace(0, 1, 5), "empty": np.zeros((0, 2), np.int32), "scalar": np.array(3, np.int8)}


def open_store(folder, arrays=ARRAYS, identity=IDENTITY):
    return TileStore.open_for_writing(folder, identity=identity, arrays=arrays)


def parts_of(tile, arrays=ARRAYS):
    return {name: _numbers(tile, spec.part_shape(tile)).astype(spec.dtype) for name, spec in arrays.items()}


def _numbers(tile, shape):
    return (tile * 37 - np.arange(math.prod(shape)) * 1.75).reshape(shape)


def expected(name, arrays=ARRAYS):
    spec = arrays[name]
    result = np.empty(spec.shape, spec.dtype)
    for tile in range(spec.tiles):
        result[spec.region(tile)] = parts_of(tile, arrays)[name]
    return result


def fill(store, *, before=lambda tile: None):
    for tile in store.pending():
        before(tile)
        store.write(tile, parts_of(tile, store.arrays))
    if not store.complete:
        store.finish(ATTRIBUTES, whole=WHOLE)


def make(folder, arrays=ARRAYS):
    with open_store(folder, arrays) as store:
        fill(store)
    return folder


def tree(folder):
    """Every file below a folder, by its checksum, those of the lock aside."""
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file() and path.name not in LOCK_FILES]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def fill_slowly(folder: Path, progress: Connection) -> None:
    """Run in a process that gets killed from outside; say before each tile that it begins."""

    def pause(tile):
        progress.send(tile)
        time.sleep(0.005)

    progress.send("started")
    with open_store(folder, LONG) as store:
        fill(store, before=pause)


def die_before(last: int, folder: Path) -> Callable[[], int]:
    """Let this process kill itself before the change within a folder that has this number; return what counts them."""
    count = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        changes = event in {"os.mkdir", "os.rename", "os.remove"} or (event == "open" and args[2] & WRITING)
        if changes and str(args[0]).startswith(str(folder)):
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(watch)
    return lambda: count


def fill_and_die(folder: Path, last: int) -> None:
    """Run in a process of its own, which kills itself before the change on the disk that has this number."""
    die_before(last, folder)
    with open_store(folder, SHORT) as store:
        fill(store)


def hold(folder: Path, answer: Connection) -> None:
    """Try to become the writer; say how that went, and stay it until told otherwise."""
    try:
        with open_store(folder):
            answer.send("writer")
            answer.recv()
    except Exception as error:  # noqa: BLE001
        answer.send(f"{type(error).__name__}: {error}")


def hold_with_child(folder: Path, answer: Connection) -> None:
    """Become the writer and fork a worker that outlives it."""
    with open_store(folder) as store:
        child = os.fork()
        if child == 0:
            try:
                store.write(0, parts_of(0))
            except Exception as error:  # noqa: BLE001
                answer.send(f"{type(error).__name__}: {error}")
            time.sleep(60)
            os._exit(0)
        answer.send(child)
        time.sleep(60)
