"""Measure all parts; what is finished lies in the folder of the run and is not measured again."""

import importlib.util
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

import turnover
from turnover.errors import TurnOverWarning
from turnover.evaluation import spearman
from turnover.influence import NULL_IDS, null_ids
from turnover.layers import Mode, masking_of
from turnover.wrapping import only_at, top_sites, wrapped_root
from turnover_bench.checks import markdown_table
from turnover_bench.experiments.datasets.images import load_cifar10
from turnover_bench.experiments.datasets.texts import load_sst2
from turnover_bench.experiments.encoders import (
    DEV_ROWS,
    Rows,
    adapter_network,
    classifier,
    encoder_words,
    judge,
    load_rows,
    open_encoder,
    train,
)
from turnover_bench.experiments.figures import drawn, tidy
from turnover_bench.experiments.findings import Finding, graded, noise, paragraphs, percents, seeds_words
from turnover_bench.experiments.runner import ROOT, Needs, kept, spent
from turnover_bench.experiments.timing import one_thread, seconds


@dataclass(frozen=True)
class Trial:
    """Trainings that choose a learning rate.

    Attributes:
        rates: that are tried.
        rows: of the training data that are trained.
        held_out: further rows of the training data, which decide.
        epochs: of each training.
        settings: of the VGG example that differ from its narrow ones.
    """

    rates: tuple[float, ...]
    rows: int
    held_out: int
    epochs: int = 3
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class AdapterConfig:
    """Adapters in a frozen encoder, trained by examples/hf_trainer_sst2.py.

    Attributes:
        rows: of SST-2 that are trained.
        dev_rows: that are tested; None: all 872.
        epochs: of each training.
        seeds: of head, adapters, masks and order; each is one training with masks and one without.
    """

    rows: int = 5_000
    dev_rows: int | None = None
    epochs: int = 3
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class SpeedConfig:
    """Scoring with the adapter model of the first seed.

    Attributes:
        instances: that are scored on each sentence.
        sentences: from the dev set, over which rank correlations are averaged; the first is timed.
        top: numbers of top blocks whose masks are used alone.
        origin: trained and null ids for which scores are compared by the masks used.
        loop_batches: batches of the authors' loop that are timed; its whole time is extrapolated from them.
    """

    instances: int = 5_000
    sentences: int = 3
    top: tuple[int, ...] = (3, 1, 0)
    origin: int = 300
    loop_batches: int = 5


@dataclass(frozen=True)
class RemedyConfig:
    """Masks on all layers, by every remedy.

    Attributes:
        rows: of SST-2 that are trained.
        dev_rows: that are tested; None: all 872.
        epochs: of each training.
        rate_by: the trial that chooses the learning rate, one for all remedies.
        seeds: of head, masks and order.
    """

    rows: int = 1_000
    dev_rows: int | None = None
    epochs: int = 3
    rate_by: str = "unmasked"
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class VggConfig:
    """VGG19, trained by examples/vgg_cifar10.py.

    Attributes:
        images: that are trained, and at most so many that are tested.
        settings: that differ from the narrow ones of the example; None: those of its --paper, with their own rate.
    """

    images: int = 10_000
    settings: Mapping[str, object] | None = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """Everything that is measured.

    Attributes:
        trials: by name, how learning rates are chosen; the rate of adapters stands in the example.
        blocks: of a tiny untrained encoder; None: MiniLM.
    """

    trials: Mapping[str, Trial] = field(
        default_factory=lambda: {
            "adapters": Trial((1e-3, 2e-3), 1_000, 500),
            "adapters without masks": Trial((1e-3, 2e-3), 1_000, 500),
            "unmasked": Trial((1e-4, 3e-4), 256, 500, epochs=2),
            "vgg": Trial((0.02, 0.1), 8_000, 2_000, epochs=1),
        }
    )
    blocks: int | None = None
    adapters: AdapterConfig = AdapterConfig()
    speed: SpeedConfig = SpeedConfig()
    remedies: RemedyConfig = RemedyConfig()
    vgg: VggConfig = VggConfig()


