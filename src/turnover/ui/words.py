"""Numbers and counts as people read them, and texts taken apart where they are marked."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .html.charts import power_of
from .html.data import ReportData
from .html.data_rows import Behind, ShownRow, Span

_SMALL = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Piece:
    """A part of a text, marked or not."""

    text: str
    marked: bool


def pieces(text: str, marks: Sequence[Span]) -> list[Piece]:
    """Return a text in parts, of which those between the ends of a mark are marked.

    Example:
        >>> [(piece.text, piece.marked) for piece in pieces("a good film", [(2, 6)])]
        [('a ', False), ('good', True), (' film', False)]
    """
    found: list[Piece] = []
    place = 0
    for start, end in sorted(marks):
        start, end = max(start, place), min(end, len(text))
        if start >= end:
            continue
        found += [Piece(text[place:start], False)] if start > place else []
        found.append(Piece(text[start:end], True))
        place = end
    return found + ([Piece(text[place:], False)] if place < len(text) or not found else [])


def count(number: int, what: str | None = None) -> str:
    """Return a number with its thousands apart, and what it counts.

    Example:
        >>> count(1234), count(1, "row"), count(2, "row")
        ('1,234', '1 row', '2 rows')
    """
    return f"{number:,}" if what is None else f"{number:,} {what}{'' if number == 1 else 's'}"


def percent(share: float, digits: int = 1) -> str:
    r"""Return a share in percent; what is not quite all or nothing is not rounded to it.

    Spaces in it do not break.

    Example:
        >>> [percent(share).replace("\xa0", " ") for share in (0.1234, 0.99999, 0.00001, 1.0)]
        ['12.3 %', '> 99.9 %', '< 0.1 %', '100 %']
    """
    step = 10.0**-digits
    if share in (0.0, 1.0):
        text = f"{100 * share:.0f}"
    elif 0 < 100 * share <= step / 2:
        text = f"<\xa0{step:.{digits}f}"
    elif 1 > share >= 1 - step / 200:
        text = f">\xa0{100 - step:.{digits}f}"
    else:
        text = f"{100 * share:.{digits}f}"
    return f"{text}\xa0%"


def score(value: float, power: int = 0) -> str:
    """Return a score with its sign, in units of ten to a power.

    Example:
        >>> score(-0.00123, -3), score(0.5)
        ('−1.23', '+0.500')
    """
    scaled = value / 10.0**power
    return f"{scaled:+.{_decimals(scaled)}f}".replace("-", "−")


def size(value: float, power: int = 0) -> str:
    """Return a size without sign, such as a standard error, in units of ten to a power."""
    scaled = abs(value) / 10.0**power
    return f"{scaled:.{_decimals(scaled)}f}"


def digits(value: float) -> str:
    """Return a number with three digits that count.

    Example:
        >>> digits(0.000123456), digits(12.0)
        ('1.23 × 10⁻⁴', '12')
    """
    if value and abs(value) < 0.001:
        power = math.floor(math.log10(abs(value)))
        return f"{value / 10.0**power:.3g} × 10{str(power).translate(_SMALL)}".replace("-", "−")
    return f"{value:.3g}".replace("-", "−")


def unit(power: int) -> str:
    """Return the unit of a column, to stand behind its name; nothing for one."""
    return f" (×\xa010{str(power).translate(_SMALL)})" if power else ""


def unit_words(power: int) -> str:
    """Return the unit within a sentence."""
    return f", in units of 10{str(power).translate(_SMALL)}" if power else ""


def chance(p_value: float | None) -> str:
    """Return a p-value.

    Example:
        >>> chance(0.0312), chance(2e-7), chance(1e-20), chance(None)
        ('0.031', '2 × 10⁻⁷', '< 10⁻¹²', '–')
    """
    if p_value is None:
        return "–"
    if p_value < 1e-12:
        return "< 10⁻¹²"
    # Small ones are told apart: among thousands of rows 10⁻⁵ may stand out where 6 × 10⁻⁵ does not.
    return digits(float(f"{p_value:.2g}")) if p_value < 0.1 else f"{p_value:.2f}"


def duration(seconds: float) -> str:
    """Return how long something took.

    Example:
        >>> duration(0.41), duration(75), duration(4000)
        ('0.4 s', '1 min 15 s', '1 h 6 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def label_numbers(data: ReportData, row: ShownRow, also: Sequence[str | None] = ()) -> str:
    """Return the numbers of the labels by which a row is found, for the filter."""
    known = {name: number for number, name in enumerate(data.overview.labels)}
    return " ".join(str(known[name]) for name in dict.fromkeys((row.label, *also)) if name in known)


def row_label(number: int, data: ReportData) -> str | None:
    """Return the label of a shown row."""
    return data.by_number[number].label


def power(entries: Sequence[Behind]) -> int:
    """Return the power of ten in whose units the scores of some rows are read easily."""
    return power_of([entry.score for entry in entries])


def _decimals(scaled: float) -> int:
    return max(0, min(3, 2 - math.floor(math.log10(abs(scaled))) if scaled else 2))


FILTERS = {
    one.__name__: one
    for one in (
        pieces,
        count,
        percent,
        score,
        size,
        digits,
        unit,
        unit_words,
        chance,
        duration,
        label_numbers,
        row_label,
        power,
    )
}
