"""The network of all variants: two hidden layers over digits' pixels, no output bias, so that nothing leaks."""

import warnings
from dataclasses import dataclass
from typing import Literal

from torch import nn

import turnover
from turnover.errors import TurnOverWarning
from turnover.layers import Mode


@dataclass(frozen=True)
class Variant:
    """One way to mask, train or ask.

    Attributes:
        title: for the page.
        masks: the kind of masks; None: none at all.
        mode: what masks act on.
        against: what the flipped network is compared with.
        short: trained for fewer epochs.
    """

    title: str
    masks: str | None = "counter"
    mode: Mode = "forward"
    against: Literal["keep", "full"] = "keep"
    short: bool = False


VARIANTS = {
    "base": Variant("as in the text: flipped against kept part"),
    "full_network": Variant("flipped part against the full network", against="full"),
    "backward": Variant("masks in the backward pass alone", mode="backward"),
    "mixout": Variant("mixout: masks on the difference from the start", mode="mixout"),
    "codebook": Variant("hash-composed masks", masks="codebook"),
    "volatile": Variant("volatile masks", masks="volatile"),
    "short": Variant("fewer epochs", short=True),
    "unmasked": Variant("no masks", masks=None),
    "unmasked_short": Variant("no masks, fewer epochs", masks=None, short=True),
}


def plain(hidden: int) -> nn.Sequential:
    """Return the network without masks."""
    return nn.Sequential(
        nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 10, bias=False)
    )


def network(hidden: int, variant: Variant, seed: int) -> nn.Module:
    """Return the network as a variant masks it."""
    if variant.masks is None:
        return plain(hidden)
    at = ["1", "3"] if variant.mode == "forward" else None  # the other modes mask whatever learns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TurnOverWarning)  # what leaks in a mode is part of what is measured
        return turnover.wrap(plain(hidden), at=at, mode=variant.mode, masks=variant.masks, seed=seed)