SIZES = {
    "toy": Config(
        trials={
            **{name: Trial((1e-3,), 32, 32, epochs=1) for name in ("adapters", "adapters without masks")},
            "unmasked": Trial((1e-4, 1e-3), 32, 32, epochs=1),
            "vgg": Trial((0.01,), 64, 32, epochs=1, settings={"width": 0.03125}),
        },
        blocks=3,
        adapters=AdapterConfig(rows=64, dev_rows=24, epochs=1),
        speed=SpeedConfig(instances=40, sentences=2, top=(2, 0), origin=20, loop_batches=1),
        remedies=RemedyConfig(rows=32, dev_rows=16, epochs=1),
        vgg=VggConfig(images=64, settings={"width": 0.03125, "epochs": 1}),
    ),
    "small": Config(
        adapters=AdapterConfig(epochs=2),
        speed=SpeedConfig(sentences=1),
        remedies=RemedyConfig(epochs=2),
        vgg=VggConfig(settings={"epochs": 5, "milestones": [4]}),
    ),
    "medium": Config(
        # The paper's rows, one seed: three of adapters are in side_effects.
        speed=SpeedConfig(sentences=5, top=(5, 4, 3, 2, 1, 0)),
        remedies=RemedyConfig(rows=5_000),
        vgg=VggConfig(settings={"width": 0.25, "epochs": 12, "milestones": [8, 11]}),
    ),
    # BERT's rows, epochs and VGG19 of the paper; with MiniLM in the place of BERT.
    "full": Config(
        adapters=AdapterConfig(rows=20_000, epochs=10, seeds=(0, 1, 2)),
        speed=SpeedConfig(instances=20_000, sentences=10, top=(5, 4, 3, 2, 1, 0)),
        remedies=RemedyConfig(rows=20_000, epochs=10, seeds=(0, 1, 2)),
        vgg=VggConfig(settings=None),
    ),
}

NEEDS = {"medium": Needs(disk=1, memory=4, hours=1)}


def example(name: str) -> Any:
    """Return the module of an example."""
    spec = importlib.util.spec_from_file_location(f"turnover_example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REMEDIES: dict[str, Mode | None] = {
    "unmasked": None,  # ordinary fine-tuning
    "plain": "forward",  # masks in the place of all dropouts of the model
    "backward": "backward",  # on gradients alone
    "mixout": "mixout",  # on the difference from the weights at the start
}


def remedied(model: Any, name: str, seed: int) -> nn.Module:
    """Return the model under masks by a remedy."""
    mode = REMEDIES[name]
    if mode is None:
        return model
    model.classifier.bias.requires_grad_(False)  # no mask covers it
    with warnings.catch_warnings():
        # That zero does not stay zero at plain sites is part of what is measured.
        warnings.simplefilter("ignore", TurnOverWarning)
        return turnover.wrap(model, mode=mode, seed=seed)


HELD_OUT_FROM = 20_000
"""The first row of SST-2's training file that is held out; all that train come before it."""

_SEED = 100
"""None of those that are reported."""


def choose(config: Config, folder: str, parts: Path) -> dict[str, Any]:
    """Return, for every trial, the accuracies on held-out rows by rate, and the rate with the best one."""
    found: dict[str, Any] = {}
    for name, trial in config.trials.items():
        measure = _measured_vgg if name.startswith("vgg") else partial(_measured_text, folder)
        by_rate = {
            rate: kept(parts / f"rate-{name.replace(' ', '-')}-{rate:g}.json", partial(measure, name, trial, rate))
            for rate in trial.rates
        }
        found[name] = {
            "accuracy": {f"{rate:g}": one["accuracy"] for rate, one in by_rate.items()},
            "best": max(by_rate, key=lambda rate: by_rate[rate]["accuracy"]),
        }
    return found


def _measured_text(folder: str, name: str, trial: Trial, rate: float) -> dict[str, float]:
    masked = name not in ("unmasked", "adapters without masks")
    if name.startswith("adapters"):
        model = adapter_network(folder, masked=masked, seed=_SEED)
    else:
        model = remedied(classifier(folder, seed=_SEED), name, _SEED)
    rows = load_rows("train", rows=trial.rows)
    train(model, rows, masked=masked, rate=rate, epochs=trial.epochs, seed=_SEED, tell=lambda: None)
    return judge(model, load_rows("train", start=HELD_OUT_FROM, rows=trial.held_out))


