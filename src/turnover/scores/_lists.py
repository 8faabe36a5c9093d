"""Lists of instances as people see them: lines of text, a table for a notebook, figures with matplotlib.

Figures have a transparent background and gray ink, so that they can be read in light and dark notebooks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from itertools import zip_longest
from textwrap import shorten, wrap
from typing import Any, Literal

import numpy as np

from turnover.tables import HARMS, HELPS, Html, aligned, counted, faded, html_table, score_bar, shortened, shown_row

from ._arrays import Bools, Floats, load_package

Side = Literal["helpful", "harmful"]
SIDES: tuple[Side, Side] = ("helpful", "harmful")

_MOST_QUERIES = 5
_MOST_IN_TEXT = 3
_MOST_IN_NOTEBOOK = 10
_REST = "..."

_INK = "#808080"
_MOST_BINS = 60
_FEWEST_NULLS = 10  # fewer make no histogram
_MANY = 100
_LETTERS = 90  # of a text beside a bar


@dataclass(frozen=True)
class Entry:
    """An instance in a list."""

    instance: str
    score: float
    stderr: float | None
    marked: bool | None  # whether it is significant; None: not known
    row: Any = None  # the instance as people see it: uint8 pixels, a text, or None

    @property
    def text(self) -> tuple[str, str]:
        """Return the score with its standard error, and a mark where it is significant."""
        error = "" if self.stderr is None else f" ± {self.stderr:.2g}"
        return f"{self.score:+.3g}{error}", "*" if self.marked else ""

    @property
    def color(self) -> str:
        return HELPS if self.score > 0 else HARMS


def entries_of(
    top: Any, side: Side, query: int, marks: tuple[Bools, Bools] | None, *, with_rows: bool = False
) -> list[Entry]:
    """Return a list of the query at a place of a Top, with the rows themselves where these are to be seen."""
    ids, mask_ids = getattr(top, f"{side}_ids")[query], getattr(top, f"{side}_mask_ids")[query]
    scores, stderr = getattr(top, f"{side}_scores")[query], getattr(top, f"{side}_stderr")
    marked = None if marks is None else marks[SIDES.index(side)][query]
    return [
        Entry(
            str(ids[place]),
            float(scores[place]),
            None if stderr is None else float(stderr[query, place]),
            None if marked is None else bool(marked[place]),
            top.views.instance(int(mask_ids[place])) if with_rows and top.views is not None else None,
        )
        for place in np.flatnonzero(mask_ids >= 0)
    ]


def text_of_lists(top: Any, head: str) -> str:
    """Return the first entries of the first queries, one query per line."""
    marks = top.significant() if top.knows_noise else None
    rows = [["query", "most helpful: id (score)", "most harmful: id (score)"]]
    for query in range(min(_MOST_QUERIES, len(top.counts))):
        cells = ["" if top.queries is None else shortened(top.queries[query])]
        for side in SIDES:
            entries = entries_of(top, side, query, marks)
            first = [f"{shortened(one.instance)} ({one.text[0]}){one.text[1]}" for one in entries[:_MOST_IN_TEXT]]
            cells.append(", ".join(first + [_REST] * (len(entries) > _MOST_IN_TEXT)) or "none")
        rows.append(cells)
    if top.queries is None:
        rows = [row[1:] for row in rows]
    return "\n".join([head, *(f"  {line}" for line in [*aligned(rows), *_below(top, marks)])])


def html_of_lists(top: Any, head: str) -> str:
    """Return the first entries of the first queries with a bar for each score, faded where not significant."""
    marks = top.significant() if top.knows_noise else None
    rows: list[list[str]] = []
    for place in range(min(_MOST_QUERIES, len(top.counts))):
        name = "" if top.queries is None else shortened(top.queries[place])
        query = None if top.queries is None or top.views is None else top.views.query(top.queries[place])
        name = Html(f"{escape(name)}{shown_row(query)}")
        sides = [entries_of(top, side, place, marks, with_rows=True) for side in SIDES]
        shown = [side[:_MOST_IN_NOTEBOOK] for side in sides]
        largest = max((abs(entry.score) for side in shown for entry in side), default=0.0)
        rest = [[[_REST, "", ""]] if len(side) > _MOST_IN_NOTEBOOK else [] for side in sides]
        cells = [[*(_cells(entry, largest, query) for entry in side), *rest[at]] for at, side in enumerate(shown)]
        for helpful, harmful in zip_longest(*cells, fillvalue=["", "", ""]):
            rows.append([name, *helpful, *harmful])
            name = ""
    header = ["query", "most helpful", "", "", "most harmful", "", ""]
    if top.queries is None:
        header, rows = header[1:], [row[1:] for row in rows]
    return html_table(head, rows, header=header, below=_below(top, marks))


def _below(top: Any, marks: object) -> list[str]:
    """Return what stands below the lists of the first queries."""
    rest = len(top.counts) - _MOST_QUERIES
    more = [f"and {counted(rest, 'more query', 'more queries')}"] if rest > 0 else []
    return more if marks is None else [*more, "* significant (FDR 5 %)"]


def _cells(entry: Entry, largest: float, query: Any) -> list[str]:
    """Return the cells of an entry for a notebook: id and what is known of its row, score, bar."""
    text = Html(f'<span style="white-space:nowrap">{"".join(map(escape, entry.text))}</span>')
    shown = Html(f"{escape(shortened(entry.instance))}{shown_row(entry.row, query)}")
    return [shown, faded(text) if entry.marked is False else text, score_bar(entry.score, largest)]


def plot_lists(top: Any, query: int = 0, *, values: Floats | None = None, null: Floats | None = None) -> Any:
    """Return a figure of both lists of a query, below a histogram of scores beside that of null ids, if given."""
    sides = {side: entries_of(top, side, query, None, with_rows=True) for side in SIDES}
    entries = [entry for side in sides.values() for entry in side]
    are_pictures = any(isinstance(entry.row, np.ndarray) for entry in entries)
    per_row = 0.68 if any(isinstance(entry.row, str) for entry in entries) else 0.34
    height = 3.0 if are_pictures else 0.8 + per_row * max(1, *map(len, sides.values()))
    figures = load_package("matplotlib.figure", "figures need matplotlib: pip install 'turnover[plot]'.")
    size = (9.0, height + (0 if values is None else 2.6))
    figure = lists = figures.Figure(size, facecolor="none", layout="constrained")
    # A figure that pyplot does not know is shown once, by the notebook, and needs no closing.
    import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    if values is not None:
        above, lists = figure.subfigures(2, 1, height_ratios=[2.6, height])
        _draw_histogram(above.subplots(), values, null)
    if are_pictures:
        for part, (side, listed) in zip(lists.subfigures(2, 1), sides.items(), strict=True):
            _draw_pictures(part, f"Most {side}", listed)
    else:
        for axes, (side, listed) in zip(lists.subplots(1, 2), sides.items(), strict=True):
            _draw_bars(axes, f"Most {side}", listed)
    return figure


def _draw_histogram(axes: Any, values: Floats, null: Floats | None) -> None:
    finite = values[np.isfinite(values)]
    known = np.zeros(0, np.float32) if null is None else null[np.isfinite(null)]
    # Bins of one width, of which one begins at 0, so that no bin both helps and harms.
    both = np.concatenate([finite, known, [0.0]])
    low, high = float(both.min()), float(both.max())
    width = (high - low or 1.0) / float(np.clip(2 * np.sqrt(max(len(finite), 1)), 10, _MOST_BINS))
    first, last = int(np.floor(low / width)), int(np.ceil(high / width))
    edges = np.arange(first, last + 2, dtype=np.float64) * width
    for part, color, label in ((finite[finite > 0], HELPS, "helpful"), (finite[finite <= 0], HARMS, "harmful")):
        axes.hist(part, edges, color=color, label=label)
    if len(known) >= _FEWEST_NULLS:
        # As many as there are instances: what the histogram would be if all of them did nothing.
        weights = np.full(len(known), max(len(finite), 1) / len(known))
        axes.hist(known, edges, weights=weights, histtype="step", color=_INK, linewidth=1.5, label="null ids")
    axes.legend(frameon=False, labelcolor=_INK, fontsize=9)
    axes.axvline(0.0, color=_INK, linewidth=0.8)
    if len(finite) >= _MANY:  # the tails are what is looked for
        axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("score (positive: the training instance helps)", color=_INK, fontsize=9)
    axes.set_ylabel("instances", color=_INK, fontsize=9)
    axes.set_title(f"Scores of {len(values):,} training instances", loc="left", color=_INK, fontsize=10, weight="bold")
    _quiet(axes)


def _draw_pictures(figure: Any, title: str, entries: Sequence[Entry]) -> None:
    figure.suptitle(title, x=0.01, ha="left", color=_INK, fontsize=10, weight="bold")
    for axes, one in zip(figure.subplots(1, max(len(entries), 1), squeeze=False)[0], entries, strict=False):
        if isinstance(one.row, np.ndarray):
            pixels: Any = one.row  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
            axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axes.set_title(shorten(one.instance, 18, placeholder="…"), color=_INK, fontsize=8, pad=3)
        axes.set_xlabel(one.text[0], color=one.color, fontsize=8, labelpad=2)
        axes.set_xticks([])
        axes.set_yticks([])
        for line in axes.spines.values():
            line.set_color(one.color)


def _draw_bars(axes: Any, title: str, entries: Sequence[Entry]) -> None:
    places = np.arange(len(entries))
    axes.barh(places, [abs(one.score) for one in entries], height=0.14, color=[one.color for one in entries])
    for place, one in zip(places, entries, strict=True):
        text = f"{shorten(one.instance, 30, placeholder='…')}   {one.text[0]}"
        if isinstance(one.row, str):
            text += "\n" + "\n".join(wrap(shorten(one.row, _LETTERS, placeholder="…"), 56)[:2])
        axes.annotate(text, (0, place), (0, 5), textcoords="offset points", color=_INK, fontsize=8, va="bottom")
    axes.set_xlim(0, 1.05 * max([abs(one.score) for one in entries] + [1e-12]))
    axes.set_ylim(len(entries) - 0.5, -1.0)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.set_title(title, loc="left", color=_INK, fontsize=10, weight="bold")
    _quiet(axes)
    axes.spines["bottom"].set_visible(False)


def _quiet(axes: Any) -> None:
    """Take away what says nothing."""
    axes.set_facecolor("none")
    axes.tick_params(colors=_INK, labelsize=8)
    for name, line in axes.spines.items():
        line.set_color(_INK)
        line.set_visible(name == "bottom")
