"""Small tables for people: aligned text for a terminal, HTML for a notebook.

HTML has inline styles alone, and colors that can be read on light and dark pages: a notebook shows it within a page of
its own, and what it shows may be saved without any style sheet.
"""

import base64
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELPS, HARMS = "#2b8aef", "#e8590c"
"""Colors of what helps and what harms."""

_BAR_WIDTH = 5  # em
_CELL = "text-align:left;padding:.1em .9em .1em 0;border:0;vertical-align:top;background:none;color:inherit"


STOP_WORDS = frozenset(
    """a about after all also an and any are as at be because been before being but by can could did do does doing don
    down for from had has have having he her here hers him his how i if in into is isn it its itself just me more most
    my no nor not now of off on once only or other our out over own s same she should so some such t than that the their
    them then there these they this those through to too under until up ve very was we were what when where which while
    who whom why will with would you your""".split()
)
"""English words that are in nearly every text."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with what it counts, in the plural where needed."""
    if many is None:
        many = one[:-1] + "ies" if one.endswith("y") else one + "s"
    return f"{number:,} {one if number == 1 else many}"


_WORD = re.compile(r"\w+")
_LARGEST = 96  # pixels of a picture in a table, each side
_MOST_LETTERS = 160
_PNG_COLORS = {1: 0, 3: 2, 4: 6}


Facts = tuple[str, Sequence[tuple[str, str]]]
"""A first line, and names with what they say."""

_MOST_NAMED = 5
_MOST_LETTERS_OF_A_NAME = 24


class Html(str):
    """Text that is HTML already; all other text of a table is escaped."""


def aligned(rows: Sequence[Sequence[str]], *, header: Sequence[str] = ()) -> list[str]:
    """Return the lines of a table with aligned columns, a rule below its header if it has one.

    Example:
        >>> aligned([["7", "+0.5"]], header=["id", "score"])
        ['id  score', '--  -----', '7   +0.5']
    """
    lines = [header, *rows] if header else rows
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    if header:
        lines = [header, ["-" * width for width in widths], *rows]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


