"""Where the files of a store are: a folder of a disk, or a prefix in an object store, with the same few operations.

In an object store (s3, gs and others, by fsspec) nothing can be renamed. A put makes an object visible whole or not at
all, which is what `atomic_file` does on a disk. One writer at a time is held by a lease: an object with the writer's
name that is created only where there is none, and renewed as long as the writer lives. A lease that was not renewed
for a minute, by the clock of who looks at it, is taken over. That keeps two writers from doing the same work. A lock is
safer: a writer that was cut off from the store and comes back may write for a moment beside the one that took over.
Nothing is damaged by that, since both write the same bytes under the same names; the first finds its lease lost and
stops.
"""

import errno
import json
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

from turnover.errors import MissingExtraError, StoreError, StoreLockedError

from .files import (
    FolderLock,
    about_writer,
    atomic_file,
    is_part,
    is_path,
    locked_by,
    make_folder,
    read_bytes,
    write_atomically,
)

_HOLDER = "writer.json"
_INSTALL = {"s3": "pip install 'turnover[s3]'", "gs": "pip install 'turnover[gs]'"}


class Folder:
    """Objects under a URL, each there whole or not at all, by names with `/` between their parts; can be pickled."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self._url = str(url).rstrip("/")
        _ = self._files  # a package that is missing shows before the work

    def __str__(self) -> str:
        return self._url

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._url,)

    @cached_property
    def _files(self) -> tuple[Any, str]:
        """Return the file system and the path in it."""
        import fsspec  # pyright: ignore[reportMissingTypeStubs]

        scheme = self._url.partition("://")[0]
        try:
            # Lists are never kept: other machines write to the same folder.
            return cast("Any", fsspec).core.url_to_fs(self._url, use_listings_cache=False)
        except ImportError as error:
            install = _INSTALL.get(scheme, "pip install the package of fsspec for this kind of URL")
            raise MissingExtraError(f"{self._url!r} needs a package for {scheme}:// ({error}): {install}.") from error
        except ValueError as error:
            raise MissingExtraError(f"{self._url!r}: {error}. Give a folder, or s3://bucket/folder.") from error

    @contextmanager
    def _open(self) -> Generator[tuple[Any, str]]:
        """Give the file system, with all its errors as those of a disk."""
        try:
            yield self._files
        except (OSError, MissingExtraError, StoreLockedError):
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {error}") from error

    def check(self) -> None:
        """Raise where something else is in the place of the folder; an object of the same name is not in the way."""

    def make(self) -> None:
        """Make the folder where it is missing; names of objects need none, but a bucket must be there."""

    def names(self) -> list[str]:
        """Return the names directly in the folder, of files and folders."""
        with self._open() as (files, path):
            try:
                names = files.ls(path, detail=False)
            except FileNotFoundError:
                return []
        return sorted(name.rstrip("/").rpartition("/")[2] for name in names if name.rstrip("/") != path)

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None where it is missing."""
        with self._open() as (files, path):
            try:
                return files.cat_file(f"{path}/{name}")
            except FileNotFoundError:
                return None

    @contextmanager
    def reading(self, name: str) -> Generator[BinaryIO]:
        """Open a file for reading, or raise FileNotFoundError."""
        with self._open() as (files, path), files.open(f"{path}/{name}", "rb") as file:
            yield file

    def write(self, name: str, data: bytes) -> None:
        """Write a file; it is kept for good on return."""
        with self._open() as (files, path):
            files.pipe_file(f"{path}/{name}", data)

    @contextmanager
    def writing(self, name: str) -> Generator[BinaryIO]:
        """Open a file for writing that takes its place when the block ends."""
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, "file")
            with open(local, "wb") as file:
                yield file
            with self._open() as (files, path):
                files.put_file(local, f"{path}/{name}")

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with self._open() as (files, path), suppress(FileNotFoundError):
            files.rm_file(f"{path}/{name}")

    def sizes(self, name: str) -> dict[str, int]:
        """Return the bytes of all files below a folder, by their names."""
        with self._open() as (files, path):
            found = files.find(f"{path}/{name}".rstrip("/"), detail=True)
            return {key[len(path) + 1 :]: int(info["size"]) for key, info in found.items()}

    def remove_parts(self) -> None:
        """Remove what writers left behind that were killed."""
        for name in self.sizes(""):
            if is_part(name.rpartition("/")[2]):
                self.remove(name)

    def lock(self) -> "FolderLock | Lease":
        """Return the right to write here, or raise `StoreLockedError` where another has it."""
        return Lease(self)

    def create(self, name: str, data: bytes) -> bool:
        """Put an object only where there is none, and tell whether it was put."""
        with self._open() as (files, path):
            try:
                files.pipe_file(f"{path}/{name}", data, mode="create")
            except FileExistsError:
                return False
            except (TypeError, NotImplementedError):  # a store that cannot: looked at, then put
                if self.read(name) is not None:
                    return False
                self.write(name, data)
            except OSError as error:
                # Conditional puts fail as 412 (there is one) or 409 (another is just putting one).
                if any(text in str(error) for text in ("PreconditionFailed", "pre-conditions", "412", "409", "exists")):
                    return False
                raise
        return True

    def room(self) -> int | None:
        """Return how many bytes are free; None: that is not known, or object stores do not get full."""

    def zarr_store(self, name: str) -> Any:
        """Return what zarr reads an array from."""
        from zarr.storage import FsspecStore

        return FsspecStore.from_url(
            f"{self._url}/{name}", storage_options={"use_listings_cache": False}, read_only=True
        )


