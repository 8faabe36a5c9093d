"""Files of a disk: there whole or not at all, with one writer per folder; their checksums, sizes and errors.

What a file unpacks to is compared with the memory that is free, before any memory is taken.
"""

import errno
import hashlib
import json
import os
import socket
import tokenize
import uuid
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, Self, TypeGuard, cast

import numpy as np
from numpy.lib.npyio import NpzFile

from turnover.errors import StoreError, StoreLockedError, TooLargeError

_LOCK = "writer.lock"
_HOLDER = "writer.json"
LOCK_FILES = (_LOCK, _HOLDER)
"""The files that a lock, or a writer that was killed, leaves in its folder."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)
_DAMAGED = (
    *(EOFError, SyntaxError, RecursionError, MemoryError, KeyError),
    *(tokenize.TokenError, zlib.error, zipfile.BadZipFile, zipfile.LargeZipFile),
)
_SMALLER = "Give a smaller one."


def is_path(place: Any) -> TypeGuard[str | os.PathLike[str]]:
    """Tell whether a value can be the path of a file or folder: no empty text, and none that no file can have."""
    text: Any = os.fspath(place) if isinstance(place, str | os.PathLike) else None  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(text, str) or not text or "\0" in text:
        return False
    with suppress(UnicodeEncodeError):  # lone surrogates
        return bool(os.fsencode(text))
    return False


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, sync: bool = False) -> Generator[BinaryIO]:
    """Open a binary file for writing that takes its place when the block ends, whole; until then the old one stays.

    Its `name` is that of the temporary file beside the path. Where the block raises, nothing is left behind. Missing
    folders are made. With `sync` the disk has it on return: a power failure leaves it, or the file that it replaces.
    """
    target = Path(path)
    make_folder(target.parent, sync=sync)
    is_new = not target.exists()
    # Of its own for every thread, process and machine, so that none writes into another one's file.
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")  # see `is_part`
    try:
        with part.open("wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        # On a full disk the rest of a file would be in the way of making room.
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    if sync and is_new:  # else a power failure brings back the file that was there, whole
        _sync_folder(target.parent)


def is_part(name: str) -> bool:
    """Tell whether a file is one that `atomic_file` was writing, by its name: a killed writer leaves it behind."""
    return name.startswith(".") and name.endswith(".part")


def write_atomically(path: str | os.PathLike[str], content: str | bytes, *, sync: bool = False) -> None:
    """Write a file that is there whole or not at all, text as UTF-8 with line breaks as given; see `atomic_file`."""
    with atomic_file(path, sync=sync) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def make_folder(path: Path, *, sync: bool = True) -> None:
    """Make a folder and those above it where they are missing; with `sync` for good."""
    if not sync:
        path.mkdir(parents=True, exist_ok=True)
    elif not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """Wait until the disk has the names in a folder."""
    if os.name == "nt":
        return  # Windows opens no folders, and keeps names in order by itself.
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network drives cannot
            raise
    finally:
        os.close(fd)


def read_bytes(path: Path) -> bytes | None:
    """Return a file's content, or None where it is missing or a pipe, for which one would wait for ever."""
    if path.is_fifo():
        return None
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


class FolderLock:
    """The right to write to an existing folder, from construction to `release` or the end of a `with` block.

    The lock of a process that has ended, or was killed, blocks nobody. A forked child does not hold its parent's lock.
    Where another writer has it, and keeps it for `wait` seconds, `StoreLockedError` says which.
    """

    def __init__(self, folder: str | os.PathLike[str], *, wait: float = 0.0) -> None:
        from filelock import FileLock, Timeout

        self._folder = Path(folder)
        self._process = os.getpid()
        # Not per thread: a store may be closed by another thread than the one that opened it.
        self._lock = FileLock(self._folder / _LOCK, thread_local=False)
        try:
            self._lock.acquire(timeout=wait, blocking=wait > 0)
        except Timeout as error:
            raise locked_by(read_bytes(self._folder / _HOLDER), folder) from error
        try:
            write_atomically(self._folder / _HOLDER, json.dumps(about_writer()) + "\n")
        except BaseException:
            self.release()
            raise

    @property
    def held(self) -> bool:
        """False after `release`, and in a forked child: the lock stays with the parent."""
        return self._lock.is_locked and self._process == os.getpid()

    def release(self) -> None:
        if not self.held:
            return
        # Removed while locked; whoever has opened the file meanwhile sees that it has no name any more and tries
        # again. Windows cannot remove an open file; it stays there, unlocked.
        for name in (_HOLDER, _LOCK):
            with suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def about_writer() -> dict[str, Any]:
    """Return what a writer leaves of itself for others: process, host and when it began."""
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since}


