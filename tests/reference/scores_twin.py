"""What scores must give, in plain Python, one number at a time. Nothing here comes from the package. It is slow."""

import math
from collections.abc import Sequence

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
    """The first k of the order as (id, score), filled up with (−1, NaN)."""
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


def rows_of(wanted: Sequence[int], ids: Sequence[int]) -> list[int]:
    """All rows of each wanted id."""
    return [row for one in wanted for row in range(len(ids)) if ids[row] == one]
