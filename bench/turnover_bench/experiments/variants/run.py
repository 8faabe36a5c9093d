"""Train every variant, score with it, and judge it by retraining; time and memory of the kinds of masks."""

import math
import warnings
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

import turnover
from turnover.errors import TurnOverWarning
from turnover.evaluation import Bootstrap, SubsetOutcomes, lds, mislabel_detection, retraining_ceiling, subset_outcomes
from turnover.layers import Mode
from turnover.masks import Stream, source_named
from turnover.training import TrainingRecipe
from turnover_bench.checks import PeakResident
from turnover_bench.experiments.datasets.changed_labels import change_labels
from turnover_bench.experiments.datasets.numbers import digit_rows
from turnover_bench.experiments.networks import mlp
from turnover_bench.experiments.runner import kept
from turnover_bench.experiments.timing import one_thread, seconds

from .config import Config


@dataclass(frozen=True)
class Variant:
    """One way to mask, train or ask.

    Attributes:
        title: for the page.
        masks: the kind of masks; None: none at all.
        mode: what masks act on.
        against: what the flipped subnetwork is compared with.
        short: trained for fewer epochs.
    """

    title: str
    masks: str | None = "counter"
    mode: Mode = "forward"
    against: Literal["keep", "full"] = "keep"
    short: bool = False


VARIANTS = {
    "base": Variant("as in the text: flipped against kept subnetwork"),
    "full_network": Variant("flipped subnetwork against the full network", against="full"),
    "backward": Variant("masks in the backward pass alone", mode="backward"),
    "mixout": Variant("mixout: masks on the difference from the start", mode="mixout"),
    "codebook": Variant("hash-composed masks", masks="codebook"),
    "volatile": Variant("volatile masks", masks="volatile"),
    "short": Variant("fewer epochs", short=True),
    "unmasked": Variant("no masks", masks=None),
    "unmasked_short": Variant("no masks, fewer epochs", masks=None, short=True),
}


def network(hidden: int, variant: Variant, seed: int) -> nn.Module:
    """Return the network as a variant masks it."""
    if variant.masks is None:
        return mlp(64, (hidden, hidden), 10)
    at = ["1", "3"] if variant.mode == "forward" else None  # the other modes mask whatever learns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TurnOverWarning)  # what leaks in a mode is part of what is measured
        return turnover.wrap(mlp(64, (hidden, hidden), 10), at=at, mode=variant.mode, masks=variant.masks, seed=seed)


KINDS = ("counter", "volatile", "codebook")
_BATCH = 32


def mask_kinds(config: Config) -> dict[str, Any]:
    """Return seconds for the masks of all ids in batches, in order and shuffled, and growth of memory, by kind."""
    found: dict[str, Any] = {kind: {"in_order": math.inf, "shuffled": math.inf} for kind in KINDS}
    orders = {"in_order": torch.arange(config.ids), "shuffled": torch.randperm(config.ids)}
    # First of all, for what was made once may be kept in memory, a codebook for example.
    for kind in KINDS:
        with PeakResident() as peak:
            _seconds(kind, orders["shuffled"], config.hidden)
        found[kind]["peak_bytes"] = peak.bytes
    # They take turns, so that what else the machine does falls on all of them.
    for _ in range(config.repeats):
        for kind in KINDS:
            for name, ids in orders.items():
                found[kind][name] = min(found[kind][name], _seconds(kind, ids, config.hidden))
    # Both layers of every row, one bit per unit: what masks would take if they were drawn once and kept.
    return {"kinds": found, "kept_bytes": 2 * config.hidden * config.ids // 8, "ids": config.ids, "batch": _BATCH}


def _seconds(kind: str, ids: torch.Tensor, width: int) -> float:
    source = source_named(kind, seed=0)
    streams = [Stream("first", width), Stream("second", width)]

    def draw() -> None:
        for batch in ids.split(_BATCH):
            source.words(batch, streams)  # used and thrown away, as in training

    return seconds(draw)


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
        partial(mlp, 64, (config.hidden, config.hidden), 10),
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
    influence = turnover.Influence(model, train=rows, against=variant.against, estimator="tod")
    queries = (held[0][: config.queries], held[1][: config.queries])
    pairs = np.asarray(influence.pairwise(queries, progress=False).values)
    with warnings.catch_warnings():
        # That self-influence is not significant is a finding here, not a mistake in the ids.
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
