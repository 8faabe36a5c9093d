"""The plot: loss of kept, flipped and validation rows while adapters learn."""

from collections.abc import Mapping, Sequence
from pathlib import Path

_LINES = {
    "curve_keep": ("training rows, kept part", "#d95f02", "s"),
    "curve_flip": ("training rows, flipped part", "#e7298a", "o"),
    "curve_validation": ("validation rows", "#444444", "^"),
}


def plot_curves(curves: Sequence[Mapping[str, float]], file: Path) -> None:
    """Write the three curves; the kind of file follows its name."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Fixed ids and no date: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "real_models", "font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=(7, 4), layout="constrained")
        panel = figure.subplots()
        for name, (label, color, marker) in _LINES.items():
            steps, losses = [point["step"] for point in curves], [point[name] for point in curves]
            panel.plot(steps, losses, label=label, color=color, marker=marker, markersize=5)
        panel.set(xlabel="step", ylabel="loss")
        panel.grid(color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.legend(frameon=False)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=100)