class LocalFolder(Folder):
    """A folder of a disk or a network drive: what is written is on the disk on return, and the lock is the system's."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        super().__init__(self.path)

    def check(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{str(self)!r} must be a folder, but is a file.")

    def make(self) -> None:
        make_folder(self.path)

    def read(self, name: str) -> bytes | None:
        return read_bytes(self.path / name)

    def write(self, name: str, data: bytes) -> None:
        write_atomically(self.path / name, data, sync=True)

    @contextmanager
    def writing(self, name: str) -> Generator[BinaryIO]:
        with atomic_file(self.path / name) as file:
            yield file

    def lock(self) -> FolderLock:
        lock = FolderLock(self.path)
        if not os.access(self.path, os.W_OK | os.X_OK):
            lock.release()
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return lock

    def room(self) -> int | None:
        """Return how many bytes are free; None: a network drive that does not say."""
        usage = shutil.disk_usage(self.path)
        return usage.free if usage.total > 0 else None

    def zarr_store(self, name: str) -> Any:
        from zarr.storage import LocalStore

        return LocalStore(self.path / name, read_only=True)


class Lease:
    """The right to write to a folder of an object store, as long as it is renewed."""

    seconds: ClassVar[float] = 60.0
    renewed_every: ClassVar[float] = 15.0
    looked_at_every: ClassVar[float] = 1.0
    settles_in: ClassVar[float] = 1.0

    def __init__(self, folder: Folder) -> None:
        self._folder, self._process = folder, os.getpid()
        self._token, self._renewals, self._about = uuid.uuid4().hex, 0, about_writer()
        self._ended = threading.Event()
        if not folder.create(_HOLDER, self._content()):
            self._take_over()
        self._renewing = threading.Thread(target=self._renew, name="turnover-lease", daemon=True)
        self._renewing.start()

    @property
    def held(self) -> bool:
        """False after `release`, in a forked child, and where another writer has taken over."""
        return not self._ended.is_set() and self._process == os.getpid()

    def release(self) -> None:
        if not self.held:
            return
        self._ended.set()
        # Else a renewal that is under way would come after the removal, and keep others waiting.
        self._renewing.join(self.seconds)
        if _token(self._folder.read(_HOLDER)) == self._token:
            self._folder.remove(_HOLDER)

    def _content(self) -> bytes:
        return (json.dumps({**self._about, "token": self._token, "renewed": self._renewals}) + "\n").encode()

    def _take_over(self) -> None:
        """Wait whether the lease is renewed; take it where it is not, or raise."""
        seen, since = self._folder.read(_HOLDER), time.monotonic()
        while seen is not None and time.monotonic() - since < self.seconds:
            time.sleep(self.looked_at_every)
            now = self._folder.read(_HOLDER)
            if now is not None and now != seen:
                raise locked_by(now, self._folder)
            seen = now
        self._folder.write(_HOLDER, self._content())
        # Another that looked at the same moment may have put its own name over ours: the last one has it.
        time.sleep(self.settles_in)
        last = self._folder.read(_HOLDER)
        if _token(last) != self._token:
            raise locked_by(last, self._folder)

    def _renew(self) -> None:
        while not self._ended.wait(self.renewed_every):
            try:
                if _token(self._folder.read(_HOLDER)) not in (self._token, None):
                    self._ended.set()
                    return
                self._renewals += 1
                self._folder.write(_HOLDER, self._content())
            except OSError:
                continue  # the store may answer again before the lease ends; else another takes over


def _token(content: bytes | None) -> str | None:
    try:
        return None if content is None else str(json.loads(content)["token"])
    except (ValueError, KeyError, TypeError):
        return ""


def open_folder(folder: str | os.PathLike[str]) -> Folder:
    """Return the folder at a path or, where a URL is given, in an object store: "s3://bucket/folder"."""
    if not is_path(folder):
        raise StoreError(f"a folder or file must be given by its path, got {folder!r}. Give a path: 'scores'.")
    if isinstance(folder, str) and "://" in folder:
        scheme, _, rest = folder.partition("://")
        return LocalFolder(rest) if scheme in ("file", "local") else Folder(folder)
    return LocalFolder(folder)
