"""Whole networks under masks by every remedy, and learning rates chosen on held-out rows of the training data."""

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import turnover
from experiments.encoders import classifier, judge, load_rows, train
from experiments.runner import ROOT, kept
from turnover.errors import TurnOverWarning

from .config import Config, Trial


def example(name: str) -> Any:
    """Return the module of an example."""
    spec = importlib.util.spec_from_file_location(f"turnover_example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unmasked(model: Any, seed: int) -> nn.Module:
    """Return the model as it is: ordinary fine-tuning."""
    return model


def plain(model: Any, seed: int) -> nn.Module:
    """Return the model with masks in the place of all its dropouts."""
    return _wrapped(model, seed=seed)


def backward(model: Any, seed: int) -> nn.Module:
    """Return the model with masks on gradients alone."""
    return _wrapped(model, mode="backward", seed=seed)


def mixout(model: Any, seed: int) -> nn.Module:
    """Return the model with masks on the difference from its weights at the start."""
    return _wrapped(model, mode="mixout", seed=seed)


REMEDIES: dict[str, Callable[[Any, int], nn.Module]] = {
    "unmasked": unmasked,
    "plain": plain,
    "backward": backward,
    "mixout": mixout,
}


def _wrapped(model: Any, **options: Any) -> nn.Module:
    model.classifier.bias.requires_grad_(False)  # no mask covers it
    with warnings.catch_warnings():
        # That zero does not stay zero at plain sites is part of what is measured.
        warnings.simplefilter("ignore", TurnOverWarning)
        return turnover.wrap(model, **options)


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
    model = _TEXT[name](classifier(folder, seed=_SEED))
    masked = name not in ("unmasked", "adapters without masks")
    rows = load_rows("train", rows=trial.rows)
    train(model, rows, masked=masked, rate=rate, epochs=trial.epochs, seed=_SEED, tell=lambda: None)
    return judge(model, load_rows("train", start=HELD_OUT_FROM, rows=trial.held_out))


def _adapters(base: Any) -> nn.Module:
    return turnover.wrap(base, adapters=64, seed=_SEED)


_TEXT: dict[str, Callable[[Any], nn.Module]] = {
    "adapters": _adapters,
    "adapters without masks": lambda base: turnover.unwrap(_adapters(base)),
    **{name: lambda base, remedy=remedy: remedy(base, _SEED) for name, remedy in REMEDIES.items()},
}


def _measured_vgg(name: str, trial: Trial, rate: float) -> dict[str, float]:
    vgg = example("vgg_cifar10")
    x, y = vgg.load("train", trial.rows + trial.held_out)
    settings = {**vgg.NARROW, **trial.settings, "epochs": trial.epochs, "rate": rate}
    model = vgg.train(x[: trial.rows], y[: trial.rows], masks=False, **{**settings, "dropout": 0.0})
    with torch.no_grad():
        right = model(x[trial.rows :]).argmax(1) == y[trial.rows :]
    return {"accuracy": float(right.float().mean())}
