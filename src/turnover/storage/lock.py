"""One writer per folder: a lock that the operating system drops when its holder ends, however it ends."""

import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from turnover.errors import StoreLockedError

from .files import write_atomically

_LOCK = "writer.lock"
_HOLDER = "writer.json"
LOCK_FILES = (_LOCK, _HOLDER)
"""The files that a lock, or a writer that was killed, leaves in its folder."""


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
            holder = _holder(self._folder)
            raise StoreLockedError(
                f"{str(folder)!r} is being written by {holder}. Wait until it has ended, or give another folder.",
            ) from error
        try:
            self._write_holder()
        except BaseException:
            self.release()
            raise

    @property
    def held(self) -> bool:
        """False after `release`, and in a forked child: the lock stays with the parent."""
        return self._lock.is_locked and self._process == os.getpid()

    def release(self) -> None:
        """Let the next writer in."""
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

    def _write_holder(self) -> None:
        since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        holder = {"pid": self._process, "host": socket.gethostname(), "since": since}
        write_atomically(self._folder / _HOLDER, json.dumps(holder) + "\n")


def _holder(folder: Path) -> str:
    """Return who writes to a folder, in words."""
    try:
        holder = json.loads((folder / _HOLDER).read_bytes())
        return f"the process with pid {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"  # which has just begun, or just ended
