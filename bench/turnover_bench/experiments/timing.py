"""Time on a busy machine: processor seconds, one thread, freed memory, ratios in turns, growth with size."""

import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Return the seconds of a call: of the processor, which other programs change little, or of another clock."""
    start = clock()
    work()
    return clock() - start


@contextmanager
def one_thread() -> Iterator[None]:
    """Give torch one thread: on networks this small a second one is noise."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# As malloc.h of glibc numbers them.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory() -> None:
    """Let the C library keep the memory of freed tensors for the next ones, where it can.

    glibc gives large blocks back at once, so that every training step pays for their pages anew: half of its time or
    more with large layers.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, -1)


@dataclass(frozen=True)
class Ratio:
    """Time of one call as a share of another: the median over rounds, and the middle half."""

    value: float
    low: float
    high: float
    seconds: float
    base_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.value:6.3f}  (middle half {self.low:.3f} to {self.high:.3f}; "
            f"{self.seconds * 1e3:.2f} ms against {self.base_seconds * 1e3:.2f} ms)"
        )


def ratio(ours: Callable[[], object], base: Callable[[], object], *, rounds: int = 31, warm_up: int = 3) -> Ratio:
    """Return the time of `ours` as a share of the time of `base`, measured in turns by the wall clock."""
    for _ in range(warm_up):
        ours()
        base()
    pairs = [(seconds(ours, time.perf_counter), seconds(base, time.perf_counter)) for _ in range(rounds)]
    low, middle, high = statistics.quantiles([a / b for a, b in pairs], n=4)
    return Ratio(middle, low, high, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs))


@dataclass(frozen=True)
class Growth:
    """An exponent k of y ~ x^k, its standard error, and the exponent at the three largest x alone."""

    exponent: float
    stderr: float
    largest: float


def growth(x: ArrayLike, y: ArrayLike) -> Growth:
    """Return the exponent by least squares on logarithms; a standard error needs three points.

    Example:
        >>> growth([1, 10, 100], [5, 500, 50_000]).exponent
        2.0
    """
    x, y = np.log(x), np.log(y)
    if len(x) < 3:
        raise ValueError(f"x must have 3 sizes or more for a standard error, got {len(x)}.")
    exponent, stderr = _line(x, y)
    return Growth(round(exponent, 6), round(stderr, 6), round(_line(x[-3:], y[-3:])[0], 6))


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the slope and its standard error, which is 0 where y is constant."""
    x, y = x - x.mean(), y - y.mean()
    slope = (x @ y) / (x @ x)
    rest = y - slope * x
    return float(slope), float(np.sqrt((rest @ rest) / (len(x) - 2) / (x @ x)))
