"""One writer a folder: a lock that the operating system drops when its holder ends, however it ends."""

import os
import socket
import sys
from contextlib import suppress
from io import FileIO
from pathlib import Path
from weakref import WeakSet

from turnover.errors import StoreLockedError

LOCK_NAME = "writer.lock"

if sys.platform == "win32":
    import msvcrt

    # Windows forbids others to read what is locked; the process id is read, so a byte far behind it is locked.
    _LOCKED_BYTE = 1 << 20

    def _try_to_lock(file: FileIO) -> bool:
        file.seek(_LOCKED_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_to_lock(file: FileIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class WriterLock:
    """The right to write to a folder, from construction to `release`.

    Raises:
        StoreLockedError: another writer has it.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK_NAME
        self._file: FileIO | None = self._locked_file(folder)
        _held.add(self)

    @property
    def held(self) -> bool:
        """False after `release`, and in a forked child: the lock stays with the parent."""
        return self._file is not None

    def release(self) -> None:
        """Let the next writer in."""
        if self._file is not None:
            # Windows cannot remove an open file; it stays there, unlocked.
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self.drop()

    def drop(self) -> None:
        """Close this process's handle of the lock file and leave the file alone."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _locked_file(self, folder: Path) -> FileIO:
        while True:
            file = FileIO(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
            try:
                if not _try_to_lock(file):
                    raise StoreLockedError(
                        f"{str(folder)!r} is being written by {self._holder(file)}. "
                        "Wait until it has ended, or give another folder."
                    )
                if self._is_current(file):
                    file.seek(0)
                    file.truncate()
                    file.write(f"{os.getpid()} {socket.gethostname()}\n".encode())
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    def _is_current(self, file: FileIO) -> bool:
        """Tell whether the path still leads to this file; the last holder removed it if it let go just now."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False

    @staticmethod
    def _holder(file: FileIO) -> str:
        file.seek(0)
        pid, _, host = file.read(256).decode(errors="replace").strip().partition(" ")
        return f"the process with pid {pid} on {host}" if pid else "another process"


_held: WeakSet[WriterLock] = WeakSet()


def _drop_all() -> None:
    for lock in list(_held):
        lock.drop()


# A forked worker shares its parent's lock and would keep it alive after the parent was killed.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_all)
