"""The plot: seconds against the number of instances, and the ratio to influence functions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnover_bench.experiments.figures import drawn, tidy

from .config import HEADLINE

_KOH, _PEER = "#7570b3", "#1b9e77"
_OURS = ("#444444", "#d95f02", "#e6ab02", "#e7298a", "#a6761d", "#66a61e", "#1f78b4")
_MARKERS = "s^vo<>P"
_PAPER = 17
_GREY: dict[str, Any] = {"textcoords": "offset points", "color": "#666666"}


def plot(result: Mapping[str, Any], file: Path) -> None:
    """Write both panels: seconds, and ratios to influence functions."""
    growth = result["growth"]
    sizes = [one["instances"] for one in growth]
    with drawn(file, (10, 4.8)) as figure:
        left, right = figure.subplots(1, 2)
        koh = [one["koh"][HEADLINE] for one in growth]
        left.plot(sizes, koh, color=_KOH, marker="D", linewidth=2, label="influence functions (Koh+)")
        if "peer" in growth[0]:
            peer = [one["peer"] for one in growth]
            left.plot(sizes, peer, color=_PEER, marker="X", label=result["peer"]["name"])
        for place, name in enumerate(growth[0]["ours"]):
            look: dict[str, Any] = {
                "color": _OURS[place % len(_OURS)],
                "marker": _MARKERS[place % len(_MARKERS)],
                "markersize": 5,
                "label": _short_title(name),
            }
            left.plot(sizes, [one["ours"][name] for one in growth], **look)
            right.plot(sizes, [one["ratio"][HEADLINE][name] for one in growth], **look)
        right.axhline(_PAPER, color="#999999", linestyle=":")
        right.annotate(f"the paper: {_PAPER}", (sizes[0], _PAPER), (-6, 4), fontsize=8, **_GREY)
        left.set(title="seconds for one target", ylabel="processor seconds, one thread")
        right.set(title="times faster than influence functions", ylabel="ratio")
        for panel in (left, right):
            panel.set(xlabel="training instances", xscale="log", yscale="log")
            panel.minorticks_off()
            tidy(panel, box=True)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def network_title(name: str) -> str:
    """Return what a way to compute our scores is called.

    Example:
        >>> network_title("1"), network_title("loop")
        ('engine, masks of the top block and output layer', "the authors' loop, all masks")
    """
    if name == "loop":
        return "the authors' loop, all masks"
    if name == "all":
        return "engine, all masks"
    if name == "0":
        return "engine, masks of the output layer"
    return f"engine, masks of the top {'block' if name == '1' else f'{name} blocks'} and output layer"


def _short_title(name: str) -> str:
    """Return the same in few words, for a legend.

    Example:
        >>> _short_title("1"), _short_title("0")
        ('engine, top block', 'engine, output layer')
    """
    long = network_title(name).replace("masks of the ", "")
    return long.removesuffix(" and output layer")
