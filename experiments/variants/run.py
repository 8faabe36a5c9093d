"""Train every variant, ask it, and judge it by retraining."""

import warnings
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

import turnover
from experiments.datasets.changed_labels import change_labels
from experiments.datasets.numbers import digit_rows
from experiments.runner import kept
from experiments.timing import one_thread
from turnover.errors import TurnOverWarning
from turnover.evaluation import Bootstrap, SubsetOutcomes, lds, mislabel_detection, retraining_ceiling, subset_outcomes
from turnover.training import TrainingRecipe

from .config import Config
from .mask_kinds import mask_kinds
from .networks import VARIANTS, Variant, network, plain

_FIRST_SEED = 10  # none of the ground truth's


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return accuracy, wrong labels found and LDS of every variant and seed, and the costs of the kinds of masks."""
    with one_thread():
        recipe, wrong, held = _task(config)
        queries = (held[0][: config.queries], held[1][: config.queries])
        truths = {
            epochs: subset_outcomes(
                replace(recipe, epochs=epochs),
                queries,
                subsets=config.halves,
                seeds=config.retrainings,
                cache=out / f"truth-{epochs}",
                progress=True,
            )
            for epochs in (config.epochs, config.short)
        }
        cells = [(name, seed) for seed in config.seeds for name in VARIANTS]
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in VARIANTS}
        for name, seed in tqdm(cells, desc="variants"):
            variant = VARIANTS[name]
            truth = truths[config.short if variant.short else config.epochs]
            measure = partial(_measured, variant, config, recipe, seed, wrong=wrong, held=held, truth=truth)
            found[name].append(kept(out / "cells" / f"{name}-{seed}.json", measure))
        return {
            "setting": asdict(config),
            "ceiling": {
                str(epochs): retraining_ceiling(truth.outcomes).value if config.retrainings > 1 else None
                for epochs, truth in truths.items()
            },
            "variants": found,
            "masks": kept(out / "masks.json", partial(mask_kinds, config)),
        }


def _task(config: Config) -> tuple[TrainingRecipe, np.ndarray, tuple[Tensor, Tensor]]:
    """Return the training without masks, which labels are wrong, and held-out rows."""
    x, labels, held, held_labels = digit_rows(config.rows)
    changed = change_labels(labels, share=0.1, classes=10)
    recipe = TrainingRecipe(
        partial(plain, config.hidden),
        x,
        torch.from_numpy(changed.given),
        optimizer=partial(torch.optim.SGD, lr=0.05, momentum=0.9),
        epochs=config.epochs,
        batch_size=32,
    )
    return recipe, changed.changed, (held, torch.from_numpy(held_labels))


def _measured(
    variant: Variant,
    config: Config,
    recipe: TrainingRecipe,
    seed: int,
    *,
    wrong: np.ndarray,
    held: tuple[Tensor, Tensor],
    truth: SubsetOutcomes,
) -> dict[str, Any]:
    recipe = replace(
        recipe,
        build=partial(network, config.hidden, variant, seed),
        epochs=config.short if variant.short else config.epochs,
    )
    model = recipe.fit(seed=_FIRST_SEED + seed).eval()
    accuracy = _accuracy(model, held)
    if variant.masks is None:
        return {"accuracy": accuracy}
    assert isinstance(recipe.inputs, Tensor)
    rows = turnover.with_instance_ids(torch.utils.data.TensorDataset(recipe.inputs, recipe.targets))
    influence = turnover.Influence(model, train=rows, against=variant.against)
    queries = (held[0][: config.queries], held[1][: config.queries])
    pairs = np.asarray(influence.pairwise(queries, progress=False).values)
    with warnings.catch_warnings():
        # That self-influence cannot be told from noise is a finding here, not a mistake in the ids.
        warnings.simplefilter("ignore", TurnOverWarning)
        own = np.asarray(influence.self_influence(progress=False).values)
    by_self, by_mean = (mislabel_detection(one, wrong, share=0.1) for one in (own, -pairs.mean(1)))
    return {
        "accuracy": accuracy,
        "self_auc": by_self.auc,
        "self_found": by_self.found,
        "mean_auc": by_mean.auc,
        "mean_found": by_mean.found,
        "lds": lds(pairs, truth.subsets, truth.outcomes, bootstrap=Bootstrap(draws=2)).value,
    }


def _accuracy(model: nn.Module, held: tuple[Tensor, Tensor]) -> float:
    with torch.no_grad():
        return float((model(held[0]).argmax(1) == held[1]).float().mean())
