"""Numbers, data and marked text as people read them: the only place for these rules, for all media."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def count(number: int, noun: str | None = None) -> str:
    """Return a number with its thousands apart, and what it counts."""
    return f"{number:,}" if noun is None else f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent; what is not quite all or nothing is not rounded to it."""
    step = 10.0**-digits
    if share in (0.0, 1.0):
        text = f"{100 * share:.0f}"
    elif 0 < 100 * share <= step / 2:
        text = f"< {step:.{digits}f}"
    elif 1 > share >= 1 - step / 200:
        text = f"> {100 - step:.{digits}f}"
    else:
        text = f"{100 * share:.{digits}f}"
    return f"{text} %"


def duration(seconds: float) -> str:
    """Return how long something takes."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def score(value: float, stderr: float | None = None, power: int = 0) -> str:
    """Return a score with its sign and, where known, its standard error, in units of ten to a power."""
    scaled = value / 10.0**power
    error = None if stderr is None else stderr / 10.0**power
    decimals = _decimals(max(abs(scaled), error or 0.0))
    text = f"{scaled:+.{decimals}f}".replace("-", "−")
    return text if error is None else f"{text} ± {error:.{decimals}f}"


def power_of(values: Iterable[float]) -> int:
    """Return the power of ten, a multiple of 3, in whose units the largest value is read easily."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if largest == 0 or 0.05 <= largest < 1000:
        return 0
    return 3 * math.floor(math.log10(largest) / 3)


def unit(power: int) -> str:
    """Return the unit of a column, to stand behind its name; nothing for 1."""
    return f" (× 10{str(power).translate(_SUPERSCRIPTS)})" if power else ""


def digits(value: float) -> str:
    """Return a number with three significant digits."""
    if value and abs(value) < 0.001:
        power = math.floor(math.log10(abs(value)))
        return f"{value / 10.0**power:.3g} × 10{str(power).translate(_SUPERSCRIPTS)}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def shortened(text: str, most: int = 400) -> str:
    """Return a text, its end replaced by "…" where it is long."""
    text = text.strip()
    if len(text) <= most:
        return text
    start = text[:most]
    return (start[: start.rfind(" ")] if " " in start[most // 2 :] else start) + " …"


def label_words(label: Any) -> str:
    """Return a label as people read it: the name of a class as it is, a number without more digits than it needs."""
    if not isinstance(label, float):
        return str(label)
    if label.is_integer() and abs(label) < 1e15:
        return f"{label:,.0f}".replace("-", "−")
    return (f"{label:,.1f}" if 1000 <= abs(label) < 1e6 else f"{label:.4g}").replace("-", "−")


def cell_text(value: Any) -> str:
    """Return a cell of a table as text."""
    # The kind "f" of a dtype: numpy's floats of other than 64 bits are no Python floats.
    is_float = isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") == "f"
    if value is None or (is_float and math.isnan(value)):
        return "missing"
    return f"{value:.4g}" if is_float else shortened(str(value), 60)


@dataclass(frozen=True)
class Piece:
    """A part of a text, marked or not."""

    text: str
    marked: bool


def pieces(text: str, marks: Sequence[tuple[int, int]]) -> list[Piece]:
    """Return a text in parts, of which those between the ends of a mark are marked."""
    parts: list[Piece] = []
    place = 0
    for start, end in sorted(marks):
        start, end = max(start, place), min(end, len(text))
        if start >= end:
            continue
        parts += [Piece(text[place:start], False)] if start > place else []
        parts.append(Piece(text[start:end], True))
        place = end
    return parts + ([Piece(text[place:], False)] if place < len(text) or not parts else [])


def _decimals(scaled: float) -> int:
    return max(0, min(3, 2 - math.floor(math.log10(scaled)) if scaled else 2))