def _measured_vgg(name: str, trial: Trial, rate: float) -> dict[str, float]:
    vgg = example("vgg_cifar10")
    x, y = vgg.load("train", trial.rows + trial.held_out)
    settings = {**vgg.NARROW, **trial.settings, "epochs": trial.epochs, "rate": rate}
    model = vgg.train(x[: trial.rows], y[: trial.rows], masks=False, **{**settings, "dropout": 0.0})
    with torch.no_grad():
        right = model(x[trial.rows :]).argmax(1) == y[trial.rows :]
    return {"accuracy": float(right.float().mean())}


_LOOP_BATCH = 100
_FURTHER = 0.1


def measured_speed(model: nn.Module, dev: Rows, config: SpeedConfig) -> dict[str, Any]:
    """Return seconds and rank correlations."""
    networks = {"all": model, **{str(top): only_at(model, top_sites(model, top)) for top in config.top}}
    first, *others = range(config.sentences)
    plain = turnover.unwrap(model).eval()
    loop = _loop(plain, dev, first, config)
    found: dict[str, Any] = {"tokens": len(dev.tokens[first]), "loop": loop, "null_ids": NULL_IDS, "networks": {}}
    first_scores = {name: _scores(net, dev, first, config.instances) for name, net in networks.items()}
    fewer = max(2, round(_FURTHER * config.instances))
    further = [{name: _scores(net, dev, place, fewer)[0] for name, net in networks.items()} for place in others]
    for name, (scores, took, path) in first_scores.items():
        pairs = (scores, first_scores["all"][0]), *((one[name], one["all"]) for one in further)
        found["networks"][name] = {
            "seconds": took,
            "path": path,
            "ratio": loop["seconds"] / took,
            "rank_correlation": float(np.mean([spearman(*pair) for pair in pairs])),
            "rank_correlation_first": float(spearman(scores, first_scores["all"][0])),
        }
    return found


def speed_origin(model: nn.Module, dev: Rows, config: SpeedConfig) -> dict[str, Any]:
    """Return where scores on the first sentence come from: their deviation by the masks used, for trained and null ids.

    A rank correlation that is as high for null ids comes from shared masks, not from training.
    """
    head = top_sites(model, 0)
    every = [site.path for site in masking_of(wrapped_root(model)).recipe.sites]
    networks = {
        "all": model,
        "output layer": only_at(model, head),
        "adapters": only_at(model, [path for path in every if path not in head]),
    }
    found: dict[str, Any] = {}
    for kind, ids in (("trained", torch.arange(config.origin)), ("null", null_ids(config.origin))):
        scores = {name: _plain_scores(network, dev, 0, ids) for name, network in networks.items()}
        found[kind] = {
            name: {"spread": float(one.std()), "rank_correlation": float(spearman(one, scores["all"]))}
            for name, one in scores.items()
        }
    return found


@torch.no_grad()
def _plain_scores(model: nn.Module, dev: Rows, place: int, ids: Tensor) -> np.ndarray:
    """Return loss(flip) - loss(keep) of one sentence, the plainest way."""
    losses: dict[str, Tensor] = {}
    labels = dev.labels[[place]].repeat(len(ids))
    for view in ("flip", "keep"):
        with turnover.instances(ids, view=view):
            losses[view] = functional.cross_entropy(model(**dev.batch([place])).logits, labels, reduction="none")
    return (losses["flip"] - losses["keep"]).double().numpy()


def _loop(plain: nn.Module, dev: Rows, place: int, config: SpeedConfig) -> dict[str, Any]:
    """Return the seconds of two passes per instance, 100 repeated inputs per batch, on the model without masks."""
    query = {name: value.repeat(_LOOP_BATCH, 1) for name, value in dev.batch([place]).items()}
    labels = dev.labels[[place]].repeat(_LOOP_BATCH)

    def once() -> None:
        with torch.no_grad():
            for _ in range(2):
                functional.cross_entropy(plain(**query).logits, labels, reduction="none")

    once()
    timed = seconds(lambda: [once() for _ in range(config.loop_batches)])
    every = config.instances / (_LOOP_BATCH * config.loop_batches)
    return {"seconds": timed * every, "timed_batches": config.loop_batches, "timed_seconds": timed}


