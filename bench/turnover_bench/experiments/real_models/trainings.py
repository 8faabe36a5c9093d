"""Whole networks under masks by every remedy, and learning rates chosen on held-out rows of the training data."""

import importlib.util
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import turnover
from turnover.errors import TurnOverWarning
from turnover.layers import Mode
from turnover_bench.experiments.encoders import adapter_network, classifier, judge, load_rows, train
from turnover_bench.experiments.runner import ROOT, kept

from .config import Config, Trial


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
