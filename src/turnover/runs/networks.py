"""Sensible networks of which every training row trains its own half.

All end in one masked layer and an output layer without bias: nothing of a row leaks past the masks there, and scores of
all pairs are one matrix product, so that questions are answered while a person waits.
"""

import torch
from torch import nn

import turnover

from .config import RunConfig
from .inputs.inputs import Inputs
from .inputs.pixels import PixelInputs
from .inputs.tokenized import TokenInputs

REPLICAS = 8
# By the kind of inputs; texts as pieces of words are wide themselves.
_WIDTHS = {"ngrams": 256, "encoder": 512, "columns": 512, "pixels": 512}


def plain_network(config: RunConfig, inputs: Inputs, classes: int) -> nn.Module:
    """Return the network without masks: a ReLU layer over vectors; over images, two convolutions before it.

    Over token numbers it is the encoder itself, which gets its adapters with the masks.

    What the convolutions learn of a row leaks into its flipped part; the audit of a run says how much.
    """
    if isinstance(inputs, TokenInputs):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            return inputs.network(classes)
    width = config.hidden or _WIDTHS[inputs.kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        if isinstance(inputs, PixelInputs):
            convolutions: list[nn.Module] = [
                nn.Conv2d(inputs.channels, 32, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 3, padding=1),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(4),
                nn.Flatten(),
            ]
            before = 64 * 16
        else:
            convolutions, before = [], inputs.width
        return nn.Sequential(*convolutions, nn.Linear(before, width), nn.ReLU(), nn.Linear(width, classes, bias=False))


def masked_network(config: RunConfig, inputs: Inputs, classes: int) -> nn.Module:
    """Return the same network with masks: on the ReLU layer before the outputs, or in adapters."""
    plain = plain_network(config, inputs, classes)
    if isinstance(inputs, TokenInputs):
        return turnover.wrap(plain, adapters=config.adapters, keep=config.keep, seed=config.seed)
    assert isinstance(plain, nn.Sequential)
    site = str(len(plain) - 2)
    with torch.random.fork_rng(devices=[]):  # weights of further replicas are drawn
        torch.manual_seed(config.seed + 1)
        return turnover.wrap(plain, at=[site], keep=config.keep, seed=config.seed, replicas=config.replicas or REPLICAS)
