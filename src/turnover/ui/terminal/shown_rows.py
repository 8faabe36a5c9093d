"""A row as a person sees it on a terminal: its text, its picture or its cells, and what it shares with another."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.text import Text

from turnover.applications import shared_tokens
from turnover.runs import ColumnInputs, Run

from .phrases import plain, shown
from .pictures import picture

# Letters of a text that are shown; cells of a table.
_MOST_LETTERS, MOST_CELLS = 400, 5
SHARED = "bold cyan"
# Numbers that differ by less than this share of their column's spread are marked as alike.
_ALIKE = 0.1


def shown_value(
    value: Any,
    console: Console,
    *,
    style: str = "",
    beside: Any = None,
    spreads: Mapping[str, float] | None = None,
    cells: int = MOST_CELLS,
) -> RenderableType:
    """Return a value of a row, ready to print.

    Args:
        value: a text, pixels, or cells by the names of their columns.
        console: that it is for.
        style: of what is not marked.
        beside: what it is compared with: words and cells that both have are marked; None: nothing is.
        spreads: of the columns of numbers, to tell which cells are nearest.
        cells: how many cells at most.
    """
    if isinstance(value, str):
        return _text(value, style, beside)
    if isinstance(value, np.ndarray):
        return picture(value, console)
    return _cells(value, style, beside, spreads or {}, cells)


def spreads_of(run: Run) -> dict[str, float]:
    """Return the spread of every column of numbers that a run learned from."""
    how = run.preparation
    if not isinstance(how, ColumnInputs):
        return {}
    return {column.name: column.spread for column in how.columns if column.categories is None}


def _text(value: str, style: str, beside: Any) -> Text:
    drawn = plain(value, style)
    if isinstance(beside, str):
        # What a terminal shows has as many letters as the text itself, so that places fit both.
        for span in shared_tokens(beside, value).example:
            drawn.stylize(SHARED, span.start, span.end)
    if len(drawn) > _MOST_LETTERS:
        drawn = drawn[:_MOST_LETTERS].append("…")
    return drawn


def _cells(value: Mapping[str, Any], style: str, beside: Any, spreads: Mapping[str, float], most: int) -> Text:
    """Return cells as name=value, those nearest to the other row's first."""
    other: Mapping[str, Any] = beside if isinstance(beside, Mapping) else {}
    far = {name: _distance(value[name], other.get(name), spreads.get(name)) for name in value}
    order = sorted(value, key=lambda name: far[name]) if other else list(value)
    drawn = Text(style=style)
    for place, name in enumerate(order[:most]):
        drawn.append(", " if place else "")
        drawn.append(f"{shown(str(name))}=", style="dim")
        drawn.append(cell(value[name]), style=SHARED if far[name] < _ALIKE else "")
    if len(order) > most:
        drawn.append(f" and {len(order) - most} more", style="dim")
    return drawn


def _distance(one: Any, other: Any, spread: float | None) -> float:
    """Return how far apart two cells are, in spreads of their column; categories are alike or not."""
    if other is None:
        return math.inf
    try:
        far = abs(float(one) - float(other)) / (spread or math.inf)
    except (TypeError, ValueError):
        return 0.0 if cell(one) == cell(other) else math.inf
    if spread is None:
        return 0.0 if float(one) == float(other) else math.inf
    return math.inf if math.isnan(far) else far


def cell(value: Any) -> str:
    """Return a cell of a table as text.

    Example:
        >>> cell(3.0), cell(0.123456), cell(None), cell("red")
        ('3', '0.1235', '?', 'red')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "?"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return shown(str(value))
