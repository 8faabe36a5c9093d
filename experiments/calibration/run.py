"""Training the runs, and counting what their intervals and p-values promise."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

import turnover
from experiments.digits_network import digit_queries, digits_recipe
from turnover.influence import NULL_IDS, null_ids
from turnover.scores import Scores, student_limit
from turnover.training import TrainingRecipe

from .config import Config

LEVEL = 0.95


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return how often intervals hold the mean of the other runs, and what is marked where there is nothing."""
    queries = digit_queries(config.queries)
    parts = [_scores(config, number, queries, out) for number in tqdm(range(config.runs), desc="runs")]
    others = [_others(config, number, queries, out) for number in tqdm(range(config.other_runs), desc="other runs")]
    return {
        **_judged(parts, config.replicas),
        "trunk": _judged([plain for plain, _ in others], config.replicas),
        "trunk_ridge": _judged([smooth for _, smooth in others], config.replicas),
        "null": _null(config, queries, out),
    }


def _judged(parts: list[Scores], replicas: int) -> dict[str, Any]:
    """Return what the intervals of several runs are worth."""
    values = np.stack([part.values for part in parts])
    errors = np.stack([part.stderr for part in parts])
    covered, without = _coverage(values, errors, replicas)
    return {
        "runs": len(parts),
        "covered": float(covered.mean()),
        "covered_by_query": covered.mean((0, 1)).tolist(),
        "covered_without_the_reference_error": float(without.mean()),
        "ratio_of_errors": float(np.median(errors.mean(0) / values.std(0, ddof=1))),
    }


def _scores(config: Config, number: int, queries: tuple[torch.Tensor, torch.Tensor], out: Path) -> Scores:
    """Return the scores of one run; kept, so that a run that was cut off goes on."""
    folder = out / f"run-{number}"
    if not folder.exists():
        recipe, model = _trained(config, number)
        turnover.Influence(model).pairwise(queries, ids=range(len(recipe))).save(folder)
    return Scores.open(folder)


def _others(
    config: Config, number: int, queries: tuple[torch.Tensor, torch.Tensor], out: Path
) -> tuple[Scores, Scores]:
    """Return the scores of one run over a trunk, as they are and denoised."""
    folders = out / f"trunk-{number}", out / f"trunk-ridge-{number}"
    if not folders[1].exists():
        recipe, model = _trained(config, number, at=("3",))
        data = turnover.with_instance_ids(torch.utils.data.TensorDataset(recipe.inputs, recipe.targets))
        for folder, denoise in zip(folders, (None, "ridge"), strict=True):
            if not folder.exists():
                turnover.Influence(model, train=data, denoise=denoise).pairwise(queries).save(folder)
    return Scores.open(folders[0]), Scores.open(folders[1])


def _trained(
    config: Config, number: int, replicas: int | None = None, at: tuple[str, ...] = ("1", "3")
) -> tuple[TrainingRecipe, nn.Module]:
    recipe, _ = digits_recipe(
        hidden=config.hidden, seed=number, replicas=replicas or config.replicas, epochs=config.epochs, at=at
    )
    return recipe, recipe.fit(seed=number)


def _coverage(values: np.ndarray, errors: np.ndarray, replicas: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for each run and pair whether its interval holds the mean of the others, with and without their error."""
    runs = len(values)
    others = (values.sum(0) - values) / (runs - 1)
    squares = (np.square(values).sum(0) - np.square(values)) / (runs - 1) - np.square(others)
    reference = squares / (runs - 2)  # of a mean of runs - 1
    limit = student_limit(1 - LEVEL, replicas - 1)
    apart = np.abs(values - others)
    return apart <= limit * np.sqrt(np.square(errors) + reference), apart <= limit * errors


def _null(config: Config, queries: tuple[torch.Tensor, torch.Tensor], out: Path) -> dict[str, Any]:
    """Return what is marked among ids that were never trained, for one replica and for all."""
    found: dict[str, Any] = {}
    for replicas in (1, config.replicas):
        folder = out / f"null-{replicas}"
        if not folder.exists():
            asked = turnover.Influence(_trained(config, 1000 + replicas, replicas)[1])
            everyone = null_ids(NULL_IDS + config.null_ids)[NULL_IDS:]
            asked.pairwise(queries, ids=everyone).save(folder)
        scores = Scores.open(folder)
        p = scores.p_values()
        rng = np.random.default_rng(0)
        marked = []
        for number in range(config.null_sets):
            rows = rng.choice(len(scores), config.set_size, replace=False)
            query = number % config.queries
            part = Scores(scores.values[rows, query], ids=scores.ids[rows], null=scores.null[:, query])
            marked.append(bool(part.significant().any()))
        found[f"replicas_{replicas}"] = {
            "pairs": int(p.size),
            "p_below_05": float((p < 0.05).mean()),
            "p_below_05_by_query": (p < 0.05).mean(0).tolist(),
            "sets": config.null_sets,
            "sets_with_anything_marked": float(np.mean(marked)),
        }
    return found
