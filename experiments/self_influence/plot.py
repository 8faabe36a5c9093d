"""The figure: histograms of self-influence beside never-trained ids, and self-influence by C-score."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TRAINED, _NEVER, _MANY = "#1b7fa6", "#a0a0a0", "#d95f02"
TITLES = {"sst2": "SST-2", "cifar10": "CIFAR-10"}


def plot(result: Mapping[str, Any], file: Path) -> None:
    """Write the figure of the first seed's histograms and all seeds' C-scores; the kind of file follows its name."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Fixed ids and no date: the same numbers give the same file.
    with mpl.rc_context({"svg.hashsalt": "self_influence", "font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=(13, 4), layout="constrained")
        panels = figure.subplots(1, 3)
        for panel, (name, task) in zip(panels, result["tasks"].items(), strict=False):
            _histogram(panel, task["runs"]["1"][0])
            panel.set_title(f"{TITLES[name]}, one model")
        panels[0].set_ylabel("training rows")
        _cscores(panels[2], result["tasks"]["cifar10"]["runs"])
        for panel in panels:
            panel.spines[["top", "right"]].set_visible(False)
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None, dpi=100)


def _histogram(panel: Any, found: Mapping[str, Any]) -> None:
    # The outermost bins hold all that lies beyond them and would look like peaks.
    edges = found["histogram"]["edges"][1:-1]
    rows, never = (found["histogram"][who][1:-1] for who in ("trained", "never_trained"))
    trained = f"trained rows: {found['positive']:.0%} above 0"
    panel.stairs(rows, edges, fill=True, color=_TRAINED, alpha=0.55, label=trained)
    panel.stairs(
        never, edges, color="#333333", linewidth=1.2, label=f"never-trained ids: {found['null_positive']:.0%} above 0"
    )
    panel.axvline(0, ymax=0.8, color="black", linewidth=0.8, linestyle=":")
    panel.set(xlabel="self-influence (loss without − loss with the row)", xlim=(edges[0], edges[-1]))
    panel.set_ylim(0, 1.25 * max(*rows, *never))
    panel.legend(frameon=False, loc="upper left", fontsize=9)


def _cscores(panel: Any, runs: Mapping[str, Any]) -> None:
    for (replicas, found), color, marker in zip(runs.items(), (_TRAINED, _MANY), "os", strict=False):
        who = "one model" if replicas == "1" else f"{replicas} replicas"
        panel.plot(*_means(found, "trained"), marker, color=color, linestyle="-", markersize=5, label=who)
    first = next(iter(runs.values()))
    panel.plot(*_means(first, "never_trained"), color=_NEVER, linestyle="--", label="never-trained ids")
    panel.axhline(0, color="black", linewidth=0.8, linestyle=":")
    panel.set(
        xlabel="C-score (mean of a tenth of the images)", ylabel="mean self-influence", title="CIFAR-10, C-scores"
    )
    panel.legend(frameon=False, fontsize=9)


def _means(found: list[Mapping[str, Any]], what: str) -> tuple[list[float], list[float]]:
    """Return C-scores and the mean over seeds of each tenth."""
    tenths = zip(*(one["deciles"][what] for one in found), strict=True)
    return found[0]["deciles"]["consistency"], [sum(some) / len(some) for some in tenths]
