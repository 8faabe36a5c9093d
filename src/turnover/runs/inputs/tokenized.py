"""Texts as token numbers, for an encoder in which adapters learn."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from turnover.integrations import TextClassifier, TextEncoder, text_classifier, token_numbers

from .encoded import the_same_encoder


@dataclass(frozen=True)
class TokenInputs:
    """Turns texts into the token numbers of an encoder.

    Attributes:
        where: folder or hub name of the encoder.
        digest: of its weights.
    """

    where: str
    digest: str
    kind = "tokens"

    @classmethod
    def fit(cls, encoder: TextEncoder) -> "TokenInputs":
        """Return the inputs of an encoder."""
        return cls(encoder.where, encoder.digest())

    @cached_property
    def encoder(self) -> TextEncoder:
        """Open the encoder; refuse another than the one that was trained on."""
        return the_same_encoder(self.where, self.digest)

    def network(self, classes: int) -> TextClassifier:
        """Return the encoder with a new output layer."""
        return text_classifier(TextEncoder(self.where), classes)

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """Return token numbers [texts, tokens]."""
        return token_numbers(self.encoder, texts)

    def state(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        return {"where": self.where, "digest": self.digest}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "TokenInputs":
        """Return what `state` described."""
        return cls(state["where"], state["digest"])
