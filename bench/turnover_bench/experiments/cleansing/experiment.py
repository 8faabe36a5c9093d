"""Find the rows that harm, remove them, and train again without masks; what is finished is not measured again."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import turnover
from turnover.applications import RetrainingCheck
from turnover.training import Checkpoint, TrainingRecipe
from turnover.wrapping import only_at, replica_models, top_sites
from turnover_bench.experiments.checkpoints import next_checkpoint
from turnover_bench.experiments.datasets.numbers import standardized
from turnover_bench.experiments.datasets.texts import (
    Sentences,
    load_electronics,
    load_sst2,
    minilm_folder,
    split_reviews,
    text_features,
)
from turnover_bench.experiments.encoders import encoder_inputs, encoder_recipe
from turnover_bench.experiments.networks import masked_mlp, mlp
from turnover_bench.experiments.runner import Needs, kept, spent
from turnover_bench.experiments.timing import one_thread

Estimate = Literal["tod", "replicas", "recommended"]


@dataclass(frozen=True)
class Config:
    """Everything that is measured.

    Attributes:
        rows: of SST-2 that are trained.
        reviews: of electronics, as many of both labels; None: all 2,000.
        validation: reviews on which mean influence is taken; the others test.
        dev_rows: of SST-2's dev rows, which choose rate and epochs; None: all 872.
        encoder: None: features of a frozen MiniLM and a hidden layer; "minilm", a folder or a name on the hub: that
            encoder, with masked adapters for the estimate and fine-tuned as a whole for retraining.
        longest: tokens of a text that are read.
        hidden: units of the hidden layer.
        rates: of AdamW, for retraining; one is chosen on dev rows of SST-2.
        masked_rates: the same for trainings with masks.
        epochs: for retraining; chosen with the rate.
        masked_epochs: the same for trainings with masks.
        batch_size: of every training.
        estimates: "tod": the original estimator, one model; "replicas": several in one training; "recommended":
            `turnover.Influence(model, train=rows)` without options, on the same replicas.
        asked: of the validation reviews, those on which "tod" takes mean influence, as many of both labels; None: all.
        bfloat16: "tod" scores under autocast, for a processor that has such products.
        replicas: how many.
        scored_blocks: of an encoder with adapters, the top blocks whose masks score replicas, beside those before the
            output layer; None: all. What lies below runs once per review, not once per review and row.
        shares: of the rows that are removed.
        shown: the share of the paper.
        seeds: each has its own split of the reviews, masks, parameters and batches.
    """

    rows: int = 5_000
    reviews: int | None = None
    validation: int = 200
    dev_rows: int | None = None
    encoder: str | None = None
    longest: int = 128
    hidden: int = 256
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    masked_rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    epochs: tuple[int, ...] = (3, 6)
    masked_epochs: tuple[int, ...] = (3, 6)
    batch_size: int = 100
    estimates: tuple[Estimate, ...] = ("tod", "replicas", "recommended")
    asked: int | None = None
    bfloat16: bool = False
    replicas: int = 8
    scored_blocks: int | None = None
    shares: tuple[float, ...] = (0.005, 0.01, 0.02, 0.05, 0.1)
    shown: float = 0.01
    seeds: tuple[int, ...] = tuple(range(8))


SIZES = {
    "toy": Config(
        rows=100,
        reviews=60,
        validation=16,
        dev_rows=16,
        longest=16,
        hidden=16,
        rates=(1e-3, 3e-3),
        masked_rates=(3e-3,),
        epochs=(2,),
        masked_epochs=(2,),
        batch_size=20,
        replicas=2,
        shares=(0.02, 0.1),
        shown=0.1,
        seeds=(0, 1),
    ),
    "small": Config(),
    # Adapters, as in the paper. Rows are few: each replica is a pass of the whole encoder. By all masks, a review takes
    # 20 seconds; eight replicas would take eight times as long.
    "medium": Config(
        rows=2_000,
        encoder="minilm",
        longest=64,
        asked=24,
        bfloat16=True,
        scored_blocks=0,
        rates=(1e-4,),
        masked_rates=(2e-3,),
        epochs=(3,),
        masked_epochs=(3,),
        batch_size=32,
        shares=(0.01,),
        seeds=tuple(range(5)),
    ),
    # The paper's networks and trainings.
    "full": Config(
        rows=67_349,
        encoder="bert-base-cased",
        rates=(5e-5, 2e-5),
        masked_rates=(5e-5,),
        epochs=(3, 6, 10),
        masked_epochs=(10,),
        batch_size=32,
        estimates=("tod",),
        shares=(0.01,),
        seeds=tuple(range(4)),
    ),
}

NEEDS = {
    "medium": Needs(disk=1, memory=8, hours=3),
    "full": Needs(disk=10, memory=24, hours=3000),
}


Inputs = Tensor | Mapping[str, Tensor]


@dataclass(frozen=True)
class Rows:
    """Sentences, and their inputs and labels as a network takes them."""

    sentences: Sentences
    inputs: Inputs
    labels: Tensor


@dataclass(frozen=True)
class Domains:
    """Both domains: rows of SST-2 that are trained, its dev rows, and reviews of electronics."""

    train: Rows
    dev: Rows
    reviews: Rows


def encoder_of(config: Config) -> str:
    """Return the encoder as transformers opens it."""
    assert config.encoder is not None
    return str(minilm_folder()) if config.encoder == "minilm" else config.encoder


def load_domains(config: Config, cache: Path) -> Domains:
    """Return both domains: standardized features, or tokens for an encoder."""
    reviews = load_electronics(rows=config.reviews)
    parts = load_sst2("train", rows=config.rows), load_sst2("dev", rows=config.dev_rows), reviews
    if config.encoder is not None:
        inputs = [encoder_inputs(encoder_of(config), one.texts, longest=config.longest) for one in parts]
    else:
        inputs = standardized(*(text_features(one.texts, cache=cache, longest=config.longest) for one in parts))
    return Domains(*(Rows(one, x, torch.from_numpy(one.labels)) for one, x in zip(parts, inputs, strict=True)))


def part(inputs: Inputs, places: Any) -> Inputs:
    return inputs[places] if isinstance(inputs, Tensor) else {name: value[places] for name, value in inputs.items()}


def by_length(inputs: Inputs) -> Tensor:
    """Return the places of all rows, texts of few tokens first; vectors stay as they are."""
    if isinstance(inputs, Tensor):
        return torch.arange(len(inputs))
    return inputs["attention_mask"].sum(1).argsort(stable=True)


def labeled(inputs: Inputs, labels: Tensor, *, ids: Tensor | None = None) -> Any:
    """Return rows as `turnover.Influence` takes them, with instance ids if there are any."""
    if isinstance(inputs, Tensor):
        return (inputs, labels) if ids is None else (inputs, labels, ids)
    return {**inputs, "labels": labels, **({} if ids is None else {"instance_id": ids})}


_AT_ONCE = 500
# Of the trainings that choose; no other training has it.
_CHOOSING_SEED = 99


def recipe_of(
    config: Config, rows: Rows, setting: Mapping[str, Any], *, masked: bool, replicas: int = 1, seed: int = 0
) -> TrainingRecipe:
    """Return a training on rows with a rate and epochs."""
    how: dict[str, Any] = {"epochs": setting["epochs"], "batch_size": config.batch_size}
    if config.encoder is not None:
        assert not isinstance(rows.inputs, Tensor)
        how |= {"rate": setting["rate"], "masked": masked, "replicas": replicas, "seed": seed}
        return encoder_recipe(encoder_of(config), rows.inputs, rows.labels, **how)
    assert isinstance(rows.inputs, Tensor)
    sizes = (rows.inputs.shape[1], (config.hidden,), 2)
    return TrainingRecipe(
        partial(masked_mlp, *sizes, seed=seed, replicas=replicas) if masked else partial(mlp, *sizes),
        rows.inputs,
        rows.labels,
        optimizer=partial(torch.optim.AdamW, lr=setting["rate"], weight_decay=0.01),
        **how,
    )


def choose(config: Config, domains: Domains, *, masked: bool) -> dict[str, Any]:
    """Return rate and epochs with the least loss on dev rows of SST-2; no review is looked at."""
    rates, epochs = (config.masked_rates, config.masked_epochs) if masked else (config.rates, config.epochs)
    tried: list[dict[str, Any]] = [{"rate": rate, "epochs": count} for rate, count in product(rates, epochs)]
    for setting in tqdm(tried, desc="rate and epochs", disable=len(tried) == 1):
        if len(tried) > 1:
            recipe = recipe_of(config, domains.train, setting, masked=masked, seed=_CHOOSING_SEED)
            model = recipe.fit(seed=_CHOOSING_SEED, checkpoint=next_checkpoint())
            setting |= judge(model, domains.dev.inputs, domains.dev.labels)
    best = min(tried, key=lambda setting: setting.get("loss", 0.0))
    return {"rate": best["rate"], "epochs": best["epochs"], "tried": tried}


@torch.no_grad()
def row_losses(model: nn.Module, inputs: Inputs, labels: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the full network's loss on each row, and whether its prediction is correct."""
    losses, correct = [], []
    for places in torch.arange(len(labels)).split(_AT_ONCE):
        given = part(inputs, places)
        outputs = model(given) if isinstance(given, Tensor) else model(**given).logits
        losses.append(functional.cross_entropy(outputs, labels[places], reduction="none"))
        correct.append(outputs.argmax(1) == labels[places])
    return torch.cat(losses).numpy(), torch.cat(correct).numpy()


def judge(model: nn.Module, inputs: Inputs, labels: Tensor) -> dict[str, float]:
    """Return accuracy and mean loss of the full network."""
    losses, correct = row_losses(model, inputs, labels)
    return {"accuracy": float(correct.mean()), "loss": float(losses.mean(dtype=np.float64))}


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
    means = {f"{arm}_{what}": proof["arms"][arm][what]["mean"] for arm in proof["arms"] for what in MEASURES}
    return means | {f"{one['measure']}_over_{one['against']}": one["gain"] for one in proof["differences"]}


def _overlap(seeds: list[dict[str, Any]], name: str) -> float | None:
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
