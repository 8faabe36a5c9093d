"""Which of many p-values stand out: Benjamini and Hochberg's step-up, over all of them or over a list of the smallest.

Of what is marked at level 0.05, 5 % or less is expected to be noise; where all is noise, anything is marked in 5 % of
cases or less.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ScoresError

from .arrays import Floats, Ints
from .lists import Lists

Bools = NDArray[np.bool_]


def checked_level(level: Any) -> float:
    """Return a share between 0 and 1, or raise."""
    try:
        share = float(level)
    except (TypeError, ValueError):
        share = 0.0
    if not 0 < share < 1:
        raise ScoresError(f"level={level!r}; give a share between 0 and 1, such as 0.05.")
    return share


def discoveries(p: Floats, level: float, counts: Ints | None = None) -> Bools:
    """Tell which p-values of each query stand out.

    With `counts` given, p are only some of each query's p-values. The r-th smallest of some is at least the r-th
    smallest of all, so all that is marked would be marked with the others known too: some may be missed, none added.

    Args:
        p: p-values [n, m]; NaN: failed, not counted.
        level: share of false ones among the marked that is allowed.
        counts: of how many p-values each query's are a part [m]; None: these are all.
    """
    ordered = np.sort(p, axis=0)  # NaN last
    total = np.count_nonzero(~np.isnan(p), axis=0) if counts is None else counts
    ranks = np.arange(1, len(p) + 1, dtype=np.float64)[:, None]
    passed: Bools = ordered <= level * ranks / np.maximum(total, 1)
    limit = np.where(passed, ordered, -1.0).max(axis=0, initial=-1.0)
    return p <= limit


def leading(lists: Lists, helpful_p: Floats, harmful_p: Floats, level: float) -> Ints:
    """Return how many entries stand out before the first that does not, [m, 2]: helpful ones, harmful ones."""
    size = helpful_p.shape[1]
    # With fewer than 2k instances the lists overlap. An instance is counted once, where it stands among the helpful.
    counts = lists.counts[:, None]
    twice = counts - 1 - np.arange(size, dtype=np.int64) < np.minimum(counts, size)
    listed = np.concatenate([helpful_p, np.where(twice, np.float32(np.nan), harmful_p)], axis=1)
    marked = discoveries(listed.T, level, lists.counts)
    limit = np.where(marked, listed.T, np.float32(-1)).max(axis=0, initial=-1)[:, None]
    helpful: Bools = (helpful_p <= limit) & (lists.helpful.scores > 0)
    harmful: Bools = (harmful_p <= limit) & (lists.harmful.scores < 0)
    unbroken = [np.logical_and.accumulate(side, axis=1) for side in (helpful, harmful)]
    return np.stack([np.count_nonzero(side, axis=1) for side in unbroken], axis=1).astype(np.int64)
