"""The figure: LDS and wrong labels found, method by method."""

from pathlib import Path
from typing import Any

from .ours import CANDIDATES

_PANELS = (("lds_plain", "LDS, plain network retrained"), ("mean_auc", "wrong labels by mean influence, AUC"))


def plot(result: dict[str, Any], file: Path) -> bool:
    """Write a bar a method, a row of panels a task; return whether there was anything to draw."""
    tasks = [task for task in result["tasks"].values() if task["methods"]]
    if not tasks:
        return False
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "faithfulness"  # the same numbers make the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(tasks), 2, figsize=(11, 4.2 * len(tasks)), squeeze=False)
    for row, task in zip(axes, tasks, strict=True):
        for axis, (name, title) in zip(row, _PANELS, strict=True):
            known = {key: found[name] for key, found in task["methods"].items() if name in found}
            places = range(len(known))
            axis.barh(
                places,
                [value["mean"] for value in known.values()],
                xerr=[value["sd"] or 0.0 for value in known.values()],
                color=["C0" if key in CANDIDATES else "C7" for key in known],
            )
            axis.set_yticks(places, [result["titles"][key] for key in known], fontsize=7)
            axis.invert_yaxis()
            axis.set_title(f"{task['setting']['title']}: {title}", fontsize=8)
            if name == "mean_auc":
                axis.set_xlim(0.5, 1.0)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)
    return True
