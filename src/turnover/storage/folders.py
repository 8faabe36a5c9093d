"""Where the files of a store are: a folder of a disk, or a prefix in an object store, with the same few operations."""

import errno
import os
import shutil
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from turnover.errors import StoreError

from ._objects import ObjectFolder
from .arrays import verified
from .files import (
    append_file,
    atomic_file,
    is_path,
    make_folder,
    read_bytes,
    remove_file,
    remove_parts,
    write_atomically,
)
from .lock import FolderLock


class Lock(Protocol):
    """The right to write to a folder."""

    @property
    def held(self) -> bool:
        """Whether it is still ours."""
        ...

    def release(self) -> None:
        """Let the next writer in."""
        ...


class Folder(Protocol):
    """Files by name, with `/` between the parts of a name; each is there whole or not at all. Can be pickled."""

    def __str__(self) -> str:
        """Return the path or URL."""
        ...

    def check(self) -> None:
        """Raise where something else is in the place of the folder."""
        ...

    def make(self) -> None:
        """Make the folder where it is missing."""
        ...

    def names(self) -> list[str]:
        """Return the names directly in the folder, of files and folders."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None where it is missing."""
        ...

    def reading(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading, or raise FileNotFoundError."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file; it is kept for good on return."""
        ...

    def writing(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for writing that takes its place when the block ends."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        ...

    def sizes(self, name: str) -> dict[str, int]:
        """Return the bytes of all files below a folder, by their names."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Add to a list of lines."""
        ...

    def lines(self, name: str) -> bytes:
        """Return a list of lines; the last may be cut off."""
        ...

    def rewrite(self, name: str, data: bytes) -> None:
        """Make these the only lines of a list."""
        ...

    def remove_lines(self, name: str) -> None:
        """Remove a list of lines."""
        ...

    def remove_parts(self) -> None:
        """Remove what writers left behind that were killed."""
        ...

    def lock(self) -> Lock:
        """Return the right to write here, or raise `StoreLockedError` where another has it."""
        ...

    def room(self) -> int | None:
        """Return how many bytes are free; None: that is not known."""
        ...

    def zarr_store(self, name: str, checksums: Mapping[str, str]) -> Any:
        """Return what zarr reads an array from; tiles whose SHA-256 is here, by their keys, are verified."""
        ...


class LocalFolder:
    """A folder of a disk or a network drive."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def __str__(self) -> str:
        return str(self.path)

    def check(self) -> None:
        """Raise where a file is in the place of the folder."""
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{str(self)!r} must be a folder, but is a file.")

    def make(self) -> None:
        """Make the folder where it is missing."""
        make_folder(self.path)

    def names(self) -> list[str]:
        """Return the names directly in the folder."""
        if not self.path.exists():
            return []
        return sorted(entry.name for entry in self.path.iterdir())

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None where it is missing."""
        return read_bytes(self.path / name)

    def reading(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading."""
        return (self.path / name).open("rb")

    def write(self, name: str, data: bytes) -> None:
        """Write a file and wait until the disk has it."""
        write_atomically(self.path / name, data, sync=True)

    @contextmanager
    def writing(self, name: str) -> Generator[BinaryIO]:
        """Open a file for writing that takes its place when the block ends."""
        with atomic_file(self.path / name) as file:
            yield file

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        remove_file(self.path / name)

    def sizes(self, name: str) -> dict[str, int]:
        """Return the bytes of all files below a folder."""
        files = (Path(top, file) for top, _, found in os.walk(self.path / name) for file in found)
        return {file.relative_to(self.path).as_posix(): file.stat().st_size for file in files}

    def append(self, name: str, data: bytes) -> None:
        """Add to a list of lines, and wait until the disk has them."""
        append_file(self.path / name, data)

    def lines(self, name: str) -> bytes:
        """Return a list of lines."""
        return self.read(name) or b""

    def rewrite(self, name: str, data: bytes) -> None:
        """Make these the only lines of a list."""
        self.write(name, data)

    def remove_lines(self, name: str) -> None:
        """Remove a list of lines."""
        self.remove(name)

    def remove_parts(self) -> None:
        """Remove what `atomic_file` left behind where it was killed."""
        remove_parts(self.path)

    def lock(self) -> Lock:
        """Return the right to write here, by a lock of the operating system."""
        lock = FolderLock(self.path)
        if not os.access(self.path, os.W_OK | os.X_OK):
            lock.release()
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return lock

    def room(self) -> int | None:
        """Return how many bytes are free; None: a network drive that does not say."""
        usage = shutil.disk_usage(self.path)
        return usage.free if usage.total > 0 else None

    def zarr_store(self, name: str, checksums: Mapping[str, str]) -> Any:
        """Return what zarr reads an array from, with verified tiles."""
        from zarr.storage import LocalStore

        return verified(LocalStore, checksums)(self.path / name, read_only=True)


def open_folder(folder: str | os.PathLike[str]) -> Folder:
    """Return the folder at a path or, where a URL is given, in an object store: "s3://bucket/folder"."""
    if not is_path(folder):
        raise StoreError(f"a folder or file must be given by its path, got {folder!r}. Give a path: 'scores'.")
    if isinstance(folder, str) and "://" in folder:
        scheme, _, rest = folder.partition("://")
        return LocalFolder(rest) if scheme in ("file", "local") else ObjectFolder(folder)
    return LocalFolder(folder)
