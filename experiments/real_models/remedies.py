"""A whole pretrained network under masks: plainly, on the backward pass only, by mixout; and without any."""

import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

import turnover
from turnover.errors import TurnOverWarning


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
