"""Train, compute self-influence of every row, and compare with null ids and with C-scores."""

from dataclasses import asdict
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import turnover
from turnover.evaluation import spearman
from turnover_bench.experiments.checkpoints import next_checkpoint
from turnover_bench.experiments.cleansing.data import labeled, part, row_losses
from turnover_bench.experiments.runner import kept, spent
from turnover_bench.experiments.timing import one_thread

from .config import Config
from .tasks import Task, image_task, text_task

_BINS = 81
_DECILES = 10
# Of the training rows, while a rate is chosen.
_HELD_OUT = 5
_CHOOSING_SEED = 99


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return shares of positive self-influence, histograms and correlations, by data set, replicas and seed."""
    with one_thread():
        images = image_task(config.image, test_rows=config.test_rows)  # first: missing files are told before any work
        texts = text_task(config.text, out.parent / "cache", test_rows=config.test_rows)
        tasks = {"sst2": texts, "cifar10": images}
        parts, found = out / "parts", {}
        count = len(tasks) * (1 + len(config.seeds) * len(config.replicas))
        with tqdm(total=count, desc="self-influence") as bar:
            for name, task in tasks.items():
                rate = kept(parts / f"{name}-rate.json", partial(_choose, task))
                bar.update()
                found[name] = {"rate": rate, "rows": len(task.labels), "test_rows": len(task.test_labels), "runs": {}}
                for replicas in config.replicas:
                    runs = found[name]["runs"][str(replicas)] = []
                    for seed in config.seeds:
                        measure = partial(_measured, task, rate["best"], replicas, seed, out / f"{name}-{replicas}")
                        runs.append(kept(parts / f"{name}-{replicas}-{seed}.json", measure))
                        bar.update()
                found[name]["agreement"] = {
                    str(replicas): _between_seeds(out / f"{name}-{replicas}", config.seeds)
                    for replicas in config.replicas
                }
        return {"setting": asdict(config), "tasks": found, "spent": spent(parts)}


def _choose(task: Task) -> dict[str, Any]:
    """Return the rate with the least loss on a fifth of the training rows that is not trained."""
    first = len(task.labels) - len(task.labels) // _HELD_OUT
    if len(task.rates) == 1:
        return {"best": task.rates[0], "loss": {}}
    losses = {}
    for rate in task.rates:
        recipe = task.recipe(
            part(task.inputs, slice(first)),
            task.labels[:first],
            rate=rate,
            epochs=task.epochs,
            replicas=1,
            seed=_CHOOSING_SEED,
        )
        model = recipe.fit(seed=_CHOOSING_SEED, checkpoint=next_checkpoint())
        loss, _ = row_losses(model, part(task.inputs, slice(first, None)), task.labels[first:])
        losses[f"{rate:g}"] = float(loss.mean())
    return {"best": float(min(losses, key=lambda name: losses[name])), "loss": losses}


def _measured(task: Task, rate: float, replicas: int, seed: int, folder: Path) -> dict[str, Any]:
    """Return what one network says of its rows; the scores themselves are kept in the folder."""
    recipe = task.recipe(task.inputs, task.labels, rate=rate, epochs=task.epochs, replicas=replicas, seed=seed)
    model = recipe.fit(seed=seed, checkpoint=next_checkpoint())
    rows = labeled(task.inputs, task.labels, ids=torch.arange(len(task.labels)))
    # As in the paper: scores are not centered; those of null ids are reported beside them.
    influence = turnover.Influence(model, train=rows, center=False)
    own = influence.self_influence(progress=False)
    held_out = influence.out_of_sample(progress=False).label_quality
    loss, _ = row_losses(model, task.inputs, task.labels)
    _, right = row_losses(model, task.test_inputs, task.test_labels)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"self-{seed}.npy", own.values)
    assert own.null is not None
    found = {
        "accuracy": float(right.mean()),
        "positive": float((own.values > 0).mean()),
        "null_positive": float((own.null > 0).mean()),
        "mean": float(own.values.mean()),
        "null_mean": float(own.null.mean()),
        "null_sd": float(own.null.std()),
        "beyond_null": float((own.values > np.quantile(own.null, 0.95)).mean()),
        "histogram": _histogram(own.values, own.null),
    }
    if task.consistency is not None:
        measures = {"self_influence": own.values, "held_out_probability": held_out, "full_loss": loss, "null": own.null}
        found["cscores"] = {name: float(spearman(values, task.consistency)) for name, values in measures.items()}
        found["deciles"] = _by_decile(task.consistency, own.values, own.null)
    return found


def _histogram(values: np.ndarray, null: np.ndarray) -> dict[str, Any]:
    """Return counts of rows and of null ids in the same bins; the outermost hold what is beyond."""
    most = float(np.quantile(np.abs(np.concatenate([values, null])), 0.98)) or 1.0
    edges = np.linspace(-most, most, _BINS)
    counts = [np.histogram(np.clip(some, -most, most), edges)[0].tolist() for some in (values, null)]
    return {"edges": edges.tolist(), "trained": counts[0], "null": counts[1]}


def _by_decile(consistency: np.ndarray, values: np.ndarray, null: np.ndarray) -> dict[str, list[float]]:
    """Return mean C-score and mean self-influence of ten groups of rows, from the least consistent on."""
    groups = np.array_split(np.argsort(consistency, kind="stable"), _DECILES)
    return {
        name: [float(some[group].mean()) for group in groups]
        for name, some in (("consistency", consistency), ("trained", values), ("null", null))
    }


def _between_seeds(folder: Path, seeds: tuple[int, ...]) -> float | None:
    """Return the mean rank correlation of self-influence between two seeds: how much of it is not noise."""
    scores = [np.load(folder / f"self-{seed}.npy") for seed in seeds]
    return float(np.mean([spearman(*pair) for pair in combinations(scores, 2)])) if len(scores) > 1 else None
