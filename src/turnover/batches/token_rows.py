"""Texts of a causal language model as instances: stretches of one length, or documents, as token numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import (
    Dataset,
    default_collate,  # pyright: ignore[reportUnknownVariableType]
)

from turnover.errors import BatchError

from .batch import IGNORED


class Sequences(Dataset[dict[str, Tensor]]):
    """Stretches of one length as instances: `input_ids`, and as `labels` the word after each.

    The labels are shifted already, because scores compare outputs and labels position by position; do not hand them to
    a Hugging Face model itself, which would shift them again. What remains at the end of the corpus is skipped.
    """

    def __init__(self, tokens: Tensor, *, length: int) -> None:
        given: Any = tokens
        if length < 1:
            raise BatchError(f"length must be an integer >= 1, got {length!r}.")
        if not isinstance(given, Tensor) or given.dim() != 1 or given.is_floating_point():
            shape = f"{given.dtype} {list(given.shape)}" if hasattr(given, "shape") else type(given).__name__
            raise BatchError(
                f"a corpus is one row of whole numbers [tokens]; {shape} was given. Give torch.tensor(numbers)."
            )
        if len(given) <= length:
            raise BatchError(f"the corpus has {len(given)} tokens, too few for {length} and the one after. Give more.")
        self.tokens, self.length = tokens, length

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        if not -len(self) <= place < len(self):
            raise IndexError(f"sequence {place} of {len(self)}")
        start = place % len(self) * self.length
        return {
            "input_ids": self.tokens[start : start + self.length],
            "labels": self.tokens[start + 1 : start + self.length + 1],
        }


class Documents(Dataset[dict[str, Any]]):
    """Documents as instances: `input_ids`, shifted `labels`, and `document`, the number of the document.

    A document that is longer than `length` becomes several rows. To make all of them one instance, give its number as
    the group: `turnover.with_instance_ids(data, groups="document")`, and leave `document` out of the model's inputs;
    `padded` does. Documents of fewer than two tokens have nothing to predict and are skipped.
    """

    def __init__(self, documents: Sequence[Sequence[int] | Tensor], *, length: int) -> None:
        if length < 1:
            raise BatchError(f"length={length!r}; give how many tokens a row may have, from 1.")
        self._rows: list[dict[str, Any]] = []
        for number, document in enumerate(documents):
            tokens = torch.as_tensor(document, dtype=torch.int64)
            for start in range(0, len(tokens) - 1, length):
                labels = tokens[start + 1 : start + length + 1]
                inputs = tokens[start : start + len(labels)]
                self._rows.append({"input_ids": inputs, "labels": labels, "document": number})
        if not self._rows:
            raise BatchError("no document has two tokens or more, so there is no next word to predict.")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self._rows[place]


def padded(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows of different length as one batch, for DataLoader(collate_fn=padded).

    Inputs are filled up with 0 and masked by `attention_mask`, labels with the target that does not count; `document`
    is omitted, since no model knows it. An instance id stays.
    """
    inputs = [row["input_ids"] for row in rows]
    batch: dict[str, Any] = {
        "input_ids": pad_sequence(inputs, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(one) for one in inputs], batch_first=True),
        "labels": pad_sequence([row["labels"] for row in rows], batch_first=True, padding_value=IGNORED),
    }
    others = [name for name in rows[0] if name not in (*batch, "document")]
    return batch | {name: default_collate([row[name] for row in rows]) for name in others}
