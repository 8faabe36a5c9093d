"""Measure all methods on all tasks, by both ground truths."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tqdm import tqdm

from turnover.evaluation import Bootstrap, mean_interval
from turnover.training import TrainingRecipe
from turnover_bench.checks import EvaluationConfig, Row, Table, Task, evaluate
from turnover_bench.experiments.runner import kept

from .config import ComparedConfig, TaskConfig
from .methods import ONCE, TASK_NAMES, Prepared, RandomScores, methods, prepare

View = Literal["plain", "full"]
VIEWS: tuple[View, ...] = ("plain", "full")

# The methods' own seeds are none of the ground truth's: a method must not be praised for knowing its noise.
_FIRST_SEED = 10
_FIRST_LOO_SEED = 500


def run(config: ComparedConfig, out: Path) -> dict[str, Any]:
    """Return what was measured, by task and ground truth."""
    result: dict[str, Any] = {"setting": asdict(config), "tasks": {}}
    parts: list[tuple[TaskConfig, View]] = [(task, view) for task in config.tasks for view in VIEWS]
    for task, view in tqdm(parts, desc="compared", unit=" tables"):
        # Features are kept beside the runs, for all experiments.
        ready = prepare(task, out.parent / "cache")
        told = result["tasks"].setdefault(task.data, {"name": TASK_NAMES[task.data], "rows": task.rows})
        told["queries"], told["wrong"] = task.queries, int(ready.wrong.sum())
        name = f"{task.data}-{view}"
        measure = partial(_measure, task, ready, view, config, out / "ground-truth" / name)
        told[view] = kept(out / "parts" / f"{name}.json", measure)
    return result


def _measure(task: TaskConfig, ready: Prepared, view: View, config: ComparedConfig, cache: Path) -> dict[str, Any]:
    """Return the figures of all methods on one task by one ground truth."""
    recipe = ready.plain if view == "plain" else ready.masked()
    asked = Task(task.data, recipe, ready.queries, ready.wrong)
    how = EvaluationConfig(
        subsets=config.subsets,
        subset_seeds=config.subset_seeds,
        loo_rows=config.loo_rows,
        loo_seeds=[_FIRST_LOO_SEED + place for place in range(config.loo_seeds)],
        ks=(config.removed,),
        brittle_queries=config.brittle_queries,
        processes=config.processes,
        cache=cache,
        bootstrap=Bootstrap(draws=config.draws),
    )
    # The ground truth first, in as many processes as given; all evaluations then find it in the cache.
    evaluate(asked, {"random": lambda: RandomScores(task.rows, 0)}, metrics=["lds", "loo"], config=how, progress=True)
    how = replace(how, processes=1)
    tables = []
    for place in range(config.seeds):
        seed = _FIRST_SEED + place
        chosen = methods(task, ready, recipe, config, seed=seed, cache=cache)
        if place == 0:
            tables.append(evaluate(asked, chosen, config=how))
        else:
            several = {key: build for key, build in chosen.items() if key not in ONCE}
            tables.append(evaluate(asked, several, metrics=["lds", "loo", "mislabels", "self"], config=how))
    return {"accuracy": _accuracy(recipe, ready), **_figures(tables, config.draws)}


def _accuracy(recipe: TrainingRecipe, ready: Prepared) -> float:
    x, labels = ready.held_out
    model = recipe.fit(seed=_FIRST_SEED)
    with torch.no_grad():
        return float((model(x).argmax(1) == labels).float().mean())


def _figures(tables: Sequence[Table], draws: int) -> dict[str, Any]:
    """Return what the page shows: figures of every method, means over its seeds, and the references."""
    first = tables[0]
    assert first.ceiling is not None
    found: dict[str, Any] = {
        "ceiling": first.ceiling.value,
        "random_brittleness": next(iter((first.random_brittleness or {}).values()), None),
        "methods": {},
    }
    for row in first.rows:
        rows = [one for table in tables for one in table.rows if one.method == row.method]
        found["methods"][row.method] = _of_method(rows, draws)
    if first.agreement is not None:
        found["agreement"] = {
            "names": list(first.agreement.names),
            "spearman": first.agreement.spearman.round(4).tolist(),
        }
    return found


def _of_method(rows: Sequence[Row], draws: int) -> dict[str, Any]:
    """Return the figures of one method, means over the rows of its seeds."""
    known = [row.lds for row in rows if row.lds is not None]
    figures: dict[str, Any] = {
        "seeds": len(rows),
        "problems": {what: why for row in rows for what, why in row.problems.items()},
    }
    if known:
        interval = mean_interval(np.mean([one.per_query for one in known], axis=0), Bootstrap(draws=draws))
        figures |= {"lds": _mean([one.value for one in known]), "lds_low": interval.low, "lds_high": interval.high}
        figures["lds_by_seed"] = [one.value for one in known]
    figures |= {
        "loo_pearson": _mean([row.loo.pearson.mean for row in rows if row.loo]),
        "loo_spearman": _mean([row.loo.spearman.mean for row in rows if row.loo]),
    }
    for kind in ("self", "mean"):
        some = [one for row in rows if (one := getattr(row, f"mislabels_{kind}")) is not None]
        figures |= {
            f"{kind}_auc": _mean([one.auc for one in some]),
            f"{kind}_found": _mean([one.found for one in some]),
        }
    brittle = rows[0].brittleness
    figures["brittleness"] = None if brittle is None else next(iter(brittle.values()))
    for name in ("build_seconds", "score_seconds", "peak_bytes", "storage_bytes"):
        figures[name] = _mean([value for row in rows if (value := getattr(row, name)) is not None])
    return figures


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
