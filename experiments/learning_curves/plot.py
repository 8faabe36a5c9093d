"""The plot: loss of kept, flipped and test rows while adapters learn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .areas import Curves

_LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "keep": ("training rows, part that learns them (keep)", {"color": "#c8102e", "linewidth": 2.0}),
    "flip": ("training rows, part that never learns them (flip)", {"color": "#1f4e9c", "linewidth": 2.0}),
    "test": ("test rows, full network", {"color": "#222222", "linewidth": 1.6, "linestyle": ":"}),
    "test_half": ("test rows, half network", {"color": "#777777", "linewidth": 1.2, "linestyle": (0, (1, 3))}),
    "held_out": (
        "held-out training rows, full network",
        {"color": "#2e8b57", "linewidth": 1.2, "ls": "--"},
    ),
}


def plot(runs: Sequence[Curves], file: Path) -> None:
    """Write the curves: means over seeds, with a band from the lowest seed to the highest."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Fixed ids and no date: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "learning_curves", "font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        panel = figure.subplots()
        steps = [point["step"] for point in runs[0]]
        for name, (label, style) in _LINES.items():
            values = list(zip(*([_loss(point, name) for point in one] for one in runs), strict=True))
            panel.plot(steps, [sum(some) / len(some) for some in values], label=label, **style)
            if len(runs) > 1 and name in ("keep", "flip", "test"):
                low, high = [min(some) for some in values], [max(some) for some in values]
                panel.fill_between(steps, low, high, color=style["color"], alpha=0.13, linewidth=0)
        panel.set(xlabel="step", ylabel="loss", xlim=(0, steps[-1]), ylim=(0, None))
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#e4e4e4", linewidth=0.6)
        panel.set_axisbelow(True)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=110)


def _loss(point: Mapping[str, float], name: str) -> float:
    return point[name]
