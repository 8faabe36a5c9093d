"""Find the rows that harm, remove them, and train again without masks; what is finished is not measured again."""

from dataclasses import asdict
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

import turnover
from turnover.applications import RetrainingCheck
from turnover.training import Checkpoint
from turnover.wrapping import only_at, replica_models, top_sites
from turnover_bench.experiments.checkpoints import next_checkpoint
from turnover_bench.experiments.datasets.electronics import split_reviews
from turnover_bench.experiments.runner import kept, spent
from turnover_bench.experiments.timing import one_thread

from .config import Config
from .data import Domains, Rows, by_length, choose, judge, labeled, load_domains, part, recipe_of

MEASURES = ("accuracy", "loss")
# The retrained models must not start from the parameters of the one that chose the rows.
_FIRST_SEED = 1_000_000
_EXAMPLES = 8
_KEPT_AT_ONCE = 4
"""Reviews: a minute or two of scoring by all masks of MiniLM."""


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return accuracy and loss on reviews for every seed and arm, and what follows from them."""
    with one_thread():
        domains, parts = load_domains(config, out.parent / "cache"), out / "parts"
        settings = {
            name: kept(parts / f"settings-{name}.json", partial(choose, config, domains, masked=name == "masked"))
            for name in ("plain", "masked")
        }
        seeds = _seeds(config, domains, settings, parts)
        proofs = {
            name: {str(share): _proof(config, domains, seeds, name, share) for share in config.shares}
            for name in config.estimates
        }
        return {
            "setting": asdict(config),
            "chosen": settings,
            "rows": len(domains.train.labels),
            "test_rows": seeds[0]["test_rows"],
            "seeds": seeds,
            "proofs": proofs,
            "shown": {name: _shown(proofs[name][str(config.shown)]) for name in config.estimates},
            "overlap": {name: _overlap(seeds, name) for name in config.estimates},
            "examples": {name: _examples(domains, seeds, name) for name in config.estimates},
            "spent": spent(parts),
        }


def _seeds(config: Config, domains: Domains, settings: dict[str, Any], parts: Path) -> list[dict[str, Any]]:
    """Return every seed's arms; each way to choose rows is a part of its own, for resuming."""
    ways = ("none", "random", *config.estimates)
    found: list[dict[str, Any]] = []
    with tqdm(total=len(config.seeds) * len(ways), desc="cleansing") as bar:
        for seed in config.seeds:
            arms: dict[str, Any] = {}
            for way in ways:
                measure = partial(_measured, config, domains, settings, seed, way, parts.with_name("masked"))
                arms[way] = kept(parts / f"seed-{seed}-{way}.json", measure)
                bar.update()
            none = arms.pop("none")
            found.append(
                {
                    "test_rows": none["test_rows"],
                    "none": none["arms"]["0"],
                    "arms": {way: one["arms"] for way, one in arms.items()},
                    "removed": {way: arms[way]["removed"] for way in config.estimates},
                }
            )
    return found


def _measured(
    config: Config, domains: Domains, settings: dict[str, Any], seed: int, way: str, masked: Path
) -> dict[str, Any]:
    """Return what models trained without the rows that were chosen in one way do on validation, test and dev rows."""
    reviews = domains.reviews
    validation, test = split_reviews(reviews.sentences, validation=config.validation, seed=seed)
    order = _chosen(config, domains, settings["masked"], validation, seed, way, masked)
    plain = recipe_of(config, domains.train, settings["plain"], masked=False)

    def arm(removed: list[int]) -> dict[str, Any]:
        rows = np.ones(len(domains.train.labels), bool)
        rows[removed] = False
        model = plain.fit(torch.from_numpy(rows), seed=_FIRST_SEED + seed, checkpoint=next_checkpoint())
        return {
            "removed": len(removed),
            "positive": float(domains.train.labels[removed].float().mean()) if removed else None,
            "test": judge(model, part(reviews.inputs, test), reviews.labels[test]),
            "validation": judge(model, part(reviews.inputs, validation), reviews.labels[validation]),
            "dev": judge(model, domains.dev.inputs, domains.dev.labels),
        }

    shares = (0,) if way == "none" else config.shares
    return {
        "test_rows": len(test),
        "arms": {str(share): arm(order[: _count(config, share)]) for share in shares},
        "removed": order[: _count(config, config.shown)],
    }


def _count(config: Config, share: float) -> int:
    return round(share * config.rows)