def _scores(model: nn.Module, dev: Rows, place: int, instances: int) -> tuple[np.ndarray, float, str]:
    """Return scores of instances on one sentence, the seconds they took, and the engine's path."""
    query: dict[str, Tensor] = {**dev.batch([place]), "labels": dev.labels[[place]]}
    ask = turnover.Influence(model, estimator=turnover.influence.TurnOver(nulls=NULL_IDS))
    found: list[turnover.Scores] = []
    took = seconds(lambda: found.append(ask.pairwise(query, ids=range(instances), progress=False)))
    return found[0].values[:, 0], took, found[0].path


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return accuracies, curves, seconds and rank correlations."""
    load_sst2("dev")  # the examples, which read by themselves, would not say where data comes from
    load_cifar10("test", rows=1)
    with one_thread():
        folder, parts = open_encoder(out, blocks=config.blocks), out / "parts"
        # First what matters most: a run may be interrupted.
        adapters = [
            kept(parts / f"adapters-{seed}.json", partial(_adapters, config, seed, folder, out))
            for seed in config.adapters.seeds
        ]
        scoring = kept(parts / "speed.json", partial(_speed, measured_speed, config, folder, out))
        origin = kept(parts / "origin.json", partial(_speed, speed_origin, config, folder, out))
        rates = choose(config, folder, parts)
        found = {
            "setting": asdict(config),
            "rates": rates,
            "adapters": adapters,
            "speed": scoring,
            "origin": origin,
            "remedies": _remedies(config.remedies, rates[config.remedies.rate_by]["best"], folder, parts),
            "vgg": _vgg(config.vgg, rates["vgg"]["best"], parts),
        }
        return {**found, "spent": spent(parts)}


def _adapters(config: Config, seed: int, folder: str, out: Path) -> dict[str, Any]:
    """Return what the example finds; its masked model is kept for scoring."""
    asked = config.adapters
    found = example("hf_trainer_sst2").main(
        asked.rows, asked.dev_rows, asked.epochs, seed, folder=folder, out=str(out / "trainer")
    )
    turnover.save(found.pop("model"), out / f"adapters-{seed}")
    return found


def _speed(ask: Callable[..., dict[str, Any]], config: Config, folder: str, out: Path) -> dict[str, Any]:
    seed = config.adapters.seeds[0]
    model = turnover.load(out / f"adapters-{seed}", model=classifier(folder, seed=seed)).eval()
    return ask(model, load_rows("dev", rows=config.speed.sentences), config.speed)


def _remedies(config: RemedyConfig, rate: float, folder: str, parts: Path) -> dict[str, list[dict[str, float]]]:
    """Return what every remedy gives, seed by seed: what is known after a stop can be compared."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in REMEDIES}
    for seed in config.seeds:
        for name, measured in found.items():
            file = parts / f"remedy-{name.replace(' ', '-')}-{seed}.json"
            measured.append(kept(file, partial(_remedy, name, config, rate, seed, folder)))
    return found


