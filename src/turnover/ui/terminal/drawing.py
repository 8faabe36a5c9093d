"""Rows on a terminal: text, cells or image, in which nothing is obeyed; what they share; lists of them by score."""

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.color import Color
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Column, Table
from rich.text import Text

from turnover.applications import HarmfulExample, InfluentialExample
from turnover.ui.pictures import as_image
from turnover.ui.words import cell_text, score, unit

SHARED = "bold cyan"
"""The style of what a row shares with the one beside it."""

_MOST_LETTERS, _MOST_CELLS = 400, 5
# Marks that turn the direction of text: they could make a terminal show another order than the data has.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SHADES, _UPPER_HALF = " ░▒▓█", "▀"


def visible(data: str) -> str:
    """Return data so that a terminal shows it and obeys nothing in it, letter for letter; line breaks become spaces."""
    return "".join(_visible(character) for character in data)


def plain(data: str, style: str = "") -> Text:
    """Return data as text in which nothing is markup."""
    return Text(visible(data), style=style)


def draw_value(
    value: Any,
    console: Console,
    *,
    style: str = "",
    spans: Sequence[tuple[int, int]] = (),
    near: Collection[str] = (),
    cells: int = _MOST_CELLS,
) -> RenderableType:
    """Return a value of a row, ready to print: `spans` of a text or `near` columns, which come first, are marked."""
    if isinstance(value, str):
        return _draw_text(value, style, spans)
    if isinstance(value, np.ndarray):
        return draw_image(value, console)
    return _draw_cells(value, style, near, cells)


def listing(title: str | Text, *columns: Column | str) -> Table:
    """Return a table without lines, to be filled row by row."""
    return Table(*columns, title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))


def numbers(name: str) -> Column:
    """Return a column of numbers."""
    return Column(name, justify="right")


def scores(power: int) -> Column:
    """Return a column of scores, in units of ten to a power."""
    return Column("score" + unit(power), justify="right", no_wrap=True)


def score_text(example: HarmfulExample | InfluentialExample, power: int, style: str | None = None) -> Text:
    """Return the score of an example with its standard error, dim where it has one and is not significant."""
    dim = "" if example.significant or example.stderr is None else "dim"
    return Text(score(example.score, example.stderr, power), style=dim if style is None else style)


def draw_rows(
    title: str, columns: Sequence[Column | str], rows: Iterable[tuple[Sequence[Text], Any]], console: Console
) -> RenderableType:
    """Return rows of the data, each its cells and its value, as a table; images stand side by side over their cells."""
    rows = list(rows)
    if not any(isinstance(value, np.ndarray) for _, value in rows):
        table = listing(plain(title, "bold"), *columns, Column("training row", ratio=1))
        for cells, value in rows:
            table.add_row(*cells, value if isinstance(value, Text | Group) else draw_value(value, console))
        return table
    heads = [column if isinstance(column, str) else str(column.header) for column in columns]
    drawn: list[Group] = []
    for cells, image in rows:
        lines = [
            Text.assemble((f"{head}: " if head else "", "dim"), cell)
            for head, cell in zip(heads, cells, strict=True)
            if cell
        ]
        drawn.append(Group(draw_image(image, console), *lines))
    return Group(plain(title, "bold"), Columns(drawn, padding=(1, 3), expand=False))


def draw_image(image: np.ndarray, console: Console, *, widest: int = 24) -> Text:
    """Return an image as lines of characters: two pixels per character in color, or shaded blocks without."""
    if console.color_system is None:
        steps = (_shrunk(image, widest // 2).mean(axis=2) / 256 * len(_SHADES)).astype(int)
        return Text("\n".join("".join(_SHADES[step] * 2 for step in line) for line in steps.tolist()), no_wrap=True)
    pixels = _shrunk(image, widest)
    if 2 * pixels.shape[1] <= widest:
        pixels = pixels.repeat(2, axis=0).repeat(2, axis=1)
    # A character is about twice as high as wide and shows two pixels, one over the other.
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, pixels[-1:]])
    if pixels.shape[2] != 3:
        pixels = np.repeat(pixels[:, :, :1], 3, axis=2)
    drawn = Text(no_wrap=True)
    for row in range(0, len(pixels), 2):
        if row:
            drawn.append("\n")
        for upper, lower in zip(pixels[row].tolist(), pixels[row + 1].tolist(), strict=True):
            drawn.append(_UPPER_HALF, Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
    return drawn


def _visible(character: str) -> str:
    if character in "\t\n\r\v\f\x85\u2028\u2029":
        return " "
    number = ord(character)
    if number < 0x20:
        return chr(0x2400 + number)
    # Cc: control characters; Cs: halves of a pair.
    return "�" if unicodedata.category(character) in ("Cc", "Cs") or character in _TURNING else character


def _draw_text(value: str, style: str, spans: Sequence[tuple[int, int]]) -> Text:
    drawn = plain(value, style)
    for start, end in spans:  # what a terminal shows has as many letters as the text itself, so that places fit both
        drawn.stylize(SHARED, start, end)
    return drawn if len(drawn) <= _MOST_LETTERS else drawn[:_MOST_LETTERS].append(" …")


def _draw_cells(value: Mapping[str, Any], style: str, near: Collection[str], most: int) -> Text:
    """Return cells as name=value, those that are marked first."""
    order = sorted(value, key=lambda name: name not in near)
    drawn = Text(style=style)
    for place, name in enumerate(order[:most]):
        drawn.append(", " if place else "")
        drawn.append(f"{visible(str(name))}=", style="dim")
        drawn.append(visible(cell_text(value[name])), style=SHARED if name in near else "")
    if len(order) > most:
        drawn.append(f" and {len(order) - most} more", style="dim")
    return drawn


def _shrunk(image: np.ndarray, widest: int) -> np.ndarray:
    """Return an image of at most so many pixels per line, each the mean of those it stands for."""
    from PIL import Image

    height, width, channels = image.shape
    if width <= widest:
        return image
    high = max(1, round(height * widest / width))
    return np.asarray(as_image(image).resize((widest, high), Image.Resampling.BOX)).reshape(high, widest, channels)
