"""A folder in an object store, by fsspec: s3, gs and others, where nothing can be renamed or appended to.

A put makes an object visible whole or not at all, which is what `atomic_file` does on a disk. A list of lines is an
object for each line. One writer at a time is held by a lease: an object with the writer's name that is created only
where there is none, and renewed as long as the writer lives. A lease that was not renewed for `_LEASE` seconds, by the
clock of who looks at it, is taken over. That keeps two writers from doing the same work. A lock is safer: a writer that
was cut off from the store and comes back may write for a moment beside the one that took over. Nothing is damaged by
that, since both write the same bytes under the same names; the first finds its lease lost and stops.
"""

import json
import os
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, BinaryIO, cast

from turnover.errors import MissingExtraError, StoreLockedError

from .arrays import verified

_HOLDER = "writer.json"
_LEASE, _RENEWED_EVERY, _LOOKS_EVERY, _SETTLES = 60.0, 15.0, 1.0, 1.0
_INSTALL = {"s3": "pip install 'turnover[s3]'", "gs": "pip install 'turnover[gs]'"}


class ObjectFolder:
    """The objects under a URL."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        _ = self._files  # a package that is missing shows before the work

    def __str__(self) -> str:
        return self._url

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectFolder, (self._url,)

    @cached_property
    def _files(self) -> tuple[Any, str]:
        """Return the file system and the path in it."""
        scheme = self._url.partition("://")[0]
        try:
            import fsspec  # pyright: ignore[reportMissingTypeStubs]

            # Lists are never kept: other machines write to the same folder.
            return cast("Any", fsspec).core.url_to_fs(self._url, use_listings_cache=False)
        except ImportError as error:
            install = _INSTALL.get(scheme, "pip install fsspec and the package for this kind of URL")
            raise MissingExtraError(
                f"{self._url!r} needs fsspec and a package for {scheme}:// ({error}): {install}."
            ) from error
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
        """Do nothing: an object of the same name is not in the way."""

    def make(self) -> None:
        """Do nothing: names need no folder; a bucket must be there."""

    def names(self) -> list[str]:
        """Return the names directly in the folder."""
        with self._open() as (files, path):
            try:
                names = files.ls(path, detail=False)
            except FileNotFoundError:
                return []
        return sorted(name.rstrip("/").rpartition("/")[2] for name in names if name.rstrip("/") != path)

    def read(self, name: str) -> bytes | None:
        """Return an object's content, or None where it is missing."""
        with self._open() as (files, path):
            try:
                return files.cat_file(f"{path}/{name}")
            except FileNotFoundError:
                return None

    @contextmanager
    def reading(self, name: str) -> Generator[BinaryIO]:
        """Open an object for reading."""
        with self._open() as (files, path), files.open(f"{path}/{name}", "rb") as file:
            yield file

    def write(self, name: str, data: bytes) -> None:
        """Put an object."""
        with self._open() as (files, path):
            files.pipe_file(f"{path}/{name}", data)

    @contextmanager
    def writing(self, name: str) -> Generator[BinaryIO]:
        """Open a file for writing that is put when the block ends."""
        with tempfile.TemporaryDirectory() as folder:
            local = os.path.join(folder, "file")
            with open(local, "wb") as file:
                yield file
            with self._open() as (files, path):
                files.put_file(local, f"{path}/{name}")

    def remove(self, name: str) -> None:
        """Remove an object if it is there."""
        with self._open() as (files, path):
            try:
                files.rm_file(f"{path}/{name}")
            except FileNotFoundError:
                return

    def sizes(self, name: str) -> dict[str, int]:
        """Return the bytes of all objects below a name."""
        with self._open() as (files, path):
            objects = files.find(f"{path}/{name}", detail=True)
            return {key[len(path) + 1 :]: int(info["size"]) for key, info in objects.items()}

    def append(self, name: str, data: bytes) -> None:
        """Add to a list of lines, as an object of its own; later ones have later names."""
        self.write(f"{name}.d/{time.time_ns():020d}-{uuid.uuid4().hex[:8]}", data)

    def lines(self, name: str) -> bytes:
        """Return a list of lines."""
        whole = self.read(name) or b""
        with self._open() as (files, path):
            keys = sorted(files.find(f"{path}/{name}.d"))
            added = cast("dict[str, bytes]", files.cat(keys)) if keys else {}
        return whole + b"".join(added[key] for key in keys)

    def rewrite(self, name: str, data: bytes) -> None:
        """Make these the only lines of a list."""
        self.write(name, data)
        self._remove_added(name)

    def remove_lines(self, name: str) -> None:
        """Remove a list of lines."""
        self.remove(name)
        self._remove_added(name)

    def _remove_added(self, name: str) -> None:
        with self._open() as (files, path):
            keys = files.find(f"{path}/{name}.d")
            if keys:
                files.rm(keys)

    def remove_parts(self) -> None:
        """Remove what a check of the folder left behind where it was killed."""
        for name in self.names():
            if name.startswith(".") and name.endswith(".part"):
                self.remove(name)

    def lock(self) -> "Lease":
        """Return the right to write here."""
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

    def room(self) -> None:
        """Return None: object stores do not get full."""

    def zarr_store(self, name: str, checksums: Mapping[str, str]) -> Any:
        """Return what zarr reads an array from, with verified tiles."""
        from zarr.storage import FsspecStore

        return verified(FsspecStore, checksums).from_url(
            f"{self._url}/{name}", storage_options={"use_listings_cache": False}, read_only=True
        )


