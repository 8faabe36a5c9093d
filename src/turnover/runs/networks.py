"""Sensible networks in which every training row trains its own half.

All end in one masked layer and an output layer without bias: nothing of a row leaks past the masks there, and scores of
all pairs are one matrix product, so that questions are answered while a person waits.
"""

from typing import Any

import torch
from torch import nn

from turnover.storage import check_memory
from turnover.wrapping import wrap

from .config import RunConfig
from .inputs import Inputs

REPLICAS = 8
# By the kind of inputs: width, epochs and learning rate. Texts as pieces of words are wide themselves. Epochs are
# enough to memorize rows a little, which is what influence is made of. Many rows take fewer: no more visits than this.
_MOST_VISITS, _FEWEST_EPOCHS = 2_400_000, 3
# Few rows take more: after the 15 steps that 3 epochs of 300 texts are, every prediction is still near one half.
_FEWEST_STEPS = 60
# Noise of numbers is memorized sooner than wrong classes: with 30 epochs held-out predictions of noisy ones were worse
# than their mean.
_EPOCHS_OF_NUMBERS = 10
_DEFAULTS = {
    "ngrams": (256, 3, 1e-3),
    "encoder": (512, 6, 5e-4),
    "tokens": (0, 5, 2e-3),
    "columns": (512, 30, 2e-3),
    "pixels": (512, 12, 1e-3),
}


def settings_for(config: RunConfig, kind: str, rows: int, *, numeric: bool = False) -> RunConfig:
    """Return settings in which open values have the defaults of a kind of inputs, of labels and of training rows."""
    width, epochs, rate = _DEFAULTS[kind]
    steps = -(-max(rows, 1) // config.batch_size)  # of an epoch
    epochs = min(epochs, _EPOCHS_OF_NUMBERS) if numeric else max(epochs, -(-_FEWEST_STEPS // steps))
    epochs = min(epochs, max(_FEWEST_EPOCHS, _MOST_VISITS // max(rows, 1)))
    replicas = 1 if config.adapters else REPLICAS
    return config.with_defaults(hidden=width, epochs=epochs, learning_rate=rate, replicas=replicas)


def plain_network(settings: RunConfig, inputs: Any, classes: int) -> nn.Module:
    """Return the network without masks: a ReLU layer over vectors; over images, two convolutions before it.

    Over token numbers it is the encoder itself, which gets its adapters with the masks.

    What the convolutions learn of a row leaks into its flipped subnetwork; the audit of a run says how much.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        if inputs.kind == "tokens":
            return inputs.network(classes)
        convolutions = _convolutions(inputs.channels) if inputs.kind == "pixels" else []
        before = _inputs_of_masked(inputs)
        _check_size(settings.hidden, before + classes, copies=1)
        masked = [nn.Linear(before, settings.hidden), nn.ReLU(), nn.Linear(settings.hidden, classes, bias=False)]
        return nn.Sequential(*convolutions, *masked)


def masked_network(settings: RunConfig, inputs: Inputs, classes: int) -> nn.Module:
    """Return the same network with masks: on the ReLU layer before the outputs, or in adapters."""
    if inputs.kind != "tokens":
        # Weights and gradients of every replica, and the two means of AdamW.
        _check_size(settings.hidden, _inputs_of_masked(inputs) + classes, copies=4 * settings.replicas)
    plain = plain_network(settings, inputs, classes)
    if inputs.kind == "tokens":
        return wrap(plain, adapters=settings.adapters, keep=settings.keep, seed=settings.seed)
    assert isinstance(plain, nn.Sequential)
    site = str(len(plain) - 2)
    with torch.random.fork_rng(devices=[]):  # weights of further replicas are drawn
        torch.manual_seed(settings.seed + 1)
        return wrap(plain, at=[site], keep=settings.keep, seed=settings.seed, replicas=settings.replicas)


def _inputs_of_masked(inputs: Any) -> int:
    """Return the number of inputs of the masked layer: those of the network, or what its convolutions make of them."""
    return 64 * 16 if inputs.kind == "pixels" else inputs.width


def _check_size(hidden: int, weights: int, *, copies: int) -> None:
    """Raise where a masked layer of so many units, with so many weights each, needs more memory than is free."""
    size = 4 * hidden * weights * copies
    check_memory(
        size,
        f"a masked layer of {hidden:,} units, with {weights:,} weights each, needs",
        cure="Give a smaller --hidden or fewer --replicas.",
    )


def _convolutions(channels: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
    ]
