"""What scores must give, in plain Python, one number at a time. Nothing here comes from the package. It is slow."""

import math
from collections.abc import Sequence
from fractions import Fraction

Row = Sequence[float]


def order(column: Row, ids: Sequence[int]) -> list[int]:
    """Rows from most helpful to most harmful; among equals the smaller id, then the earlier row; without NaN."""
    valid = [row for row in range(len(ids)) if not math.isnan(column[row])]
    return sorted(valid, key=lambda row: (-column[row], ids[row], row))


def ranks(column: Row, ids: Sequence[int]) -> list[int]:
    """Places in the order; NaN after all others, the smaller id first."""
    failed = [row for row in range(len(ids)) if math.isnan(column[row])]
    places = order(column, ids) + sorted(failed, key=lambda row: (ids[row], row))
    return [places.index(row) for row in range(len(ids))]


def helpful(column: Row, ids: Sequence[int], k: int) -> list[tuple[int, float]]:
    found = [(ids[row], column[row]) for row in order(column, ids)[:k]]
    return found + [(-1, math.nan)] * (k - len(found))


def harmful(column: Row, ids: Sequence[int], k: int) -> list[tuple[int, float]]:
    """The last k of the order, the last first."""
    found = [(ids[row], column[row]) for row in order(column, ids)[::-1][:k]]
    return found + [(-1, math.nan)] * (k - len(found))


def mean(row: Row) -> float:
    """The mean of what is not NaN; NaN where nothing is."""
    valid = [value for value in row if not math.isnan(value)]
    return math.fsum(valid) / len(valid) if valid else math.nan


def spread(column: Row) -> float:
    """The standard deviation (n − 1) of what is not NaN; NaN where there are fewer than two."""
    valid = [value for value in column if not math.isnan(value)]
    if len(valid) < 2:
        return math.nan
    middle = math.fsum(valid) / len(valid)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in valid) / (len(valid) - 1))


def rows_of(chosen: Sequence[int], ids: Sequence[int]) -> list[int]:
    return [row for one in chosen for row in range(len(ids)) if ids[row] == one]


def benjamini_hochberg(p: Row, level: float, count: int | None = None) -> list[bool]:
    """Which p-values are significant among `count` (all that are not NaN), tried from the largest rank down."""
    ordered = sorted(one for one in p if not math.isnan(one))
    count = len(ordered) if count is None else count
    for rank in range(len(ordered), 0, -1):
        if ordered[rank - 1] <= level * rank / count:
            return [one <= ordered[rank - 1] for one in p]
    return [False] * len(p)


def rank_p_value(score: float, null: Row) -> float:
    """The share of null ids as far from the mean as the instance itself, which counts with them in both."""
    if math.isnan(score):
        return math.nan
    valid = [one for one in null if math.isfinite(one)]
    everyone = [*map(Fraction, valid), Fraction(score)]
    middle = sum(everyone) / len(everyone)
    return sum(abs(one - middle) >= abs(everyone[-1] - middle) for one in everyone) / len(everyone)


def noise_ratio(column: Row, noise: float) -> float:
    """The standard deviation of noise divided by that of the finite values of the column."""
    whole = spread([value for value in column if math.isfinite(value)])
    return noise / whole if whole > 0 else math.nan
