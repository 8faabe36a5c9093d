"""Figures of scores with matplotlib, which is loaded where a figure is made.

The background is transparent and the ink gray, so that figures can be read in light and dark notebooks.
"""

from collections.abc import Sequence
from importlib import import_module
from textwrap import shorten, wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnover.errors import MissingExtraError

from ._arrays import Floats
from ._shown_lists import Entry

_INK, _HELPS, _HARMS = "#808080", "#2b8aef", "#e8590c"
_TITLES = {"helpful": "Most helpful", "harmful": "Most harmful"}
_MOST_BINS = 60
_FEWEST_NULLS = 10  # fewer make no histogram
_MANY = 100
_LETTERS = 90  # of a text beside a bar


def plot_scores(values: Floats, null: Floats | None, entries: Sequence[Entry]) -> Any:
    """Return a figure of a histogram of scores, beside that of null ids, above the lists."""
    height = _height(entries)
    figure = _figure(2.6 + height)
    above, below = figure.subfigures(2, 1, height_ratios=[2.6, height])
    _draw_histogram(above.subplots(), values, null)
    _draw_lists(below, entries)
    return figure


def plot_lists(entries: Sequence[Entry]) -> Any:
    """Return a figure of both lists."""
    figure = _figure(_height(entries))
    _draw_lists(figure, entries)
    return figure


def _figure(height: float) -> Any:
    try:
        figures = import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: pip install 'turnover[plot]'.") from error
    figure = figures.Figure((9.0, height), facecolor="none", layout="constrained")
    # A figure that pyplot does not know is shown once, by the notebook, and needs no closing.
    import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    return figure


def _height(entries: Sequence[Entry]) -> float:
    rows = max([sum(one.side == side for one in entries) for side in _TITLES] + [1])
    return (
        3.0
        if _are_pictures(entries)
        else 0.8 + (0.68 if any(isinstance(one.row, str) for one in entries) else 0.34) * rows
    )


def _are_pictures(entries: Sequence[Entry]) -> bool:
    return any(isinstance(one.row, np.ndarray) for one in entries)


def _draw_histogram(axes: Any, values: Floats, null: Floats | None) -> None:
    finite = values[np.isfinite(values)]
    known = np.zeros(0, np.float32) if null is None else null[np.isfinite(null)]
    edges = _edges(np.concatenate([finite, known, [0.0]]), len(finite))
    for part, color, label in ((finite[finite > 0], _HELPS, "helpful"), (finite[finite <= 0], _HARMS, "harmful")):
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


def _edges(values: NDArray[Any], count: int) -> NDArray[np.float64]:
    """Return the edges of bins of one width, of which one is 0, so that no bin both helps and harms."""
    low, high = float(values.min()), float(values.max())
    width = (high - low or 1.0) / float(np.clip(2 * np.sqrt(max(count, 1)), 10, _MOST_BINS))
    first, last = int(np.floor(low / width)), int(np.ceil(high / width))
    return np.arange(first, last + 2, dtype=np.float64) * width


def _draw_lists(figure: Any, entries: Sequence[Entry]) -> None:
    sides = {side: [one for one in entries if one.side == side] for side in _TITLES}
    if _are_pictures(entries):
        parts: list[Any] = list(figure.subfigures(2, 1))
        for part, (side, listed) in zip(parts, sides.items(), strict=True):
            _draw_pictures(part, _TITLES[side], listed)
        return
    for axes, (side, listed) in zip(figure.subplots(1, 2), sides.items(), strict=True):
        _draw_bars(axes, _TITLES[side], listed, max([abs(one.score) for one in entries] + [1e-12]))


def _draw_pictures(figure: Any, title: str, entries: Sequence[Entry]) -> None:
    figure.suptitle(title, x=0.01, ha="left", color=_INK, fontsize=10, weight="bold")
    for axes, one in zip(figure.subplots(1, max(len(entries), 1), squeeze=False)[0], entries, strict=False):
        if isinstance(one.row, np.ndarray):
            pixels: Any = one.row  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
            axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        color = _HELPS if one.score > 0 else _HARMS
        axes.set_title(f"{shorten(one.instance, 18, placeholder='…')}", color=_INK, fontsize=8, pad=3)
        axes.set_xlabel(_score_text(one), color=color, fontsize=8, labelpad=2)
        axes.set_xticks([])
        axes.set_yticks([])
        for line in axes.spines.values():
            line.set_color(color)


def _score_text(entry: Entry) -> str:
    """Return the score with its standard error, shorter than in a table."""
    return f"{entry.score:+.2g}" + ("" if entry.stderr is None else f" ± {entry.stderr:.1g}")


def _draw_bars(axes: Any, title: str, entries: Sequence[Entry], largest: float) -> None:
    places = np.arange(len(entries))
    colors = [_HELPS if one.score > 0 else _HARMS for one in entries]
    axes.barh(places, [abs(one.score) for one in entries], height=0.14, color=colors)
    for place, one in zip(places, entries, strict=True):
        text = f"{shorten(one.instance, 30, placeholder='…')}   {_score_text(one)}"
        if isinstance(one.row, str):
            text += "\n" + "\n".join(wrap(shorten(one.row, _LETTERS, placeholder="…"), 56)[:2])
        axes.annotate(text, (0, place), (0, 5), textcoords="offset points", color=_INK, fontsize=8, va="bottom")
    axes.set_xlim(0, 1.05 * largest)
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
