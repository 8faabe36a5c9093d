"""Seconds of the processor, and the line through seconds at several sizes."""

import time
from collections.abc import Callable, Sequence


def seconds(work: Callable[[], object]) -> float:
    """Return the processor's seconds, which a busy machine does not change much."""
    start = time.process_time()
    work()
    return time.process_time() - start


def line(points: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the fixed part and the slope of a line from 0 or above, through the first and the last point.

    Args:
        points: of a size and its seconds each, the smallest first.

    Example:
        >>> line([(10, 3.0), (20, 5.0)])
        (1.0, 0.2)
    """
    (few, least), (many, most) = points[0], points[-1]
    slope = (most - least) / (many - few) if many > few else most / many
    fixed = least - slope * few
    # Noise of the clock can tilt the line: then all of it grows.
    return (fixed, slope) if fixed >= 0 and slope >= 0 else (0.0, most / many)


def at(points: Sequence[Sequence[float]], size: float) -> float:
    """Return the seconds at a size: those measured there, else those of the line.

    Example:
        >>> at([(10, 3.0), (20, 5.0)], 20), at([(10, 3.0), (20, 5.0)], 40)
        (5.0, 9.0)
    """
    for known, spent in points:
        if known == size:
            return spent
    fixed, slope = line(points)
    return fixed + slope * size
