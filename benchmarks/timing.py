"""Ratios on a noisy machine: both sides take turns, and the median of the pairwise ratios counts."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """How long one thing takes as a share of another."""

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
    """Return the time of `ours` as a share of the time of `base`, measured in turns."""
    for _ in range(warm_up):
        ours()
        base()
    pairs = [(_seconds(ours), _seconds(base)) for _ in range(rounds)]
    low, middle, high = statistics.quantiles([a / b for a, b in pairs], n=4)
    return Ratio(middle, low, high, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs))


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
