"""Accuracy, wrong labels found and LDS of every variant."""

from pathlib import Path
from typing import Any

from .networks import VARIANTS

PANELS = {
    "accuracy": "accuracy on held-out rows",
    "self_auc": "wrong labels by self-influence (AUC)",
    "mean_auc": "wrong labels by mean influence (AUC)",
    "lds": "LDS",
}


def plot(result: dict[str, Any], file: Path) -> None:
    """Write an SVG: a panel a figure, a row a variant, a dot a seed and a line at the variant of the text."""
    import matplotlib

    matplotlib.use("svg")
    # Fixed, so that the same numbers give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "variants"
    from matplotlib.figure import Figure

    names = list(VARIANTS)[::-1]
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for axis, (key, title) in zip(figure.subplots(1, len(PANELS), sharey=True), PANELS.items(), strict=True):
        for place, name in enumerate(names):
            values = [cell[key] for cell in result["variants"][name] if key in cell]
            color = "#b03a2e" if name == "base" else "#34495e"
            axis.plot(values, [place] * len(values), "o", color=color, markersize=4, alpha=0.75)
            if values and name == "base":
                axis.axvline(sum(values) / len(values), color=color, linewidth=0.8, linestyle=":")
        axis.set_xlabel(title, fontsize=8)
        axis.set_yticks(range(len(names)), [VARIANTS[name].title for name in names], fontsize=7)
        axis.tick_params(axis="x", labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", linewidth=0.3)
    figure.savefig(file, metadata={"Date": None})
