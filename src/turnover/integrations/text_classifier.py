"""A pretrained encoder with an output layer, over texts that were cut into tokens beforehand."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .text_encoder import TextEncoder


class TextClassifier(nn.Module):
    """Scores of the classes [texts, classes] from token numbers [texts, tokens], by the mean of the last states.

    Args:
        encoder: a model of the transformers library.
        classes: how many.
        padding: the token number that fills up short texts.
    """

    def __init__(self, encoder: Any, classes: int, *, padding: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(encoder.config.hidden_size, classes, bias=False)
        self.padding = padding

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the scores of the classes."""
        longest = int((tokens != self.padding).sum(1).max())
        tokens = tokens[:, : max(1, longest)]
        real = (tokens != self.padding).long()
        states = self.encoder(input_ids=tokens, attention_mask=real).last_hidden_state
        weights = real.unsqueeze(2).to(states.dtype)
        return self.output((states * weights).sum(1) / weights.sum(1).clamp(min=1))


def text_classifier(encoder: TextEncoder, classes: int) -> TextClassifier:
    """Return an encoder with a new output layer, its own dropout off: rows differ by masks alone."""
    model = encoder.model
    for part in model.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return TextClassifier(model, classes, padding=int(encoder.tokenizer.pad_token_id))


def token_numbers(encoder: TextEncoder, texts: Sequence[str]) -> Tensor:
    """Return texts as token numbers [texts, tokens], filled up at the right to the longest."""
    rows = encoder.tokenizer(list(texts), truncation=True, max_length=encoder.most_tokens, add_special_tokens=True)
    found = torch.full((len(texts), max(map(len, rows["input_ids"]), default=1)), int(encoder.tokenizer.pad_token_id))
    for place, numbers in enumerate(rows["input_ids"]):
        found[place, : len(numbers)] = torch.tensor(numbers)
    return found