def html_table(
    title: str, rows: Iterable[Sequence[str]], *, header: Sequence[str] = (), below: Iterable[str] = ()
) -> str:
    """Return a table with a title above and lines of text below it.

    Example:
        >>> "&lt;b&gt;" in html_table("scores", [["<b>", Html("<i>kept</i>")]])
        True
    """
    head = "".join(f'<th style="{_CELL};font-weight:600;opacity:.7">{_escaped(cell)}</th>' for cell in header)
    body = "".join(
        "<tr style='background:none'>" + "".join(f'<td style="{_CELL}">{_escaped(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    notes = "".join(f'<div style="opacity:.7">{_escaped(line)}</div>' for line in below)
    return (
        '<div style="font-variant-numeric:tabular-nums;max-width:60em">'
        f'<div style="font-weight:600">{_escaped(title)}</div>'
        f'<table style="border-collapse:collapse;margin:.3em 0;color:inherit;font-size:inherit">'
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>{notes}</div>"
    )


def text_of(facts: Facts) -> str:
    """Return what a result says of itself as text: a first line, and a table below it.

    Example:
        >>> text_of(("a result", [("path", "by hand")])).splitlines()
        ['a result', '  path  by hand']
    """
    head, rows = facts
    return "\n".join([head, *(f"  {line}" for line in aligned(rows))])


def html_of(facts: Facts) -> str:
    """Return what a result says of itself as HTML."""
    head, rows = facts
    return html_table(head, [[faded(name), *rest] for name, *rest in rows])


def shortened(value: object) -> str:
    """Return a value as text of a few letters."""
    text = str(value)
    return text if len(text) <= _MOST_LETTERS_OF_A_NAME else text[: _MOST_LETTERS_OF_A_NAME - 3] + "..."


def listed(values: Sequence[Any]) -> str:
    """Return the first of some names, and how many more there are."""
    shown = ", ".join(shortened(value) for value in values[:_MOST_NAMED])
    return shown + (f" and {len(values) - _MOST_NAMED:,} more" if len(values) > _MOST_NAMED else "")


def number_range(values: NDArray[Any]) -> str:
    """Return smallest and largest number and their mean, and how many failed.

    Example:
        >>> number_range(np.array([1.0, 3.0, np.nan]))
        '1 to 3, mean 2; 1 of 3 failed (NaN)'
    """
    valid = ~np.isnan(values)
    failed = values.size - int(np.count_nonzero(valid))
    if values.size == failed:
        text = "none"
    else:
        low, high = values.min(initial=np.inf, where=valid), values.max(initial=-np.inf, where=valid)
        with np.errstate(invalid="ignore"):  # inf − inf is NaN, and may be shown as such
            mean = values.sum(dtype=np.float64, where=valid) / (values.size - failed)
        text = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}, mean {mean:.3g}"
    return text + (f"; {failed:,} of {values.size:,} failed (NaN)" if failed else "")


def score_bar(score: float, largest: float) -> Html:
    """Return a bar as long as a score's share of the largest, blue where it helps and orange where it harms.

    Example:
        >>> "width:2.50em" in score_bar(-1.0, 2.0)
        True
    """
    share = min(1.0, abs(score) / largest) if largest > 0 and score == score else 0.0
    color = HELPS if score > 0 else HARMS
    width = f"{_BAR_WIDTH * share:.2f}em"
    return Html(
        f'<span style="display:inline-block;width:{width};height:.7em;border-radius:2px;background:{color}"></span>'
    )


def faded(text: str) -> Html:
    """Return text that steps back behind the rest."""
    return Html(f'<span style="opacity:.55">{_escaped(text)}</span>')


def shown_row(row: Any, beside: Any = None) -> Html:
    """Return a row as people see it: pixels as a picture, a text with the words marked that it shares with another.

    Example:
        >>> "<mark" in shown_row("a thin plot", "The plot is thin.") and shown_row(None) == ""
        True
    """
    if isinstance(row, np.ndarray):
        return _picture(row)  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(row, str):
        return Html("")
    text = row if len(row) <= _MOST_LETTERS else row[: _MOST_LETTERS - 1].rstrip() + "…"
    parts, at = list[str](), 0
    others = {word for word, _, _ in words(beside)} if isinstance(beside, str) else set[str]()
    for word, start, end in words(text):
        if word not in others:
            continue
        marked = f'<mark style="background:rgba(255,196,0,.38);color:inherit">{escape(text[start:end])}</mark>'
        parts += [escape(text[at:start]), marked]
        at = end
    return Html(f'<div style="max-width:28em;white-space:normal">{"".join(parts)}{escape(text[at:])}</div>')


def tells(word: str) -> bool:
    """Tell whether a word without case says something: it has a letter or a digit, and is not in nearly every text."""
    return word not in STOP_WORDS and any(sign.isalnum() for sign in word)


def words(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text that say something, without case, and where they start and end.

    Example:
        >>> words("A thin plot")
        [('thin', 2, 6), ('plot', 7, 11)]
    """
    found = [(match.group().casefold(), match.start(), match.end()) for match in _WORD.finditer(text)]
    return [one for one in found if tells(one[0])]


def _picture(pixels: NDArray[np.uint8]) -> Html:
    """Return uint8 [height, width, channels] as a picture within the page, without a package for images."""
    step = -(-max(pixels.shape[:2]) // _LARGEST)
    small = np.ascontiguousarray(pixels[::step, ::step])
    height, width, channels = small.shape
    lines = b"".join(b"\0" + line.tobytes() for line in small)
    head = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLORS[channels], 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    shown = max(1, 48 // max(height, width)) * height
    style = f"display:block;height:{max(shown, 40)}px;image-rendering:{'pixelated' if height <= 32 else 'auto'}"
    return Html(f'<img alt="" style="{style}" src="data:image/png;base64,{base64.b64encode(file).decode()}">')


def _escaped(text: str) -> str:
    return text if isinstance(text, Html) else escape(text)
