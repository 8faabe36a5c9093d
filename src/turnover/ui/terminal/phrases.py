"""Numbers and data as words on a terminal."""

import math
import unicodedata
from collections.abc import Iterable

from rich.text import Text

_MINUTE, _HOUR = 60.0, 3600.0


def duration(seconds: float) -> str:
    """Return a time as a person would say it.

    Example:
        >>> duration(0.4), duration(75), duration(4000)
        ('under a second', '75 seconds', '67 minutes')
    """
    if seconds < 1:
        return "under a second"
    if seconds < 1.5 * _MINUTE:
        return count(round(seconds), "second")
    if seconds < 1.5 * _HOUR:
        return count(round(seconds / _MINUTE), "minute")
    return f"{seconds / _HOUR:.1f} hours"


def count(number: int, noun: str) -> str:
    """Return a number of things.

    Example:
        >>> count(1, "row"), count(1200, "row")
        ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent(share: float, *, digits: int = 1) -> str:
    """Return a share in percent.

    Example:
        >>> percent(0.9123), percent(1, digits=0)
        ('91.2 %', '100 %')
    """
    return f"{100 * share:.{digits}f} %"


def decimals_for(values: Iterable[float]) -> int:
    """Return how many decimals show three digits of the largest of some scores.

    Example:
        >>> decimals_for([0.1234, -0.002]), decimals_for([250.0]), decimals_for([0.00112])
        (3, 0, 5)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return min(8, max(0, 2 - math.floor(math.log10(largest)))) if largest > 0 else 3


def score(value: float, stderr: float | None = None, *, decimals: int = 3) -> str:
    """Return a score with its sign and, where known, its standard error.

    Example:
        >>> score(0.1234), score(-2.5, 0.25, decimals=2)
        ('+0.123', '−2.50 ± 0.25')
    """
    sign = "+" if value >= 0 else "−"
    return f"{sign}{abs(value):.{decimals}f}" + ("" if stderr is None else f" ± {stderr:.{decimals}f}")


def shown(data: str) -> str:
    r"""Return data so that a terminal shows it and obeys nothing in it; line breaks become spaces.

    Example:
        >>> shown("a\x1b[31m\tb")
        'a␛[31m b'
    """
    return "".join(_visible(character) for character in data)


def clipped(data: str, *, most: int = 300) -> str:
    """Return data as `shown` does, at most so many characters of it."""
    text = shown(data)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def plain(data: str, style: str = "") -> Text:
    """Return data as text in which nothing is markup."""
    return Text(shown(data), style=style)


def _visible(character: str) -> str:
    if character in "\t\n\r\v\f\x85\u2028\u2029":
        return " "
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)
    # Cc: control characters; Cf: marks that turn the direction of text or join words unseen; Cs: halves of a pair.
    return "�" if unicodedata.category(character) in ("Cc", "Cs") or character in _TURNING else character


# Marks that turn the direction of text: they could make a terminal show another order than the data has.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
