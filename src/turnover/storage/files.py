"""Files that are there whole or not at all; errors of the disk that say what to do."""

import errno
import hashlib
import os
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from turnover.errors import StoreError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


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
    folders are made. With `sync` the disk has it on return, so that it survives a power failure.
    """
    target = Path(path)
    make_folder(target.parent, sync=sync)
    # Of its own for every thread, process and machine, so that none writes into another one's file.
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
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
    if sync:
        _sync_folder(target.parent)


def write_atomically(path: str | os.PathLike[str], content: str | bytes, *, sync: bool = False) -> None:
    """Write a file that is there whole or not at all, text as UTF-8 with line breaks as given; see `atomic_file`."""
    with atomic_file(path, sync=sync) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def append_file(path: Path, data: bytes) -> None:
    """Append to a file and wait until the disk has it; a kill may leave a beginning of the data."""
    new = not path.exists()
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if new:
        _sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file if it is there, for good."""
    if path.exists():
        path.unlink()
        _sync_folder(path.parent)


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


def remove_parts(folder: Path) -> None:
    """Remove what `atomic_file` left behind where it was killed."""
    for part in folder.rglob(".*.part"):
        part.unlink()


def read_bytes(path: Path) -> bytes | None:
    """Return a file's content, or None where it is missing or a pipe, for which one would wait for ever."""
    if path.is_fifo():
        return None
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


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
