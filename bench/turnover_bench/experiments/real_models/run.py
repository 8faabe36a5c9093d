"""Measure all parts; what is finished lies in the folder of the run and is not measured again."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

import turnover
from turnover_bench.experiments.datasets.cifar10 import load_cifar10
from turnover_bench.experiments.datasets.sst2 import load_sst2
from turnover_bench.experiments.encoders import classifier, judge, load_rows, open_encoder, train
from turnover_bench.experiments.runner import kept, spent
from turnover_bench.experiments.timing import one_thread

from . import speed
from .config import Config, RemedyConfig, VggConfig
from .trainings import REMEDIES, choose, example, remedied


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
        scoring = kept(parts / "speed.json", partial(_speed, speed.measure, config, folder, out))
        origin = kept(parts / "origin.json", partial(_speed, speed.origin, config, folder, out))
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
