"""The linear datamodeling score of every method, with intervals and ceilings."""

from pathlib import Path
from typing import Any

from .methods import NAMES

TRUTHS = {"plain": "plain model retrained", "full": "masked model retrained, full view"}


def plot(result: dict[str, Any], file: Path) -> None:
    """Write an SVG: a panel a task, a dot a method and ground truth."""
    import matplotlib

    matplotlib.use("svg")
    # Fixed, so that the same numbers give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "compared"
    from matplotlib.figure import Figure

    tasks = result["tasks"]
    figure = Figure(figsize=(5 * len(tasks), 3.6), layout="constrained")
    for panel, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks.values(), strict=True):
        keys = [key for key in NAMES if key in task["plain"]["methods"]][::-1]
        for view, color, shift in (("plain", "tab:blue", 0.12), ("full", "tab:orange", -0.12)):
            for place, key in enumerate(keys):
                found = task[view]["methods"][key]
                if found.get("lds") is not None:
                    panel.plot([found["lds_low"], found["lds_high"]], [place + shift] * 2, color=color, linewidth=1)
                    panel.plot(found["lds"], place + shift, "o", color=color, markersize=4)
            panel.axvline(task[view]["ceiling"], color=color, linestyle=":", linewidth=1, label=TRUTHS[view])
        panel.axvline(0, color="gray", linewidth=0.6)
        panel.set_yticks(range(len(keys)), [NAMES[key] for key in keys], fontsize=7)
        panel.set_xlabel("LDS (dotted: ceiling)", fontsize=8)
        panel.set_title(task["name"], fontsize=9)
        panel.legend(fontsize=6, loc="lower right")
    figure.savefig(file, metadata={"Date": None})