class Lease:
    """The right to write to a folder of an object store, as long as it is renewed."""

    def __init__(self, folder: ObjectFolder) -> None:
        self._folder, self._process = folder, os.getpid()
        self._token, self._renewals = uuid.uuid4().hex, 0
        self._ended = threading.Event()
        self._since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        if not folder.create(_HOLDER, self._content()):
            self._take_over()
        self._renewing = threading.Thread(target=self._renew, name="turnover-lease", daemon=True)
        self._renewing.start()

    @property
    def held(self) -> bool:
        """False after `release`, in a forked child, and where another writer has taken over."""
        return not self._ended.is_set() and self._process == os.getpid()

    def release(self) -> None:
        """Let the next writer in."""
        if not self.held:
            return
        self._ended.set()
        # Else a renewal that is under way would come after the removal, and keep others waiting.
        self._renewing.join(_LEASE)
        if _token(self._folder.read(_HOLDER)) == self._token:
            self._folder.remove(_HOLDER)

    def _content(self) -> bytes:
        holder = {"pid": self._process, "host": socket.gethostname(), "since": self._since}
        return (json.dumps({**holder, "token": self._token, "renewed": self._renewals}) + "\n").encode()

    def _take_over(self) -> None:
        """Wait whether the lease is renewed; take it where it is not, or raise."""
        seen, since = self._folder.read(_HOLDER), time.monotonic()
        while seen is not None and time.monotonic() - since < _LEASE:
            time.sleep(_LOOKS_EVERY)
            now = self._folder.read(_HOLDER)
            if now is not None and now != seen:
                raise StoreLockedError(
                    f"{str(self._folder)!r} is being written by {_holder(now)}. Wait until it has ended, or give "
                    "another folder.",
                )
            seen = now
        self._folder.write(_HOLDER, self._content())
        # Another that looked at the same moment may have put its own name over ours: the last one has it.
        time.sleep(_SETTLES)
        last = self._folder.read(_HOLDER)
        if _token(last) != self._token:
            raise StoreLockedError(
                f"{str(self._folder)!r} was just taken over by {_holder(last)}. Wait until it has ended, or give "
                "another folder.",
            )

    def _renew(self) -> None:
        while not self._ended.wait(_RENEWED_EVERY):
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


def _holder(content: bytes | None) -> str:
    try:
        holder = json.loads(content or b"")
        return f"the process with pid {holder['pid']} on {holder['host']} since {holder['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
