"""Measure all cells of all tasks, choose the default, and write the page of what is measured, here or earlier."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from turnover.storage import write_atomically
from turnover_bench.experiments.runner import read_json, write_json

from .cells import measure
from .config import Config
from .methods import Method, methods, our_methods
from .ours import CANDIDATES, EXPLORED, TRIED_ON
from .page import findings, page
from .table import collected, means, with_earlier

JUDGED_BY = ("lds_plain", "lds_full", "mean_auc")


def choose(config: Config, folder: Path, *, tasks: Sequence[str], method_names: Sequence[str] | None = None) -> None:
    """Measure all estimates on the seeds that options are chosen on, and note which is best by what is measured."""
    everyone = our_methods(config, CANDIDATES)
    _measure_ours(config, folder, everyone, tasks, method_names)
    measured = {
        task: means(folder / task, list(everyone), config.chosen_on) for task in config.tasks if task in TRIED_ON
    }
    write_json(folder / "choice.json", best(measured))


def explore(config: Config, folder: Path, *, tasks: Sequence[str], method_names: Sequence[str] | None = None) -> None:
    """Measure what else was tried, on the seeds that options are chosen on."""
    tried_on = [task for task in tasks if task in TRIED_ON]
    _measure_ours(config, folder, our_methods(config, EXPLORED), tried_on, method_names)


def _measure_ours(
    config: Config, folder: Path, everyone: dict[str, Method], tasks: Sequence[str], names: Sequence[str] | None
) -> None:
    asked = [name for name in everyone if names is None or name in names]
    for task in tasks:
        measure(config, folder, task, everyone, [(seed, name) for seed in config.chosen_on for name in asked])


def chosen(folder: Path) -> str | None:
    """Return the estimate that was chosen, or None."""
    file = folder / "choice.json"
    return read_json(file)["default"] if file.exists() else None


def best(measured: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return which estimate is best, and by how much.

    Each figure counts as a share of the best estimate's on that task, so that no task and no figure counts more than
    another. Only estimates and tasks of which all is measured take part.

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


def run(
    config: Config,
    folder: Path,
    *,
    tasks: Sequence[str],
    method_names: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> None:
    """Measure what is reported."""
    everyone = methods(config, default=chosen(folder))
    names = list(method_names or everyone)
    unknown = [name for name in names if name not in everyone]
    if unknown:
        raise SystemExit(
            f"no method {', '.join(unknown)} is reported; there are {', '.join(everyone)}. Candidates for the default "
            "are measured by --choose."
        )
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
    """Write the JSON, the figure and the page of what is measured, here or earlier; return the page's path."""
    result = with_earlier(collected(config, size, folder), pages / "faithfulness.json")
    decided = best({task: result["chosen_on"].get(task, {}) for task in TRIED_ON})
    if decided["default"] is not None:
        result["choice"] = decided
    return write_page(result, pages)


def write_page(result: dict[str, Any], pages: Path) -> Path:
    """Write the JSON, the figure and the page of a result; return the page's path."""
    result["findings"] = [asdict(one) for one in findings(result)]  # for the page of all results
    pages.mkdir(parents=True, exist_ok=True)
    text = page(result, pages)  # first, so that a page that fails leaves the numbers as they were
    write_json(pages / "faithfulness.json", result)
    write_atomically(pages / "faithfulness.md", text)
    return pages / "faithfulness.md"
