"""Turn-over dropout on one target, and a peer's influence functions: what each takes."""

import copy
import importlib.util
import logging
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import turnover
from turnover.wrapping import only_at, top_sites
from turnover_bench.baselines import kronfluence_task
from turnover_bench.experiments.timing import seconds

from .config import Config
from .task import Task, Trimmed, padded_rows


def networks_of(model: nn.Module, config: Config) -> dict[str, nn.Module]:
    """Return, by name, the model and what shares its weights with masks in its top blocks alone."""
    return {"all": model, **{str(top): only_at(model, top_sites(model, top)) for top in config.top}}


def loop_seconds(task: Task, config: Config) -> dict[str, float]:
    """Return what the authors' loop takes: the repeated target twice through the model, the masks of other ids each."""
    size = config.loop_batch
    query = {name: value.repeat(size, 1) for name, value in task.target.batch([0]).items()}
    labels = task.target.labels.repeat(size)

    @torch.no_grad()
    def run() -> None:
        for number in range(config.loop_batches):
            ids, losses = torch.arange(number * size, (number + 1) * size), {}
            for view in ("keep", "flip"):
                with turnover.instances(ids, view=view):
                    losses[view] = functional.cross_entropy(task.model(**query).logits, labels, reduction="none")
            _ = losses["flip"] - losses["keep"]

    return {"instances": size * config.loop_batches, "seconds": seconds(run)}


def engine_seconds(model: nn.Module, task: Task, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return the engine's seconds for numbers of instances, its path, and the scores of the largest number.

    As a user gets them: with standard errors, for which null ids are scored besides.
    """
    query: dict[str, Tensor] = {**task.target.batch([0]), "labels": task.target.labels}
    points: list[tuple[int, float]] = []
    found: list[turnover.Scores] = []
    for size in sizes:
        # A new engine each: what it learns from its first question counts.
        ask = turnover.Influence(model)
        spent = seconds(lambda ask=ask, size=size: found.append(ask.pairwise(query, ids=range(size), progress=False)))
        points.append((size, spent))
    null = found[-1].null
    return {
        "points": points,
        "nulls": 0 if null is None else len(null),
        "path": found[-1].path,
        "scores": np.asarray(found[-1].values)[:, 0],
    }


_BATCH = 8


def peer_missing() -> str | None:
    """Return why the peer cannot be measured, or None."""
    if importlib.util.find_spec("kronfluence") is None:
        return "kronfluence is not installed: pip install kronfluence"
    return None


def peer_seconds(task: Task, rows: Sequence[int], modules: Sequence[str], scratch: Path) -> float:
    """Return the seconds in which factors are fitted on rows and the same rows scored on the target.

    Of the modules that were trained the Linear layers count; its files are in `scratch` meanwhile.
    """
    from kronfluence.analyzer import Analyzer, prepare_model

    model = copy.deepcopy(Trimmed(turnover.unwrap(task.model))).eval()
    layers = {
        name: part
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and any(name.startswith(f"model.{module}") for module in modules)
    }
    for name, layer in layers.items():
        if list(layer.children()):  # the place of a mask within, for which it passes the layer over
            model.set_submodule(name, _without_children(layer))
    # Sorted by length, so that little padding is computed.
    some = task.train.of(sorted(rows, key=lambda row: len(task.train.tokens[row])))
    data, target = (TensorDataset(*padded_rows(part), part.labels) for part in (some, task.target))
    shutil.rmtree(scratch, ignore_errors=True)
    own = kronfluence_task(list(layers))
    options: dict[str, Any] = {"output_dir": str(scratch), "disable_tqdm": True, "log_level": logging.ERROR}

    def answer() -> None:
        analyzer: Any = Analyzer("runtime", model=prepare_model(model, own), task=own, cpu=True, **options)
        analyzer.fit_all_factors("factors", dataset=data, per_device_batch_size=_BATCH)
        analyzer.compute_pairwise_scores(
            "scores",
            factors_name="factors",
            query_dataset=target,
            train_dataset=data,
            per_device_query_batch_size=1,
            per_device_train_batch_size=_BATCH,
        )
        if not bool(analyzer.load_pairwise_scores("scores")["all_modules"].isfinite().all()):
            raise ValueError("kronfluence gave scores that are not finite.")

    # Its own warnings are about how torch saves and loads; it draws labels for its factors.
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent = seconds(answer)
    shutil.rmtree(scratch, ignore_errors=True)
    return spent


def _without_children(layer: nn.Linear) -> nn.Linear:
    plain = nn.Linear(layer.in_features, layer.out_features, bias=layer.bias is not None)
    plain.load_state_dict(layer.state_dict())
    return plain
