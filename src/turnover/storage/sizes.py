"""Sizes that files declare, compared with what they hold and with the memory that is free, before any is taken."""

import gzip
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np
from numpy.lib.npyio import NpzFile

from turnover.errors import TooLargeError

from .files import readable

# No deflate stream unpacks to more bytes per byte.
_MOST_UNPACKED = 1032
_BLOCK = 2**20
_DAMAGED = (EOFError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError, zlib.error)


def free_memory() -> int | None:
    """Return the bytes of memory that this process can have; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
        taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, StopIteration):
        return None
    import resource  # which systems without /proc may lack

    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    return free if allowed == resource.RLIM_INFINITY else max(0, min(free, allowed - taken))


def check_memory(size: int, what: str, *, cure: str) -> None:
    """Raise where `what`, such as "'x.npz' unpacks to", is more bytes than are free."""
    free = free_memory()
    if free is not None and size > free:
        raise TooLargeError(f"{what} {readable(size)}, and {readable(free)} of memory are free. {cure}")


@contextmanager
def open_arrays(path: str | os.PathLike[str], *, cure: str = "Give a smaller one.") -> Generator["NpzFile[Any]"]:
    """Give the arrays of an npz file: none is larger than what the file holds, and all of them fit into memory.

    A damaged file raises ValueError, OSError, zipfile.BadZipFile or zlib.error.
    """
    # Opened here: of a damaged file NumPy would leave it open.
    with Path(path).open("rb") as file, arrays_in(file, str(path), cure=cure) as arrays:
        yield arrays


@contextmanager
def arrays_in(raw: BinaryIO, name: str, *, cure: str = "Give a smaller one.") -> Generator["NpzFile[Any]"]:
    """Give the arrays of an npz file that is open; `name` is for errors. See `open_arrays`."""
    loaded: Any = np.load(raw, allow_pickle=False)
    if not isinstance(loaded, NpzFile):
        raise ValueError("it holds a single array")
    with cast("NpzFile[Any]", loaded) as arrays:
        packed: zipfile.ZipFile = cast("Any", arrays).zip
        entries = packed.infolist()
        size = sum(entry.file_size for entry in entries)
        check_memory(size, f"{name!r} unpacks to", cure=cure)
        for entry in entries:
            with packed.open(entry) as file:
                _check_declared(file, entry.file_size, entry.filename)
        yield arrays


def read_array(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the array of an npy file, if it is no larger than the file and fits into memory; else ValueError."""
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        check_memory(size, f"{str(path)!r} has", cure="Give a smaller one.")
        _check_declared(file, size, Path(path).name)
    return np.load(path, allow_pickle=False)


def _check_declared(file: IO[bytes], size: int, name: str) -> None:
    """Raise ValueError unless an array in npy format, of so many bytes with its header, declares no more."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(file)
        if version not in readers:
            raise ValueError(f"{name} has version {version} of the npy format")
        shape, _, dtype = readers[version](file)
    except _DAMAGED as error:
        raise ValueError(f"{name} is damaged ({type(error).__name__})") from error
    declared = math.prod(shape) * dtype.itemsize
    if declared > size:
        raise ValueError(f"{name} declares {readable(declared)} and has {readable(size)}")


def read_gzip(path: str | os.PathLike[str]) -> bytes:
    """Return what a gzip file unpacks to, if that fits into memory."""
    check_unpacked(path)
    with gzip.open(path) as file:
        return file.read()


def check_unpacked(path: str | os.PathLike[str]) -> None:
    """Raise where a gzip file unpacks to more than the memory that is free."""
    free = free_memory()
    if free is None or Path(path).stat().st_size * _MOST_UNPACKED <= free:
        return
    size = 0
    with gzip.open(path) as file:
        while block := file.read(_BLOCK):
            size += len(block)
            if size > free:
                check_memory(size, f"{str(path)!r} unpacks to more than", cure="Give a smaller one.")


def check_stored(file: str | os.PathLike[str] | IO[bytes]) -> None:
    """Raise ValueError where a zip file unpacks to more than it holds: weights are stored without compression."""
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as opened:
        entries = opened.infolist()
    unpacked, held = sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries)
    if unpacked > held:
        raise ValueError(
            f"it has {readable(held)} and would unpack to {readable(unpacked)}; weights are not compressed"
        )
