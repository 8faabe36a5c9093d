"""The default, chosen by measurement: the estimate that is best on average, on seeds that are not reported."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.runner import write_json

from .config import Config
from .measure import measure
from .methods import our_methods
from .ours import CANDIDATES
from .table import means

JUDGED_BY = ("lds_plain", "lds_full", "mean_auc")


def choose(config: Config, folder: Path, *, tasks: Sequence[str], methods_wanted: Sequence[str] | None = None) -> None:
    """Measure all estimates on the seeds that options are chosen on, and note which is best.

    Args:
        config: of the benchmark.
        folder: for all that is kept; the choice goes to choice.json there.
        tasks: names of those to measure now.
        methods_wanted: estimates to measure now; None: all.
    """
    everyone = our_methods(config, CANDIDATES)
    names = [name for name in everyone if methods_wanted is None or name in methods_wanted]
    for task in tasks:
        measure(config, folder, task, everyone, [(seed, name) for seed in config.chosen_on for name in names])
    decide(config, folder)


def decide(config: Config, folder: Path) -> None:
    """Note which estimate is best by what is measured already."""
    names = list(our_methods(config, CANDIDATES))
    measured = {task: means(folder / task, names, config.chosen_on) for task in config.tasks}
    write_json(folder / "choice.json", best(measured))


def chosen(folder: Path) -> str | None:
    """Return the estimate that was chosen, or None."""
    file = folder / "choice.json"
    return json.loads(file.read_text(encoding="utf-8"))["default"] if file.exists() else None


def best(measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return which estimate is best, and by how much.

    Each figure counts as a share of the best estimate's on that task, so that no task and no figure counts more than
    another. Only estimates and tasks of which all is measured take part.

    Args:
        measured: figures by task and estimate.

    Example:
        >>> figure = lambda value: {name: {"mean": value} for name in JUDGED_BY}
        >>> best({"one": {"a": figure(0.2), "b": figure(0.4)}})["default"]
        'b'
    """
    tasks = [task for task, found in measured.items() if found]
    names = [
        name
        for name in (measured[tasks[0]] if tasks else ())
        if all(all(figure in measured[task].get(name, {}) for figure in JUDGED_BY) for task in tasks)
    ]
    shares = dict.fromkeys(names, 0.0)
    for task in tasks:
        for figure in JUDGED_BY:
            most = max((measured[task][name][figure]["mean"] for name in names), default=1.0)
            for name in names:
                shares[name] += measured[task][name][figure]["mean"] / most / len(tasks) / len(JUDGED_BY)
    order = sorted(shares, key=lambda name: -shares[name])
    return {"default": order[0] if order else None, "shares": {name: shares[name] for name in order}, "tasks": tasks}
