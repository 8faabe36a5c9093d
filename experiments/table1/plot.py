"""The plot: one panel each for training, storage, estimation, and storage against |θ|."""

from pathlib import Path
from typing import Any

from .orders import ORDERS

_COLOURS = {"retrain": "#444444", "hara": "#d95f02", "koh": "#7570b3", "feldman": "#1b9e77", "turnover": "#e7298a"}
_MARKERS = {"retrain": "s", "hara": "^", "koh": "D", "feldman": "v", "turnover": "o"}
_PANELS = {
    "training": "training, seconds",
    "storage": "storage, bytes",
    "estimation": "estimation of one query, seconds",
}


def plot(result: dict[str, Any], file: Path) -> None:
    """Write the costs as lines on logarithmic axes; the kind of file follows its name."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Fixed ids and no date: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "table1", "font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=(10, 8), layout="constrained")
        panels = figure.subplots(2, 2).ravel()
        for panel, (cost, label) in zip(panels, _PANELS.items(), strict=False):
            for method, cells in result["costs"].items():
                some = [cell for cell in cells if cost in cell]
                _line(panel, method, [cell["rows"] for cell in some], [cell[cost] for cell in some])
            panel.set(title=label, xlabel="|D|, training rows", xscale="log", yscale="log")
        for method, stored in result["storage_by_width"].items():
            _line(panels[3], method, result["parameters"], stored)
        title = f"storage, bytes, at |D| = {result['setting']['width_rows']}"
        panels[3].set(title=title, xlabel="|θ|, parameters", xscale="log", yscale="log")
        for panel in panels[:2]:
            rows = result["setting"]["rows"]
            panel.set_xticks(rows, labels=[f"{size:,}" for size in rows])
        for panel in panels:
            # Numbers between the powers of ten would run into each other.
            panel.minorticks_off()
            panel.grid(which="major", color="#dddddd", linewidth=0.6)
            panel.set_axisbelow(True)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=100)


def _line(panel: Any, method: str, x: list[float], y: list[float]) -> None:
    # Lines that lie on each other stay visible: ours is drawn over the others, thicker and with open marks.
    ours = method == "turnover"
    panel.plot(
        x,
        y,
        label=ORDERS[method].title,
        color=_COLOURS[method],
        marker=_MARKERS[method],
        markersize=7 if ours else 5,
        markerfacecolor="none" if ours else None,
        linewidth=2 if ours else 1.4,
        zorder=3 if ours else 2,
    )
