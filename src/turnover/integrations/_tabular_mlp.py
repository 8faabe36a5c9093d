"""A multilayer perceptron for rows of a table, with masks on every hidden layer, and its training."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from turnover.errors import TrainingError
from turnover.layers import preferred_device
from turnover.training import TrainingRecipe
from turnover.wrapping import wrap


@dataclass(frozen=True)
class MlpSettings:
    """Shape, masks and training (by AdamW) of the network."""

    hidden: Sequence[int]  # width of each hidden layer
    keep: float = 0.5  # share of the hidden units that a row trains
    replicas: int = 8  # how many networks, each with its own weights and masks, are trained in one run
    epochs: int = 40
    batch_size: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    device: str | torch.device | None = None  # where to train and to score; None: the CPU

    def __post_init__(self) -> None:
        """Reject what cannot be trained, all problems at once."""
        problems = [
            f"{name}={getattr(self, name)!r}: give {need}"
            for name, need, allowed in _NEEDED
            if not allowed(getattr(self, name))
        ]
        if problems:
            raise TrainingError(f"the network cannot be trained: {'; '.join(problems)}.")


def train_mlp(
    settings: MlpSettings, inputs: Tensor, targets: Tensor, *, outputs: int, seed: int, weights: Tensor | None = None
) -> nn.Module:
    """Return a wrapped and trained network; row numbers are the instance ids.

    Inputs are standardized rows, float32 [rows, features]; targets class numbers [rows], or standardized floats [rows,
    outputs]. The seed is that of weights, masks and batches; `weights` are those of the rows' losses, None: 1 each.
    """
    device = preferred_device(settings.device)
    recipe = TrainingRecipe(
        partial(_masked_mlp, settings, inputs.shape[1], outputs, seed, device),
        inputs.to(device),
        targets.to(device),
        optimizer=partial(torch.optim.AdamW, lr=settings.learning_rate, weight_decay=settings.weight_decay),
        epochs=int(settings.epochs),
        batch_size=int(settings.batch_size),
    )
    model = recipe.fit(seed=seed, weights=None if weights is None else weights.to(device))
    if not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        raise TrainingError(
            f"the training diverged: weights are no longer finite with learning_rate={settings.learning_rate}. Give a "
            "smaller one."
        )
    return model


def _masked_mlp(settings: MlpSettings, features: int, outputs: int, seed: int, device: torch.device) -> nn.Module:
    layers: list[nn.Module] = []
    before = features
    for width in settings.hidden:
        layers += [nn.Linear(before, int(width)), nn.ReLU()]
        before = int(width)
    # An output bias belongs to no masked unit: it would leak every row into the half that must not know it.
    layers.append(nn.Linear(before, outputs, bias=False))
    sites = [str(place) for place, layer in enumerate(layers) if isinstance(layer, nn.ReLU)]
    replicas = int(settings.replicas)
    wrapped = wrap(nn.Sequential(*layers), at=sites, keep=float(settings.keep), seed=seed, replicas=replicas)
    return wrapped.to(device)


def _is_number(given: Any) -> bool:
    return isinstance(given, Real) and not isinstance(given, bool)


def _is_count(given: Any) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= 1


def _are_widths(given: Any) -> bool:
    if isinstance(given, str) or not hasattr(given, "__len__"):
        return False
    return len(given) > 0 and all(_is_count(width) for width in given)


_NEEDED = (
    ("hidden", "a width of at least 1 for each hidden layer: hidden=(512,)", _are_widths),
    ("keep", "a number between 0 and 1: keep=0.5", lambda given: _is_number(given) and 0 < given < 1),
    ("replicas", "an integer of at least 1: replicas=8", _is_count),
    ("epochs", "an integer of at least 1: epochs=40", _is_count),
    ("batch_size", "an integer of at least 1: batch_size=64", _is_count),
    ("learning_rate", "a number above 0: learning_rate=3e-3", lambda given: _is_number(given) and given > 0),
    ("weight_decay", "a number of at least 0: weight_decay=1e-4", lambda given: _is_number(given) and given >= 0),
)
