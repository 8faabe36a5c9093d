"""Measure all cells of all tasks; figures over seeds, here or of an earlier run; publish them."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from turnover.evaluation import retraining_ceiling
from turnover.storage import TileStore, write_atomically
from turnover_bench.experiments.runner import as_json, machine, read_json, write_json

from .cells import measure, read_cells
from .methods import DEFAULT, methods
from .page import MARK, findings, page
from .tasks import VIEWS, Config, TaskConfig

Figures = dict[str, Any]
_NOT_FIGURES = ("method", "seed", "threads", "failed", "trace")


def run(
    config: Config,
    folder: Path,
    *,
    tasks: Sequence[str],
    method_names: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> None:
    """Measure what is reported."""
    everyone = methods(config)
    names = list(method_names or everyone)
    unknown = [name for name in names if name not in everyone]
    if unknown:
        raise SystemExit(f"no method {', '.join(unknown)} is reported; there are {', '.join(everyone)}.")
    for task in tasks:
        reported = sorted({seed for name in names for seed in everyone[name].seeds(config)})
        seeds_and_names = [
            (seed, name)
            for seed in reported
            if seeds is None or seed in seeds
            for name in names
            if seed in everyone[name].seeds(config)
        ]
        measure(config, folder, task, everyone, seeds_and_names)


def publish(config: Config, size: str, folder: Path, pages: Path) -> Path:
    return write_page(with_earlier(collected(config, size, folder), pages / "faithfulness.json"), pages)


def write_page(result: dict[str, Any], pages: Path) -> Path:
    """Write the JSON, the figure and the page of a result; return the page's path."""
    result["findings"] = [asdict(one) for one in findings(result)]  # for the page of all results
    pages.mkdir(parents=True, exist_ok=True)
    text = page(result, pages)  # first, so that a page that fails leaves the numbers as they were
    write_json(pages / "faithfulness.json", result)
    write_atomically(pages / "faithfulness.md", text)
    return pages / "faithfulness.md"


def collected(config: Config, size: str, folder: Path) -> Figures:
    """Return all that is measured, as JSON data; what is missing is named."""
    everyone = methods(config)
    tasks = {}
    for name, task in config.tasks.items():
        found = {
            method: means(folder / name, [method], everyone[method].seeds(config)).get(method) for method in everyone
        }
        tasks[name] = {
            "setting": asdict(task),
            "ceiling": {view: ceiling(folder / name, task, view) for view in VIEWS},
            "methods": {method: figures for method, figures in found.items() if figures},
            "failed": _failed(folder / name),
            "missing": [method for method, figures in found.items() if not figures],
        }
    return {
        "experiment": "faithfulness",  # as those of experiments/ say it, for the list of all results
        "size": size,
        "seconds": sum(
            cell.get("train_seconds", 0.0) + cell.get("score_seconds", 0.0)
            for name in config.tasks
            for cell in read_cells(folder / name)
        ),
        "setting": {key: value for key, value in asdict(config).items() if key != "tasks"},
        "titles": {name: method.title for name, method in everyone.items()},
        "tasks": tasks,
        "default": DEFAULT,
        "machine": machine(),
    }


def means(folder: Path, names: Sequence[str], seeds: Iterable[int]) -> dict[str, Figures]:
    """Return mean, standard deviation and number of seeds of every figure, by method."""
    reported = set(seeds)
    cells = [cell for cell in read_cells(folder) if cell["seed"] in reported and "failed" not in cell]
    found: dict[str, Figures] = {}
    for name in names:
        mine = [cell for cell in cells if cell["method"] == name]
        keys = {key for cell in mine for key in cell if key not in _NOT_FIGURES}
        figures = {key: summary([cell[key] for cell in mine if cell.get(key) is not None]) for key in sorted(keys)}
        if mine:
            found[name] = {key: value for key, value in figures.items() if value is not None}
    return found


def summary(values: Sequence[float]) -> Figures | None:
    """Return mean, standard deviation (None for one value) and number of values.

    Example:
        >>> summary([1.0, 3.0])
        {'mean': 2.0, 'sd': 1.4142135623730951, 'seeds': 2}
    """
    if not values:
        return None
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd": spread, "seeds": len(values)}


def ceiling(folder: Path, task: TaskConfig, view: str) -> float | None:
    """Return the LDS that retraining noise allows; None where halves were retrained once, or not yet."""
    kept = folder / f"truth-{view}"
    if task.retrainings < 2 or not kept.exists():
        return None
    store = TileStore.open_for_reading(kept)
    losses = store.read("measured")
    return retraining_ceiling(losses.reshape(task.retrainings, task.halves, -1)).value


def _failed(folder: Path) -> dict[str, str]:
    return {f"{cell['method']}, seed {cell['seed']}": cell["failed"] for cell in read_cells(folder) if "failed" in cell}


def with_earlier(result: Figures, file: Path) -> Figures:
    """Return a result with what a published one knows beyond it; figures taken from there have the key `MARK`.

    Args:
        result: of the run at hand.
        file: the published result; where there is none, or one of other settings, nothing is taken.
    """
    result = as_json(result)
    earlier = read_json(file) if file.exists() else {}
    if any(earlier.get(key) != result[key] for key in ("size", "setting")):
        return result
    result["seconds"] = max(result["seconds"], earlier["seconds"])  # of all cells, most of which may be earlier ones
    same = [
        name
        for name, task in result["tasks"].items()
        if task["setting"] == earlier["tasks"].get(name, {}).get("setting")
    ]
    for name in same:
        task, before = result["tasks"][name], earlier["tasks"][name]
        known = {*task["methods"], *task["missing"]}
        task["methods"] = {
            method: figures
            for method in result["titles"]
            if method in known and (figures := _more(task["methods"].get(method), before["methods"].get(method)))
        }
        task["missing"] = [method for method in task["missing"] if method not in task["methods"]]
        task["ceiling"] = {
            view: before["ceiling"].get(view) if value is None else value for view, value in task["ceiling"].items()
        }
    return result


def _more(now: Figures | None, before: Figures | None) -> Figures | None:
    if before is None or (now is not None and _seeds(now) >= _seeds(before)):
        return now
    return before | {MARK: True}


def _seeds(figures: Figures) -> int:
    return figures["score_seconds"]["seeds"]