def _remedy(name: str, config: RemedyConfig, rate: float, seed: int, folder: str) -> dict[str, float]:
    rows = load_rows("train", rows=config.rows)
    model = remedied(classifier(folder, seed=seed), name, seed)
    with tqdm(total=config.epochs * -(-len(rows) // 32), desc=name) as bar:
        options = {"rate": rate, "epochs": config.epochs, "seed": seed}
        train(model, rows, masked=name != "unmasked", tell=bar.update, **options)
    return {"rate": rate, **judge(model, load_rows("dev", rows=config.dev_rows))}


def _vgg(config: VggConfig, rate: float, parts: Path) -> dict[str, Any]:
    vgg = example("vgg_cifar10")
    settings = vgg.PAPER if config.settings is None else {**vgg.NARROW, **config.settings, "rate": rate}
    found = {
        name: kept(
            parts / f"vgg-{name.replace(' ', '-')}.json", partial(vgg.main, config.images, {name: how}, **settings)
        )
        for name, how in vgg.NETWORKS.items()
    }
    return {"settings": settings, "accuracy": {name: found[name][name] for name in found}}


_LINES = {
    "curve_keep": ("training rows, kept subnetwork", "#d95f02", "s"),
    "curve_flip": ("training rows, flipped subnetwork", "#e7298a", "o"),
    "curve_validation": ("validation rows", "#444444", "^"),
}


def _plot_curves(curves: Sequence[Mapping[str, float]], file: Path) -> None:
    """Write the loss curves of the kept and flipped subnetworks and of validation rows."""
    with drawn(file, (7, 4)) as figure:
        panel = figure.subplots()
        for name, (label, color, marker) in _LINES.items():
            steps, losses = [point["step"] for point in curves], [point[name] for point in curves]
            panel.plot(steps, losses, label=label, color=color, marker=marker, markersize=5)
        panel.set(xlabel="step", ylabel="loss")
        tidy(panel, box=True)
        panel.legend(frameon=False)


_POINTS = 100
_SEEN = 1.1  # deviation of trained over null ids from which on a signal is visible
_FIGURE = "real_models.svg"
_REMEDIES = {
    "unmasked": "no masks: ordinary fine-tuning",
    "plain": "plainly, in the place of all dropouts of the model",
    "backward": "backward only",
    "mixout": "mixout",
}


def page(result: Mapping[str, Any], folder: Path) -> str:
    """Return the page as Markdown; the curves are drawn into the folder."""
    _plot_curves(result["adapters"][0]["curves"], folder / _FIGURE)
    return paragraphs(
        [
            "# Real models: adapters, whole networks under masks, VGG19, and the engine on a transformer",
            *_adapters_section(result),
            *_remedies_section(result),
            *_vgg_section(result),
            *_speed_section(result),
            *_rates(result),
            _spent(result["spent"]),
        ]
    )


def findings(result: Mapping[str, Any]) -> list[Finding]:
    """Return what masks on whole models cost."""
    setting, runs = result["setting"]["adapters"], result["adapters"]
    accuracy = {name: [run[name] for run in runs] for name in ("without", "with masks")}
    lost = _POINTS * (mean(accuracy["without"]) - mean(accuracy["with masks"]))
    remedies, small = result["remedies"], result["setting"]["remedies"]
    shares = {name: [one["accuracy"] for one in remedies[name]] for name in _REMEDIES}
    tested = (small["dev_rows"] or DEV_ROWS) * len(small["seeds"])
    left = _POINTS * (mean(shares["unmasked"]) - mean(shares["mixout"]))
    plain = _POINTS * (mean(shares["unmasked"]) - mean(shares["plain"]))
    return [
        Finding(
            what="SST-2, adapters: accuracy without and with masks",
            paper="90.0 → 88.3 (§4.1, BERT)",
            ours=f"{percents(accuracy['without'])} → {percents(accuracy['with masks'])}",
            setting=f"{_encoder(result)}, {setting['rows']:,} rows, {setting['epochs']} epochs, "
            f"{seeds_words(setting['seeds'])}",
            agreement=f"Masks on adapters cost {lost:.1f} points of accuracy, in the paper 1.7.",
        ),
        Finding(
            what="SST-2, all layers under masks: plainly, backward only, mixout",
            paper="no number: training unstable (§4.1)",
            ours=f"{percents(shares['plain'])} plainly, {percents(shares['backward'])} backward only, "
            f"{percents(shares['mixout'])} by mixout; no masks {percents(shares['unmasked'])}",
            setting=f"{_encoder(result)}, {small['rows']:,} rows, {small['epochs']} epochs, "
            f"{seeds_words(small['seeds'])}",
            agreement=f"Plain masks on all layers {'cost' if plain > 0 else 'gain'} {abs(plain):.1f} points; mixout "
            f"{'costs' if left > 0 else 'gains'} {abs(left):.1f}.{_baseline(result)}",
            claim="BERT trains badly with masks on all layers, without adapters",
            verdict=graded(plain > noise(_POINTS * mean(shares["unmasked"]), _POINTS * mean(shares["plain"]), tested)),
            rule="significantly worse than without masks",
        ),
    ]


def _baseline(result: Mapping[str, Any]) -> str:
    """Return how far the network without masks can be relied on: its rate may be the largest that was tried."""
    rates = result["rates"]["unmasked"]
    tried = [float(rate) for rate in rates["accuracy"]]
    if rates["best"] < max(tried):
        return ""
    return (
        f" The network without masks has the largest rate that was tried, {max(tried):g}: a better one may lie beyond."
    )


def follows(curves: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean distance of the flipped and of the kept curve from the validation curve, once training began."""
    later = [point for point in curves if point["step"] > 0]
    return {name: mean(abs(p[f"curve_{name}"] - p["curve_validation"]) for p in later) for name in ("flip", "keep")}


def _adapters_section(result: Mapping[str, Any]) -> Iterable[str]:
    setting, runs = result["setting"]["adapters"], result["adapters"]
    accuracy = {name: [run[name] for run in runs] for name in ("without", "with masks")}
    difference = _POINTS * abs(mean(accuracy["with masks"]) - mean(accuracy["without"]))
    distance = follows(runs[0]["curves"])
    nearer = "nearer to" if distance["flip"] < distance["keep"] else "farther from"
    yield "## Adapters on SST-2"
    yield (
        f"{_encoder(result)} with adapters of 64 units, {setting['rows']:,} training rows, {setting['epochs']} epochs, "
        f"{_tested(setting)}, by `examples/hf_trainer_sst2.py`; {seeds_words(setting['seeds'])}."
    )
    rows = [[name, percents(values)] for name, values in accuracy.items()]
    yield markdown_table(["adapters", "accuracy"], rows)
    yield (
        f"They differ by {difference:.1f} points (wanted: at most 2.5; the paper: 90.0 without and 88.3 with, for "
        "BERT). "
        f"The flipped curve is {nearer} the validation curve than the kept one: {distance['flip']:.3f} against "
        f"{distance['keep']:.3f} on average."
    )
    yield f"![Loss of kept subnetwork, flipped subnetwork and validation rows]({_FIGURE})"


def _remedies_section(result: Mapping[str, Any]) -> Iterable[str]:
    setting, runs = result["setting"]["remedies"], result["remedies"]
    yield "## All layers under masks"
    yield (
        f"{_encoder(result)} fine-tuned as a whole, {setting['rows']:,} training rows of SST-2, {setting['epochs']} "
        f"epochs, {_tested(setting)}; {seeds_words(setting['seeds'])}."
    )
    rows = []
    base = mean(one["accuracy"] for one in runs["unmasked"])
    for name, title in _REMEDIES.items():
        found = [one["accuracy"] for one in runs[name]]
        loss = mean(one["loss"] for one in runs[name])
        change = "" if name == "unmasked" else f"{_POINTS * (mean(found) - base):+.1f}"
        rows.append([title, f"{runs[name][0]['rate']:g}", percents(found), f"{loss:.3f}", change])
    yield markdown_table(["masks", "learning rate", "accuracy", "loss", "difference"], rows)
    lost = _POINTS * (base - mean(one["accuracy"] for one in runs["mixout"]))
    yield (
        f"Mixout loses {'no more' if lost <= 3 else 'more'} than 3 points against ordinary fine-tuning. The paper "
        "found plain masks on all layers of BERT unstable and reports no number."
    )


def _vgg_section(result: Mapping[str, Any]) -> Iterable[str]:
    setting, found = result["vgg"]["settings"], result["vgg"]["accuracy"]
    yield "## VGG19 on CIFAR-10"
    sites = "convolutions 12 to 16" + (" and the classifier's input" if setting["twice"] else "")
    yield (
        f"Width {setting['width']:g} of the usual, {result['setting']['vgg']['images']:,} images, {setting['epochs']} "
        f"epochs, rate {setting['rate']:g}, falling tenfold after epochs {_listed(setting['milestones'])}; channel "
        f"masks on the ReLU of {sites}; ordinary dropout of {setting['dropout']:g} there. By "
        "`examples/vgg_cifar10.py`, accuracy on at most 2,000 test images, one seed."
    )
    paper = {"plain": "92.0", "masks": "86.2", "masks and dropout": "91.3"}
    rows = [[name, f"{_POINTS * value:.1f}", paper[name]] for name, value in found.items()]
    yield markdown_table(["network", "accuracy", "the paper"], rows)
    order = sorted(found, key=lambda name: -found[name])
    same = order == sorted(found, key=lambda name: -float(paper[name]))
    yield f"From best to worst: {', '.join(order)}. The paper's order is {'the same' if same else 'another'}."


def _speed_section(result: Mapping[str, Any]) -> Iterable[str]:
    setting, found = result["setting"]["speed"], result["speed"]
    loop = found["loop"]
    yield "## The engine on the adapter model"
    yield (
        f"{setting['instances']:,} instances on one sentence of {found['tokens']} tokens, processor seconds of one "
        "thread. The authors' loop (100 repeated inputs per batch, two passes of the model without masks) takes "
        f"{loop['seconds']:.1f} s, extrapolated from {loop['timed_batches']} batches. The engine scores "
        f"{found['null_ids']:,} null ids besides, for offset and standard error; they are within its "
        "seconds."
    )
    rows = [
        [
            "all" if name == "all" else _top(int(name)),
            f"{one['seconds']:.1f}",
            f"{one['ratio']:.1f}",
            f"{one['rank_correlation']:.3f}",
            one["path"],
        ]
        for name, one in found["networks"].items()
    ]
    head = ["masks used", "seconds", "times faster than the loop", "rank correlation with all", "path"]
    yield markdown_table(head, rows)
    yield (
        f"Rank correlations (Spearman) are {_sentences(setting['sentences'])}. Masks below the top blocks are skipped "
        "when scoring only: `only_at(model, top_sites(model, 1))` of `turnover.wrapping`."
    )
    yield from _origin(result)


def _origin(result: Mapping[str, Any]) -> Iterable[str]:
    found = result["origin"]
    count = result["setting"]["speed"]["origin"]
    yield (
        f"A high rank correlation alone says little. Below are the standard deviation of scores on the same sentence "
        f"and the rank correlation with all masks, for {count} trained and for {count} null ids. As far as both rows "
        "are alike, the numbers come from the masks and not from training."
    )
    rows = [
        [kind, *(f"{part['spread']:.4f}, correlation {part['rank_correlation']:.2f}" for part in one.values())]
        for kind, one in found.items()
    ]
    yield markdown_table(["ids", *(f"masks: {name}" for name in found["trained"])], rows)
    trained, null = (found[kind]["all"]["spread"] for kind in ("trained", "null"))
    if trained < _SEEN * null:
        yield (
            "With all masks both deviate alike: single scores on this sentence are hardly more than noise, so that "
            "their rank correlation compares noise with itself. Whether the top blocks keep the signal is not shown."
        )


def _rates(result: Mapping[str, Any]) -> Iterable[str]:
    yield "## Learning rates"
    yield "Chosen by accuracy on held-out rows of the training data; no dev or test row was looked at."
    rows = [
        [name, ", ".join(f"{rate}: {_POINTS * value:.1f}" for rate, value in one["accuracy"].items())]
        for name, one in result["rates"].items()
    ]
    yield markdown_table(["training", "accuracy by rate"], rows)
    yield (
        "Adapters have 2e-3 with masks and without, as in the example. All layers under masks have the rate of none. "
        "Few rates were tried, on few rows; where the best is the largest or smallest of them, a better one may lie "
        "beyond."
    )


def _spent(spent: Mapping[str, float]) -> str:
    text = f"All {spent['parts']:.0f} parts together took {spent['seconds'] / 60:.0f} processor minutes"
    if spent["not_timed"]:
        text += f", not counting {spent['not_timed']:.0f} that were not timed"
    return f"{text}; finished parts are not measured again when a run is resumed."


def _sentences(count: int) -> str:
    if count == 1:
        return "of this sentence alone"
    return f"means over {count} sentences, all but the first of them with a tenth of the instances"


def _encoder(result: Mapping[str, Any]) -> str:
    return encoder_words(None, result["setting"]["blocks"])


def _tested(setting: Mapping[str, Any]) -> str:
    return f"{setting['dev_rows'] or DEV_ROWS} dev rows"


def _top(blocks: int) -> str:
    return "output layer" if blocks == 0 else f"top {blocks} block{'s' if blocks > 1 else ''} and output layer"


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))