def _chosen(
    config: Config, domains: Domains, setting: dict[str, Any], validation: np.ndarray, seed: int, way: str, masked: Path
) -> list[int]:
    """Return places of rows in the order in which they go: those with the lowest mean influence on reviews first."""
    if way == "none":
        return []
    if way == "random":
        return np.random.default_rng(seed).permutation(len(domains.train.labels)).tolist()
    replicas = 1 if way == "tod" else config.replicas
    recipe = recipe_of(config, domains.train, setting, masked=True, replicas=replicas, seed=seed)
    # Texts of like length beside each other, so that a pass over them computes little padding.
    places = by_length(domains.train.inputs)
    rows = labeled(part(domains.train.inputs, places), domains.train.labels[places], ids=places)
    # Estimates with as many replicas ask the same model: the first one trains it.
    model: Any = recipe.fit(seed=seed, checkpoint=Checkpoint(masked / f"{replicas}-{seed}.pt"))
    asked, answers, how = validation, None, dict[str, Any]()
    if way == "tod":
        asked = of_both_labels(validation, domains.reviews.labels[validation], config.asked, seed=seed)
        how["dtype"] = torch.bfloat16 if config.bfloat16 else None
        if config.encoder is not None:
            answers = masked.with_name("answers") / str(seed)
    elif config.scored_blocks is not None and way != "recommended":  # which asks the full view, without masks
        model = [only_at(one, top_sites(one, config.scored_blocks)) for one in replica_models(model)]
    influence = turnover.Influence(model, train=rows, estimator="auto" if way == "recommended" else "tod", **how)
    values = mean_influence(influence, domains.reviews, asked, answers)
    # As `turnover.applications.cleanse` drops them, without the held-out predictions that it shows beside them.
    harmful = np.argsort(values, kind="stable")[: int((values < 0).sum())]
    return places[harmful[: _count(config, max(config.shares))]].tolist()


def of_both_labels(places: np.ndarray, labels: Tensor, count: int | None, *, seed: int) -> np.ndarray:
    """Return so many places at random, half of each label; None: all."""
    if count is None:
        return places
    order = np.random.default_rng(seed).permutation(len(places))
    given = labels.numpy()[order]
    return np.sort(np.concatenate([places[order[given == label]][: count // 2] for label in (0, 1)]))


def mean_influence(influence: turnover.Influence, reviews: Rows, asked: np.ndarray, answers: Path | None) -> np.ndarray:
    """Return mean influence on reviews, [rows]; with a folder, answers of some reviews are kept there for resuming."""

    def mean(places: np.ndarray) -> np.ndarray:
        queries = labeled(part(reviews.inputs, places), reviews.labels[places])
        return influence.mean(queries, at_label="given", progress=False).values

    if answers is None:
        return mean(asked)
    pieces = [asked[start : start + _KEPT_AT_ONCE] for start in range(0, len(asked), _KEPT_AT_ONCE)]
    means = [kept(answers / f"{number}.json", partial(mean, piece)) for number, piece in enumerate(pieces)]
    return np.average(means, axis=0, weights=[len(piece) for piece in pieces])


def _proof(config: Config, domains: Domains, seeds: list[dict[str, Any]], name: str, share: float) -> dict[str, Any]:
    """Return whether an estimate's rows do better than none and random ones, and how many seeds would show it."""
    arms = [
        [seed["none"] for seed in seeds],
        [seed["arms"]["random"][str(share)] for seed in seeds],
        [seed["arms"][name][str(share)] for seed in seeds],
    ]
    accuracy, loss = (np.array([[one["test"][what] for one in runs] for runs in arms]) for what in MEASURES)
    sizes = arms[2][0]["removed"], len(domains.train.labels), seeds[0]["test_rows"]
    return RetrainingCheck(accuracy, loss, config.seeds, *sizes).as_dict()


def _shown(proof: dict[str, Any]) -> dict[str, float]:
    """Return the means and gains of one proof under names without dots, for the expected values."""
    means = {f"{arm}_{what}": proof["arms"][arm][what]["mean"] for arm in proof["arms"] for what in MEASURES}
    return means | {f"{one['measure']}_over_{one['against']}": one["gain"] for one in proof["differences"]}


def _overlap(seeds: list[dict[str, Any]], name: str) -> float | None:
    """Return which share of the removed rows two seeds have in common, on average."""
    removed = [set(seed["removed"][name]) for seed in seeds]
    shares = [len(one & other) / max(1, len(one)) for one, other in combinations(removed, 2)]
    return float(np.mean(shares)) if shares else None


def _examples(domains: Domains, seeds: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the rows that most seeds remove."""
    places, counts = np.unique([place for seed in seeds for place in seed["removed"][name]], return_counts=True)
    first = np.lexsort((places, -counts))[:_EXAMPLES]
    return [
        {
            "text": domains.train.sentences.texts[places[one]],
            "label": int(domains.train.labels[places[one]]),
            "seeds": int(counts[one]),
        }
        for one in first
    ]
