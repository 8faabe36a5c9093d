"""Train every network with and without masks; what is finished is kept in the run's folder and not trained again."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from turnover_bench.experiments.datasets.sst2 import load_sst2
from turnover_bench.experiments.encoders import BATCH, adapter_network, judge, load_rows, open_encoder, train
from turnover_bench.experiments.runner import kept, spent
from turnover_bench.experiments.timing import one_thread

from .config import Config, TextConfig, VggConfig
from .vgg import NETWORKS, Images, accuracy, leak, load_images, memory, recalibrated, train_vgg

WITH, WITHOUT = "with masks", "without"
_TRIAL_SEED = 100
"""None of those that are reported."""


def run(config: Config, out: Path) -> dict[str, Any]:
    """Return accuracies, the rates that were chosen, leaks and what was memorized."""
    load_sst2("dev", rows=1)
    images = load_images("train", config.vgg.images + config.vgg.held_out)
    test = load_images("test", config.vgg.test_images)
    parts = out / "parts"
    with one_thread():
        found = {
            "setting": asdict(config),
            "tested_images": len(test.y),
            "text": _text(config.text, out, parts),
            "vgg": {
                name: _vgg(name, config.vgg, images, test, parts) for name in tqdm(NETWORKS, desc="VGG19 networks")
            },
        }
    return {**found, "spent": spent(parts)}


def _text(config: TextConfig, out: Path, parts: Path) -> dict[str, Any]:
    encoder = open_encoder(out, name=config.encoder, blocks=config.blocks)
    rates = {name: _text_rate(name, config, encoder, parts) for name in (WITHOUT, WITH)}
    sizes = [
        {
            "rows": rows,
            **{
                name: [
                    kept(
                        parts / f"text-{rows}-{_file(name)}-{seed}.json",
                        partial(_text_trained, name, config, encoder, rates[name]["best"], rows, seed),
                    )
                    for seed in config.seeds[:seeds]
                ]
                for name in (WITHOUT, WITH)
            },
        }
        for rows, seeds in config.rows
    ]
    return {"rates": rates, "sizes": sizes}


def _text_rate(name: str, config: TextConfig, encoder: str, parts: Path) -> dict[str, Any]:
    """Return the accuracies on held-out training rows by rate, and the rate with the best one."""
    if len(config.rates) == 1:
        return {"held_out": {}, "best": config.rates[0]}
    held_out = {
        rate: kept(parts / f"text-rate-{_file(name)}-{rate:g}.json", partial(_text_trial, name, config, encoder, rate))
        for rate in config.rates
    }
    return {
        "held_out": {f"{rate:g}": one["accuracy"] for rate, one in held_out.items()},
        "best": max(held_out, key=lambda rate: held_out[rate]["accuracy"]),
    }


def _text_trial(name: str, config: TextConfig, encoder: str, rate: float) -> dict[str, float]:
    draw = partial(load_rows, "train", encoder=encoder, seed=_TRIAL_SEED)
    model = _trained(name, draw(rows=config.trial_rows), encoder, rate, config.trial_epochs, _TRIAL_SEED)
    return judge(model, draw(start=config.trial_rows, rows=config.held_out))


def _text_trained(name: str, config: TextConfig, encoder: str, rate: float, rows: int, seed: int) -> dict[str, float]:
    epochs = config.epochs if name == WITH else config.epochs_without
    trained = load_rows("train", encoder=encoder, seed=seed, rows=rows)
    model = _trained(name, trained, encoder, rate, epochs, seed)
    return judge(model, load_rows("dev", encoder=encoder, seed=0, rows=config.dev_rows))


def _trained(name: str, rows: Any, encoder: str, rate: float, epochs: int, seed: int) -> Any:
    model = adapter_network(encoder, masked=name == WITH, seed=seed)
    with _bar(f"adapters {name}, seed {seed}", epochs * -(-len(rows) // BATCH)) as bar:
        train(model, rows, masked=name == WITH, rate=rate, epochs=epochs, seed=seed, tell=bar.update)
    return model


def _vgg(name: str, config: VggConfig, images: Images, test: Images, parts: Path) -> dict[str, Any]:
    """Return the network of every seed; the rate is that with which the first seed answers held-out images best."""

    def trained(rate: float, seed: int) -> dict[str, Any]:
        file = parts / f"vgg-{_file(name)}-{rate:g}-{seed}.json"
        return kept(file, partial(_vgg_trained, name, config, images, test, rate, seed))

    first, *others = config.seeds
    tried = {rate: trained(rate, first) for rate in config.rates}
    best = max(tried, key=lambda rate: tried[rate]["held_out"] or 0.0)
    return {
        "held_out": {f"{rate:g}": one["held_out"] for rate, one in tried.items()},
        "best": best,
        "seeds": [tried[best], *(trained(best, seed) for seed in others)],
    }


def _vgg_trained(name: str, config: VggConfig, images: Images, test: Images, rate: float, seed: int) -> dict[str, Any]:
    rows, held_out = images.part(0, config.images), images.part(config.images)
    with _bar(f"VGG19 {name}, rate {rate:g}, seed {seed}", config.epochs * (len(rows.y) // config.batch)) as bar:
        model = train_vgg(NETWORKS[name], rows, config, rate=rate, seed=seed, tell=bar.update)
    found: dict[str, Any] = {
        "accuracy": accuracy(model, test),
        "held_out": accuracy(model, held_out) if config.held_out else None,
        "trained": accuracy(model, rows.part(0, len(test.y))),
        "statistics_of_the_whole": accuracy(recalibrated(model, rows), test),
    }
    if NETWORKS[name].first is not None:
        found |= {"leak": leak(model, rows), "memory": memory(model, rows, others=test)}
    return found


def _bar(title: str, total: int) -> Any:
    return tqdm(total=total, desc=title, leave=False)


def _file(name: str) -> str:
    return name.replace(" ", "-")
