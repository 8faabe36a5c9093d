"""Measure all methods on all sizes, in turns, and fit how the costs grow."""

import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from turnover_bench.experiments.networks import mlp
from turnover_bench.experiments.runner import kept
from turnover_bench.experiments.timing import growth, one_thread, seconds

from .config import Table1Config
from .methods import CLASSES, FEATURES, METHODS, make_task

COSTS = ("training", "storage", "estimation")


def run(config: Table1Config, out: Path) -> dict[str, Any]:
    """Return costs and exponents; what was measured is kept under `out` and not measured again."""
    cells, measured = list(_cells(config)), []
    with one_thread(), tqdm(total=len(cells) + 1, unit=" cells") as bar:
        if not all(_file(out, cell).exists() for cell in cells):
            _warm_up(config, out)
        for cell in cells:
            bar.set_postfix_str(f"{cell['method']}, |D| = {cell['rows']}, width {cell['width']}")
            measured.append(kept(_file(out, cell), partial(_measured, config, cell, out / "scratch")))
            bar.update()
        check = kept(out / "cells" / "check.json", partial(_check_extrapolation, config, out / "scratch"))
        bar.update()
    costs = {method: _smallest(config, _cells_of(measured, method, "rows")) for method in METHODS}
    by_width = {method: _cells_of(measured, method, "width") for method in METHODS}
    parameters = [
        sum(p.numel() for p in mlp(FEATURES, (width, width), CLASSES).parameters()) for width in config.widths
    ]
    exponents = {
        method: {
            **{cost: _growth_of(costs[method], cost) for cost in COSTS},
            "storage_by_parameters": asdict(growth(parameters, [c["storage"] for c in by_width[method]])),
        }
        for method in METHODS
    }
    return {
        "setting": asdict(config),
        "parameters": parameters,
        "costs": costs,
        "storage_by_width": {method: [c["storage"] for c in by_width[method]] for method in METHODS},
        "exponents": exponents,
        "retrain_check": check,
    }


def _cells(config: Table1Config) -> Iterator[dict[str, Any]]:
    """Yield what is measured, in an order in which the methods take turns, so that noise of the machine hits all."""
    for width in config.widths:
        for method in METHODS:
            yield {"sweep": "width", "method": method, "rows": config.width_rows, "width": width, "repeat": 0}
    for repeat in range(config.repeats):
        for rows in config.rows:
            for method in METHODS:
                yield {"sweep": "rows", "method": method, "rows": rows, "width": config.width, "repeat": repeat}


def _measured(config: Table1Config, cell: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the costs of one cell."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    task = make_task(config, cell["rows"], cell["width"])
    method = METHODS[cell["method"]](task, folder)
    training = seconds(method.train)
    found = {**cell, "training": training / method.share, "storage": round(method.stored() / method.share)}
    if cell["sweep"] == "rows":
        found["estimation"] = seconds(lambda: method.estimate(cell["rows"]))
    if cell["sweep"] == "rows" and cell["rows"] == config.rows[-1] and not method.reads_rows:
        found["more"] = [seconds(lambda rows=rows: method.estimate(rows)) for rows in config.more_rows]
    shutil.rmtree(folder)
    return found


def _warm_up(config: Table1Config, out: Path) -> None:
    """Run everything once on the smallest size: first calls load code and fill caches."""
    for method in METHODS:
        cell = {"sweep": "rows", "method": method, "rows": config.rows[0], "width": config.width}
        _measured(config, cell, out / "scratch")


def _check_extrapolation(config: Table1Config, folder: Path) -> dict[str, Any]:
    """Return the time of all trainings of Re-train on the smallest data as a share of the extrapolated one."""
    rows = config.rows[0]
    task = make_task(config, rows, config.width)
    pairs = []
    for _ in range(config.repeats):
        method = METHODS["retrain"](task, folder)
        extrapolated = seconds(method.train) / method.share
        every = METHODS["retrain"](make_task(replace(config, retrained=rows), rows, config.width), folder)
        pairs.append((seconds(every.train), extrapolated))
    whole, extrapolated = (min(pair[place] for pair in pairs) for place in (0, 1))
    return {"rows": rows, "seconds": whole, "extrapolated": extrapolated, "ratio": whole / extrapolated}


def _smallest(config: Table1Config, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the costs of a method for each size, the smallest of the repeats."""
    costs = []
    for rows in config.rows:
        some = [cell for cell in found if cell["rows"] == rows]
        costs.append({"rows": rows, **{cost: min(cell[cost] for cell in some) for cost in COSTS}})
    more = [cell["more"] for cell in found if "more" in cell]
    return costs + [
        {"rows": rows, "estimation": min(seconds)}
        for rows, seconds in zip(config.more_rows, zip(*more, strict=True), strict=bool(more))
    ]


def _growth_of(costs: list[dict[str, Any]], cost: str) -> dict[str, float]:
    some = [cell for cell in costs if cost in cell]
    return asdict(growth([cell["rows"] for cell in some], [cell[cost] for cell in some]))


def _cells_of(cells: list[dict[str, Any]], method: str, sweep: str) -> list[dict[str, Any]]:
    return [cell for cell in cells if cell["method"] == method and cell["sweep"] == sweep]


def _file(out: Path, cell: dict[str, Any]) -> Path:
    return out / "cells" / ("-".join(str(value) for value in cell.values()) + ".json")
