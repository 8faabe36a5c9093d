"""Small tables for people: aligned text for a terminal, HTML for a notebook.

HTML has inline styles alone, and colors that can be read on light and dark pages: a notebook shows it within a page of
its own, and what it shows may be saved without any style sheet.
"""

from collections.abc import Iterable, Sequence
from html import escape

_HELPS, _HARMS = "#2b8aef", "#e8590c"
_BAR_WIDTH = 5  # em
_CELL = "text-align:left;padding:.1em .9em .1em 0;border:0;vertical-align:top;background:none"


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
        f'<table style="border-collapse:collapse;margin:.3em 0">'
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>{notes}</div>"
    )


def score_bar(score: float, largest: float) -> Html:
    """Return a bar as long as a score's share of the largest, blue where it helps and orange where it harms.

    Example:
        >>> "width:2.50em" in score_bar(-1.0, 2.0)
        True
    """
    share = min(1.0, abs(score) / largest) if largest > 0 and score == score else 0.0
    color = _HELPS if score > 0 else _HARMS
    width = f"{_BAR_WIDTH * share:.2f}em"
    return Html(
        f'<span style="display:inline-block;width:{width};height:.7em;border-radius:2px;background:{color}"></span>'
    )


def faded(text: str) -> Html:
    """Return text that steps back behind the rest."""
    return Html(f'<span style="opacity:.55">{_escaped(text)}</span>')


def _escaped(text: str) -> str:
    return text if isinstance(text, Html) else escape(text)
