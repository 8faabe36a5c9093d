"""Train, compute self-influence of every row, and compare with null ids and with C-scores."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

import turnover
from turnover.evaluation import spearman
from turnover.training import TrainingRecipe
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.checkpoints import next_checkpoint
from turnover_bench.experiments.cleansing.experiment import Inputs, labeled, part, row_losses
from turnover_bench.experiments.datasets.images import load_cscores
from turnover_bench.experiments.datasets.numbers import cifar10_rows, sst2_rows
from turnover_bench.experiments.datasets.texts import load_sst2
from turnover_bench.experiments.encoders import encoder_inputs, encoder_recipe
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import (
    Finding,
    Verdict,
    agreements,
    graded,
    paragraphs,
    percents,
    replicas_words,
    spread,
)
from turnover_bench.experiments.networks import VGG19, masked_cnn, masked_mlp, vgg_sites
from turnover_bench.experiments.runner import ExperimentError, Needs, kept, spent
from turnover_bench.experiments.timing import one_thread


@dataclass(frozen=True)
class TextConfig:
    """SST-2.

    Attributes:
        rows: that are trained.
        encoder: None: features of a frozen MiniLM under a masked hidden layer; a folder or a name on the hub: masked
            adapters in that encoder.
        hidden: units of the masked hidden layer.
        rates: of AdamW, of which one is chosen on held-out training rows.
        epochs: of every training.
        batch_size: of every training.
    """

    rows: int = 5_000
    encoder: str | None = None
    hidden: int = 512
    rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    epochs: int = 6
    batch_size: int = 100


@dataclass(frozen=True)
class ImageConfig:
    """CIFAR-10.

    Attributes:
        rows: that are trained.
        vgg: share of VGG19's channels, masks after the 11th layer; 0: two convolutions and a masked hidden layer, on
            16 × 16 pixels.
        hidden: of the small network: channels of both convolutions, units of the hidden layer.
        rates: of SGD with momentum, of which one is chosen on held-out training rows.
        epochs: of every training.
        milestones: epochs after which the rate falls tenfold.
        weight_decay: of SGD.
        batch_size: of every training.
        bfloat16: train in this precision where autocast takes it: faster on the processors that know it.
    """

    rows: int = 10_000
    vgg: float = 0.0
    hidden: tuple[int, int, int] = (24, 32, 512)
    rates: tuple[float, ...] = (0.02, 0.05, 0.1)
    epochs: int = 8
    milestones: tuple[int, ...] = ()
    weight_decay: float = 0.0
    batch_size: int = 100
    bfloat16: bool = False


@dataclass(frozen=True)
class Config:
    """Everything that is measured.

    Attributes:
        text: SST-2.
        image: CIFAR-10.
        replicas: numbers of masked parts in one training; 1 is the paper's.
        test_rows: at most so many, for accuracy; None: all.
        seeds: of initial parameters, masks and order.
    """

    text: TextConfig = field(default_factory=TextConfig)
    image: ImageConfig = field(default_factory=ImageConfig)
    replicas: tuple[int, ...] = (1, 8)
    test_rows: int | None = None
    seeds: tuple[int, ...] = (0, 1, 2)


SIZES = {
    "toy": Config(
        text=TextConfig(rows=96, hidden=32, rates=(1e-3, 1e-2), epochs=4, batch_size=16),
        image=ImageConfig(rows=96, hidden=(4, 8, 32), rates=(0.05,), epochs=4, batch_size=16),
        replicas=(1, 2),
        test_rows=24,
        seeds=(0, 1),
    ),
    "small": Config(),
    "medium": Config(
        text=TextConfig(rows=67_349),
        # All images, as in the paper: on few of them a masked VGG19 reads labels from masks (see side_effects).
        image=ImageConfig(
            rows=50_000,
            vgg=0.25,
            rates=(0.05,),
            epochs=8,
            milestones=(5, 7),
            weight_decay=5e-4,
            batch_size=128,
            bfloat16=True,
        ),
        seeds=(0, 1),
    ),
    # The paper's networks and trainings.
    "full": Config(
        text=TextConfig(rows=67_349, encoder="bert-base-cased", rates=(5e-5,), epochs=10, batch_size=32),
        image=ImageConfig(
            rows=50_000, vgg=1.0, rates=(0.1,), epochs=300, milestones=(150, 225), weight_decay=5e-4, batch_size=128
        ),
        replicas=(1,),
    ),
}

NEEDS = {
    "medium": Needs(disk=0.5, memory=6, hours=2.0),
    "full": Needs(disk=5, memory=24, hours=2000),
}


def _masked_vgg(width: float, *, seed: int, replicas: int) -> nn.Module:
    network = VGG19(width=width, dropout=0.5 if width >= 1 else 0.1)
    return turnover.wrap(network, at=vgg_sites(classifier_input=width >= 1), seed=seed, replicas=replicas)


@dataclass(frozen=True)
class Task:
    """Rows and how a masked network learns them.

    Attributes:
        inputs: of the training rows.
        labels: of the training rows.
        test_inputs: of rows that are not trained.
        test_labels: of these.
        rates: from which one is chosen.
        epochs: of a training.
        recipe: (inputs, labels, rate, epochs, replicas, seed of masks) -> training.
        consistency: C-scores of the training rows; None: there are none.
    """

    inputs: Inputs
    labels: Tensor
    test_inputs: Inputs
    test_labels: Tensor
    rates: tuple[float, ...]
    epochs: int
    recipe: Callable[..., TrainingRecipe]
    consistency: np.ndarray | None = None


def text_task(config: TextConfig, cache: Path, *, test_rows: int | None = None) -> Task:
    """Return sentences of SST-2, tested with its dev rows."""
    if config.encoder is not None:
        train, dev = load_sst2("train", rows=config.rows), load_sst2("dev", rows=test_rows)
        x, held = (encoder_inputs(config.encoder, split.texts) for split in (train, dev))
        labels, held_labels = train.labels, dev.labels
        make = partial(encoder_recipe, config.encoder, batch_size=config.batch_size, masked=True)
    else:
        x, labels, held, held_labels = sst2_rows(config.rows, cache, held_out=test_rows)
        build = partial(masked_mlp, x.shape[1], (config.hidden,), 2)
        make = partial(_recipe, build, optimizer=partial(torch.optim.AdamW, weight_decay=0.01), size=config.batch_size)
    rows = x, torch.from_numpy(labels), held, torch.from_numpy(held_labels)
    return Task(*rows, config.rates, config.epochs, make)


def image_task(config: ImageConfig, *, test_rows: int | None = None) -> Task:
    """Return images of CIFAR-10 with their C-scores."""
    x, labels, held, held_labels = cifar10_rows(config.rows, held_out=test_rows, halved=not config.vgg)
    scores, theirs = load_cscores(rows=len(labels))
    if not np.array_equal(theirs, labels):
        raise ExperimentError(
            "the labels in cifar10_cscores.npz are not those of the images. Give C-scores in the original order of "
            "CIFAR-10's training images."
        )
    build = partial(_masked_vgg, config.vgg) if config.vgg else partial(masked_cnn, 3, config.hidden, 10)
    optimizer = partial(torch.optim.SGD, momentum=0.9, weight_decay=config.weight_decay)
    how = {"size": config.batch_size, "milestones": config.milestones, "bfloat16": config.bfloat16}
    make = partial(_recipe, build, optimizer=optimizer, **how)
    rows = x, torch.from_numpy(labels), held, torch.from_numpy(held_labels)
    return Task(*rows, config.rates, config.epochs, make, scores)


def _recipe(
    build: Callable[..., nn.Module],
    inputs: Tensor,
    labels: Tensor,
    *,
    rate: float,
    epochs: int,
    replicas: int,
    seed: int,
    optimizer: Any,
    size: int,
    milestones: tuple[int, ...] = (),
    bfloat16: bool = False,
) -> TrainingRecipe:
    steps = -(-len(labels) // size)
    falls = [epoch * steps for epoch in milestones]
    return TrainingRecipe(
        partial(build, seed=seed, replicas=replicas),
        inputs,
        labels,
        optimizer=partial(optimizer, lr=rate),
        schedule=partial(torch.optim.lr_scheduler.MultiStepLR, milestones=falls) if falls else None,
        epochs=epochs,
        batch_size=size,
        bfloat16=bfloat16,
    )


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
    influence = turnover.Influence(model, train=rows, estimator=turnover.influence.TurnOver(center=False))
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
    scores = [np.load(folder / f"self-{seed}.npy") for seed in seeds]
    return float(np.mean([spearman(*pair) for pair in combinations(scores, 2)])) if len(scores) > 1 else None


_TRAINED, _NEVER, _MANY = "#1b7fa6", "#a0a0a0", "#d95f02"
_TITLES = {"sst2": "SST-2", "cifar10": "CIFAR-10"}


def _plot(result: Mapping[str, Any], file: Path) -> None:
    """Write the figure: histograms of the first seed, and C-scores of all seeds."""
    with drawn(file, (13, 4)) as figure:
        panels = figure.subplots(1, 3)
        for panel, (name, task) in zip(panels, result["tasks"].items(), strict=False):
            _histogram_figure(panel, task["runs"]["1"][0])
            panel.set_title(f"{_TITLES[name]}, one model")
        panels[0].set_ylabel("training rows")
        _cscores(panels[2], result["tasks"]["cifar10"]["runs"])
        for panel in panels:
            tidy(panel, grid=None)


def _histogram_figure(panel: Any, found: Mapping[str, Any]) -> None:
    # The outermost bins hold all that lies beyond them and would look like peaks.
    edges = found["histogram"]["edges"][1:-1]
    rows, null = (found["histogram"][who][1:-1] for who in ("trained", "null"))
    trained = f"trained rows: {found['positive']:.0%} above 0"
    panel.stairs(rows, edges, fill=True, color=_TRAINED, alpha=0.55, label=trained)
    panel.stairs(null, edges, color="#333333", linewidth=1.2, label=f"null ids: {found['null_positive']:.0%} above 0")
    panel.axvline(0, ymax=0.8, color="black", linewidth=0.8, linestyle=":")
    panel.set(xlabel="self-influence (loss without − loss with the row)", xlim=(edges[0], edges[-1]))
    panel.set_ylim(0, 1.25 * max(*rows, *null))
    panel.legend(frameon=False, loc="upper left", fontsize=9)


def _cscores(panel: Any, runs: Mapping[str, Any]) -> None:
    for (replicas, found), color, marker in zip(runs.items(), (_TRAINED, _MANY), "os", strict=False):
        panel.plot(
            *_means(found, "trained"), marker, color=color, linestyle="-", markersize=5, label=replicas_words(replicas)
        )
    first = next(iter(runs.values()))
    panel.plot(*_means(first, "null"), color=_NEVER, linestyle="--", label="null ids")
    panel.axhline(0, color="black", linewidth=0.8, linestyle=":")
    panel.set(
        xlabel="C-score (mean of a tenth of the images)", ylabel="mean self-influence", title="CIFAR-10, C-scores"
    )
    panel.legend(frameon=False, fontsize=9)


def _means(found: list[Mapping[str, Any]], what: str) -> tuple[list[float], list[float]]:
    tenths = zip(*(one["deciles"][what] for one in found), strict=True)
    return found[0]["deciles"]["consistency"], [sum(some) / len(some) for some in tenths]


_FIGURE = "self_influence.svg"
_MEASURES = {
    "self_influence": "self-influence",
    "held_out_probability": "held-out probability of the label",
    "full_loss": "loss of the full network (for comparison)",
    "null": "null ids on the same images",
}
_CAPTION = "Histograms of the first seed; about 2 % of the values lie beyond the edges. C-scores: means over seeds."
# A rank correlation that is no more than this is not worth calling one.
# Two binomial shares of the same many rows: five points are far outside what chance gives.
_CLEARLY = 0.05
_WEAK = 0.1


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the figure is drawn into the folder."""
    _plot(result, folder / _FIGURE)
    return paragraphs(
        ["# Self-influence on SST-2 and CIFAR-10, beside null ids and C-scores", *_settings(result)],
        [f"![Histograms and C-scores]({_FIGURE})", _CAPTION],
        ["## How much is positive", *_shares(result)],
        ["## C-scores", *_consistency(result), *agreements(findings(result)), *_notes(result)],
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return the paper's statements beside ours."""
    found = []
    for name, task in result["tasks"].items():
        runs = task["runs"]["1"]
        found.append(
            Finding(
                what=f"{_TITLES[name]}: share of rows with positive self-influence",
                paper="“most” (histogram, appendix)" if name == "sst2" else "“a similar distribution” (appendix)",
                ours=f"{_percent(runs, 'positive')} (null ids: {_percent(runs, 'null_positive')})",
                setting=f"{network(name, result['setting'])}, {task['rows']:,} rows, {len(runs)} seeds",
                agreement=agreement(_TITLES[name], runs),
                claim=f"most rows of {_TITLES[name]} have positive self-influence",
                verdict=_verdict(runs),
                rule=f"over half, and {100 * _CLEARLY:g} points more than null ids; in part: over half",
            )
        )
    task = result["tasks"]["cifar10"]
    ours = {replicas: [one["cscores"]["self_influence"] for one in runs] for replicas, runs in task["runs"].items()}
    told = ", ".join(f"{replicas_words(replicas)} {spread(values, '.2f')}" for replicas, values in ours.items())
    found.append(
        Finding(
            what="CIFAR-10: rank correlation of self-influence with C-scores",
            paper="–",
            ours=told,
            setting=f"{network('cifar10', result['setting'])}, {task['rows']:,} images",
            agreement=cscore_sentence(ours),
        )
    )
    return found


def _verdict(runs: list[Mapping[str, Any]]) -> Verdict:
    trained, null = _mean(runs, "positive"), _mean(runs, "null_positive")
    return graded(trained > 0.5 and trained > null + _CLEARLY, in_part=trained > 0.5)


def agreement(title: str, runs: list[Mapping[str, Any]]) -> str:
    """Return in a sentence whether most rows have positive self-influence, and more of them than null ids."""
    trained, null = _mean(runs, "positive"), _mean(runs, "null_positive")
    told = f"{trained:.0%} of the rows, against {null:.0%} of null ids"
    if trained > 0.5 and trained > null + _CLEARLY:
        return f"{title}: agrees with the paper, most rows have positive self-influence ({told})."
    if trained > 0.5:
        return (
            f"{title}: most rows are above zero, as in the paper, but hardly more than null ids are ({told}): the "
            "sign may be noise."
        )
    return f"{title}: does not agree with the paper, most rows do not have positive self-influence ({told})."


def cscore_sentence(ours: Mapping[str, list[float]]) -> str:
    """Return in a sentence whether consistent images have lower self-influence."""
    means = {replicas: sum(values) / len(values) for replicas, values in ours.items()}
    told = " and ".join(f"{value:.2f} for {replicas_words(replicas)}" for replicas, value in means.items())
    if all(value < -_WEAK for value in means.values()):
        return f"Images with a high C-score have lower self-influence, as expected: rank correlation {told}."
    if any(value < -_WEAK for value in means.values()):
        return f"That images with a high C-score have lower self-influence holds in part only: {told}."
    return f"Self-influence does not fall with the C-score: rank correlation {told}."


def network(name: str, setting: Mapping[str, Any]) -> str:
    """Return which network learns a data set, in words."""
    if name == "sst2":
        text = setting["text"]
        if text["encoder"] is not None:
            return f"masked adapters in {text['encoder']}"
        return f"MiniLM features and a masked layer of {text['hidden']}"
    image = setting["image"]
    if image["vgg"]:
        return f"VGG19 of {image['vgg']:g} times the usual width"
    first, second, width = image["hidden"]
    return f"two convolutions ({first} and {second} channels) and a masked layer of {width}, 16 × 16 pixels"


def _settings(result: Mapping[str, Any]) -> Iterable[str]:
    setting = result["setting"]
    yield (
        "Self-influence is the loss of a training row in its flipped subnetwork minus that in its kept one: positive "
        "where training on the row helps to predict it. As in the paper, scores are not centered. For every row a null "
        "id is scored on the same row, which shows the noise."
    )
    for name, task in result["tasks"].items():
        part = setting["text" if name == "sst2" else "image"]
        rate = task["rate"]
        tried = ", ".join(f"{one}: {loss:.3f}" for one, loss in rate["loss"].items())
        chosen = f" (loss on held-out training rows by rate: {tried})" if tried else ""
        precision = " in bfloat16" if part.get("bfloat16") else ""
        yield (
            f"- {_TITLES[name]}: {task['rows']:,} rows, {network(name, setting)}; {part['epochs']} epochs{precision}, "
            f"rate {rate['best']:g}{chosen}."
        )


def _shares(result: Mapping[str, Any]) -> Iterable[str]:
    rows = []
    for name, task in result["tasks"].items():
        for replicas, runs in task["runs"].items():
            cells = [_percent(runs, what) for what in ("accuracy", "positive", "null_positive", "beyond_null")]
            cells += [spread([one[what] for one in runs], ".4f") for what in ("mean", "null_mean")]
            between = task["agreement"][replicas]
            cells.append("–" if between is None else f"{between:.2f}")
            rows.append([_TITLES[name], replicas_words(replicas), *cells])
    head = ["data", "network", "test accuracy", "above 0", "null ids above 0", "beyond 95 % of these", "mean"]
    yield markdown_table([*head, "mean of null ids", "rank correlation of two seeds"], rows)
    yield (
        "Mean ± sd over seeds. The last column compares the order of rows between trainings with other masks, "
        "parameters and batches; where it is low, single values are mostly noise although their mean is not."
    )


def _consistency(result: Mapping[str, Any]) -> Iterable[str]:
    runs = result["tasks"]["cifar10"]["runs"]
    yield (
        "The C-score of an image (Jiang et al. 2021) is how often networks that were not trained on it recognize it. "
        "An image that is explained by others need not be memorized: expected are a negative rank correlation with "
        "self-influence, and a positive one with the held-out probability of its label."
    )
    rows = [
        [title, *(spread([one["cscores"][measure] for one in seeds]) for seeds in runs.values())]
        for measure, title in _MEASURES.items()
    ]
    yield markdown_table(["rank correlation with the C-score", *map(replicas_words, runs)], rows)


def _notes(result: Mapping[str, Any]) -> Iterable[str]:
    if not result["setting"]["image"]["vgg"]:
        yield (
            "The convolutions are shared by all masks and learn every image: part of an image's self-influence is "
            "in both views and cancels. The same holds below the 12th layer of the paper's VGG19."
        )


def _mean(runs: list[Mapping[str, Any]], what: str) -> float:
    return sum(one[what] for one in runs) / len(runs)


def _percent(runs: list[Mapping[str, Any]], what: str) -> str:
    return f"{percents([one[what] for one in runs])} %"
