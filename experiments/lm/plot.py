"""The plot: self-influence by frequency, for names and other words; and perplexity without what scored highest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .changes import change, mean_and_error

_COLOURS = {"names": "#e7298a", "others": "#444444"}
_LABELS = {"names": "names (capital within a sentence)", "others": "other words"}
VARIANT_TITLES = {
    "removed": "highest self-influence\nleft out",
    "weighted": "highest self-influence\nweighted down",
    "matched": "random, as frequent,\nleft out",
    "random": "random, left out",
}
_FEW = 3  # different words below which a mean is not drawn


def plot(result: Mapping[str, Any], file: Path) -> None:
    """Write both panels; the kind of file follows its name."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Fixed ids and no date: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "lm", "font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        for name, color in _COLOURS.items():
            some = [one for one in result["pattern"]["bins"] if one[name]["words"] >= _FEW]
            left.plot(
                [(one["from"] * one["to"]) ** 0.5 for one in some],
                [one[name]["mean"] for one in some],
                color=color,
                marker="o" if name == "names" else "s",
                label=_LABELS[name],
            )
        left.axhline(0, color="#999999", linewidth=0.8)
        left.set(
            title="self-influence by frequency",
            xlabel="how often the word is in the training text",
            ylabel="mean self-influence, nats",
            xscale="log",
        )
        left.legend(frameon=False, loc="lower left")
        _changes(right, result["removal"])
        for panel in (left, right):
            panel.grid(color="#dddddd", linewidth=0.6)
            panel.set_axisbelow(True)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=100)


def _changes(panel: Any, removal: Mapping[str, Any]) -> None:
    """Draw by how much each variant changes test perplexity of known words, share by share."""
    names = list(VARIANT_TITLES)
    for place, one in enumerate(removal["shares"]):
        means, errors = zip(
            *(mean_and_error(change(one[name], removal["everything"], "known")) for name in names), strict=True
        )
        heights = [number + 0.16 * (place - (len(removal["shares"]) - 1) / 2) for number in range(len(names))]
        style = {"marker": "osD^"[place % 4], "color": ("#d95f02", "#7570b3", "#1b9e77", "#444444")[place % 4]}
        label = f"{100 * one['share']:g} %"
        panel.errorbar(means, heights, xerr=errors, linestyle="none", capsize=3, label=label, **style)
    panel.axvline(0, color="#999999", linewidth=0.8)
    panel.set_yticks(range(len(names)), labels=[VARIANT_TITLES[name] for name in names])
    panel.invert_yaxis()
    shares = [f"{100 * one['share']:g} %" for one in removal["shares"]]
    panel.set(
        title=f"test perplexity without {' or '.join(shares)} of the positions",
        xlabel="change in % ± standard error (words of the vocabulary)",
    )
    if len(shares) > 1:
        panel.legend(frameon=False)
