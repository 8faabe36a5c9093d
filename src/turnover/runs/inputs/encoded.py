"""Texts as numbers by a pretrained encoder that stays frozen."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from turnover.errors import RunError
from turnover.integrations import TextEncoder


@dataclass(frozen=True)
class EncodedInputs:
    """Turns texts into the features of an encoder, standardized by the training texts.

    Attributes:
        where: folder or hub name of the encoder.
        digest: of its weights: another encoder would give other numbers.
        mean: of each feature.
        spread: of each feature.
    """

    where: str
    digest: str
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    kind = "encoder"

    @classmethod
    def fit(cls, encoder: TextEncoder, features: Tensor) -> "EncodedInputs":
        """Return what suits the features of training texts."""
        mean, spread = features.mean(0), features.std(0).clamp(min=1e-6)
        return cls(encoder.where, encoder.digest(), tuple(mean.tolist()), tuple(spread.tolist()))

    @property
    def width(self) -> int:
        """Return how many numbers a text becomes."""
        return len(self.mean)

    @cached_property
    def encoder(self) -> TextEncoder:
        """Open the encoder; refuse another than the one that was trained on."""
        return the_same_encoder(self.where, self.digest)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Return float32 [texts, width]."""
        return self.standardized(self.encoder.features(list(texts), progress=False))

    def standardized(self, features: Tensor) -> Tensor:
        """Return features of the encoder as the masked layer takes them."""
        return (features - torch.tensor(self.mean)) / torch.tensor(self.spread)

    def state(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {"where": self.where, "digest": self.digest, "mean": list(self.mean), "spread": list(self.spread)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "EncodedInputs":
        """Return what `state` described."""
        return cls(state["where"], state["digest"], tuple(state["mean"]), tuple(state["spread"]))


def the_same_encoder(where: str, digest: str) -> TextEncoder:
    """Return an encoder; refuse another than the one that a run was trained on.

    Args:
        where: folder or hub name.
        digest: of its weights when the run was trained.
    """
    encoder = TextEncoder(where)
    if encoder.digest() != digest:
        raise RunError(
            f"the encoder {where!r} is not the one this run was trained on: its weights differ. Put the former one "
            "back, or run again."
        )
    return encoder
