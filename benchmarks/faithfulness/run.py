"""Measure all cells of all tasks, and write the page of what is measured."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from experiments.runner import write_json
from turnover.storage import write_atomically

from .choose import chosen
from .config import Config
from .earlier import with_earlier
from .explored import EXPLORED, TRIED_ON
from .findings import findings
from .measure import measure
from .methods import methods, our_methods
from .page import page
from .table import collected


def run(
    config: Config,
    folder: Path,
    *,
    tasks: Sequence[str],
    methods_wanted: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> None:
    """Measure what is reported.

    Args:
        config: of the benchmark.
        folder: for all that is kept.
        tasks: names.
        methods_wanted: names; None: all.
        seeds: of those that are reported; None: all.
    """
    everyone = methods(config, default=chosen(folder))
    names = list(methods_wanted or everyone)
    unknown = [name for name in names if name not in everyone]
    if unknown:
        raise SystemExit(
            f"no method {', '.join(unknown)} is reported; there are {', '.join(everyone)}. Candidates for the default "
            "are measured by --choose."
        )
    for task in tasks:
        reported = sorted({seed for name in names for seed in everyone[name].seeds(config)})
        wanted = [
            (seed, name)
            for seed in reported
            if seeds is None or seed in seeds
            for name in names
            if seed in everyone[name].seeds(config)
        ]
        measure(config, folder, task, everyone, wanted)


def explore(config: Config, folder: Path, *, tasks: Sequence[str], methods_wanted: Sequence[str] | None = None) -> None:
    """Measure what else was tried, on the seeds that options are chosen on."""
    everyone = our_methods(config, EXPLORED)
    names = [name for name in everyone if methods_wanted is None or name in methods_wanted]
    for task in tasks:
        if task in TRIED_ON:
            measure(config, folder, task, everyone, [(seed, name) for seed in config.chosen_on for name in names])


def publish(config: Config, size: str, folder: Path, pages: Path) -> Path:
    """Write the JSON, the figure and the page of what is measured, here or earlier; return the page's path."""
    numbers = pages / "faithfulness.json"
    result = with_earlier(collected(config, size, folder), numbers)
    result["findings"] = [asdict(one) for one in findings(result)]  # for the page of all results
    pages.mkdir(parents=True, exist_ok=True)
    text = page(result, pages)  # first, so that a page that fails leaves the numbers as they were
    write_json(numbers, result)
    write_atomically(pages / "faithfulness.md", text)
    return pages / "faithfulness.md"
