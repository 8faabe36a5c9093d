"""Turn-over dropout on one target: the authors' loop, and the engine with all masks or those of the top blocks."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.wrapping import only_at, top_sites

from .config import Config
from .seconds import seconds
from .task import Task


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

    As a user gets them: with standard errors, for which never-trained ids are scored besides.
    """
    query: dict[str, Tensor] = {**task.target.batch([0]), "labels": task.target.labels}
    points: list[tuple[int, float]] = []
    found: list[turnover.Scores] = []
    for size in sizes:
        # A new engine each: what it learns from its first question counts.
        ask = turnover.Influence(model)
        spent = seconds(lambda ask=ask, size=size: found.append(ask.pairwise(query, ids=range(size), progress=False)))
        points.append((size, spent))
    return {"points": points, "path": found[-1].path, "scores": np.asarray(found[-1].values)[:, 0]}