def locked_by(content: bytes | None, folder: object) -> StoreLockedError:
    """Return the error for a folder that another writer has, who left this content there."""
    try:
        holder = json.loads(content or b"")
        who = f"the process with pid {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        who = "another process"  # which has just begun, or just ended
    return StoreLockedError(
        f"{str(folder)!r} is being written by {who}. Wait until it has ended, or give another folder."
    )


def sha256_of(data: bytes) -> str:
    """Return the checksum that marks carry."""
    return hashlib.sha256(data).hexdigest()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and contents of all files below a folder but hidden ones."""
    if path.is_fifo():
        raise OSError(errno.EINVAL, f"{str(path)!r} is a pipe, not a file")
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    whole = hashlib.sha256()
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not any(part.startswith(".") for part in name.parts):
            whole.update(f"{name.as_posix()}\0{digest_of(file)}\n".encode("utf-8", "surrogateescape"))
    return whole.hexdigest()


def holds(path: Path, checksum: str | None) -> bool:
    """Tell whether a file is there, readable, and has this checksum."""
    try:
        return digest_of(path) == checksum
    except OSError:
        return False


def is_full(error: OSError) -> bool:
    """Tell whether a file could not be written because there is no room for it."""
    return error.errno in _FULL


@contextmanager
def disk_errors(folder: object, *, to: str = "write to", needs: Callable[[], str] | None = None) -> Generator[None]:
    """Turn the disk's errors within the block into ones that say what to do.

    `needs` says how much room is missing and what was kept so far; it is called only on a full disk.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if is_full(error):
            raise StoreError(
                f"there is no room left for {str(folder)!r} ({reason}){needs() if needs else ''}. Make room and run "
                "the same call again with this folder: it resumes there."
            ) from error
        if error.errno in _FORBIDDEN:
            raise StoreError(f"cannot {to} {str(folder)!r}: {reason}. Give a folder that you may {to}.") from error
        raise StoreError(f"cannot {to} {str(folder)!r}: {error}.") from error


def readable(size: int) -> str:
    """Return a number of bytes as people write it: 1.2 MB."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


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
def open_arrays(path: str | os.PathLike[str], *, cure: str = _SMALLER) -> Generator["NpzFile[Any]"]:
    """Give the arrays of an npz file, all of which fit into memory; a damaged file raises ValueError or OSError."""
    # Opened here: of a damaged file NumPy would leave it open.
    with Path(path).open("rb") as file, arrays_in(file, str(path), cure=cure) as arrays:
        yield arrays


@contextmanager
def arrays_in(raw: BinaryIO, name: str, *, cure: str = _SMALLER) -> Generator["NpzFile[Any]"]:
    """Give the arrays of an npz file that is open; `name` is for errors. See `open_arrays`."""
    with _no_damage(name):
        loaded: Any = np.load(raw, allow_pickle=False)
        if not isinstance(loaded, NpzFile):
            raise ValueError("it holds a single array")
        with cast("NpzFile[Any]", loaded) as arrays:
            packed: zipfile.ZipFile = cast("Any", arrays).zip
            check_memory(sum(entry.file_size for entry in packed.infolist()), f"{name!r} unpacks to", cure=cure)
            yield arrays


def read_array(path: str | os.PathLike[str]) -> np.ndarray:
    """Return the array of an npy file that fits into memory; a damaged one raises ValueError or OSError."""
    check_memory(Path(path).stat().st_size, f"{str(path)!r} has", cure=_SMALLER)
    with _no_damage(str(path)):
        return np.load(path, allow_pickle=False)


@contextmanager
def _no_damage(name: str) -> Generator[None]:
    """Turn all that NumPy raises for damaged files into ValueError, also where an array declares more than there is."""
    try:
        yield
    except _DAMAGED as error:
        raise ValueError(f"{name} is damaged ({type(error).__name__}: {error})") from error


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
