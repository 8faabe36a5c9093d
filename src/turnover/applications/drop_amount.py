"""How many rows to drop, from what a person writes: "1%", 0.01, 25 or "significant"."""

import math
from dataclasses import dataclass
from typing import Any

from turnover.errors import ApplicationError

# In words that suit a function and an option of a command alike.
_HOW = 'Give a percentage such as "1%", a share such as 0.01, a number of rows such as 25, or "significant".'


@dataclass(frozen=True)
class DropAmount:
    """What was asked for.

    Attributes:
        text: as a person would write it.
        rows: how many rows; None: all that are significantly harmful.
    """

    text: str
    rows: int | None


def drop_amount(drop: Any, count: int) -> DropAmount:
    """Return how many of `count` rows to drop; of a share at least one row.

    Example:
        >>> drop_amount("1%", 500).rows, drop_amount(0.5, 3).rows, drop_amount(7, 500).rows
        (5, 2, 7)
        >>> drop_amount("significant", 500).rows is None
        True
    """
    if isinstance(drop, str):
        text = drop.strip()
        if text.lower() == "significant":
            return DropAmount("significant", None)
        number = text[:-1].strip() if text.endswith("%") else text
        try:
            value = float(number)
        except ValueError:
            raise ApplicationError(f"drop: {drop!r} is no amount of rows. {_HOW}") from None
        if text.endswith("%"):
            return _share(value / 100, f"{number}%", count)
        drop = int(value) if value >= 1 and value.is_integer() and "." not in number else value
    if isinstance(drop, bool) or not isinstance(drop, int | float) or not math.isfinite(drop):
        raise ApplicationError(f"drop: {drop!r} is no amount of rows. {_HOW}")
    if isinstance(drop, float):
        return _share(drop, f"{100 * drop:g}%", count)
    if not 1 <= drop < count:
        raise ApplicationError(f"drop: {drop} of {count} rows; from 1 to {count - 1} can be dropped. {_HOW}")
    return DropAmount(f"{drop} rows", drop)


def _share(share: float, text: str, count: int) -> DropAmount:
    if not 0 < share < 1:
        raise ApplicationError(f"drop: {text} is not between 0% and 100% of the rows. {_HOW}")
    return DropAmount(text, min(max(1, round(share * count)), count - 1))
