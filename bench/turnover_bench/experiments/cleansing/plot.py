"""The figure: gain in accuracy and in loss over all rows, by the share that is removed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from turnover_bench.experiments.figures import drawn, tidy

NAMES = {
    "random": "at random",
    "tod": "by one model, original estimator",
    "replicas": "by {replicas} replicas",
    "recommended": "by {replicas} replicas, the recommended estimator",
}
_STYLES = {
    "random": ("#888888", "v"),
    "tod": ("#1b7fa6", "o"),
    "replicas": ("#7b3fa0", "s"),
    "recommended": ("#c8102e", "P"),
}
_MEASURES = {"accuracy": ("accuracy gained (points)", 100.0), "loss": ("loss saved", -1.0)}


def gains(result: Mapping[str, Any], name: str, share: float, measure: str, *, rows: str = "test") -> np.ndarray:
    """Return by how much an arm ("random" or an estimate) is better than all rows, seed by seed.

    Positive: more accurate, or less loss, on "test", "validation" or "dev" rows.
    """
    sign = 1 if measure == "accuracy" else -1
    return np.array(
        [
            sign * (seed["arms"][name][str(share)][rows][measure] - seed["none"][rows][measure])
            for seed in result["seeds"]
        ]
    )


def standard_error(values: np.ndarray) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def plot(result: Mapping[str, Any], file: Path) -> None:
    """Write the figure."""
    shares = result["setting"]["shares"]
    with drawn(file, (11, 4.2)) as figure:
        panels = figure.subplots(1, 2)
        for panel, (measure, (title, scale)) in zip(panels, _MEASURES.items(), strict=True):
            for place, name in enumerate(("random", *result["setting"]["estimates"])):
                each = [abs(scale) * gains(result, name, share, measure) for share in shares]
                color, marker = _STYLES[name]
                # Side by side, so that the bars can be distinguished.
                x = np.array(shares) * 100 * 1.05 ** (place - 1.5)
                means, errors = [one.mean() for one in each], [standard_error(one) for one in each]
                label = NAMES[name].format(**result["setting"])
                panel.errorbar(x, means, errors, color=color, marker=marker, markersize=5, capsize=2, label=label)
            panel.axhline(0, color="black", linewidth=0.8, linestyle=":")
            panel.set_xscale("log")
            panel.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares], minor=False)
            panel.set_xticks([], minor=True)
            panel.set(xlabel="removed (% of the training rows)", ylabel=title)
            tidy(panel, grid=None)
        panels[1].legend(frameon=False, title="rows chosen", fontsize=9, loc="lower left", alignment="left")
