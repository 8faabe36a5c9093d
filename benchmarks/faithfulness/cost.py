"""What a block of work costs this process: processor seconds and peak memory.

Processor seconds do not depend on what else the machine does. Memory is read once, at the end: watching it all the
time would cost time.
"""

import ctypes
import gc
import time
from pathlib import Path
from typing import Self

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Cost:
    """Measures the processor seconds of a `with` block and how far the resident memory of this process grows in it.

    Blocks may be nested: an inner one starts anew, and the outer one then knows no more than what the inner one saw
    and what came after it.

    Attributes:
        seconds: of the processor, of all threads together.
        peak_bytes: the growth; None where it cannot be read (it needs Linux's /proc).
    """

    seconds: float = 0.0
    peak_bytes: int | None = None

    def __enter__(self) -> Self:
        """Give back what can be given back and forget earlier peaks."""
        gc.collect()
        _give_back()
        self._start = _status("VmRSS")
        try:
            _CLEAR.write_text("5")
        except OSError:
            self._start = None
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        """Read the clock and the peak."""
        self.seconds = time.process_time() - self._began
        most = _status("VmHWM")
        if self._start is not None and most is not None:
            self.peak_bytes = max(0, most - self._start)


def _status(name: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


def _give_back() -> None:
    """Let the C library return freed memory, where it can: glibc keeps it otherwise, and its next use is not seen."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return
