"""Language models: a corpus as training instances, and a feed-forward model (Bengio et al. 2000).

Instances are positions, sequences of one length, or whole documents. Which of them is an instance decides what
influence is measured of: a position with its context, for a feed-forward model; a stretch of text, or everything that
came from one document, for a causal transformer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset, default_collate

from turnover.batches import IGNORED
from turnover.errors import BatchError, TrainingError
from turnover.layers import Dim

END = "<eos>"
_UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Vocabulary:
    """Words and their numbers; a line ends with a word of its own."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, lines: Iterable[str], *, most: int | None = None) -> "Vocabulary":
        """Return the words of a text, the most frequent first, at most so many beside end of line and unknown word."""
        counts = Counter(word for line in lines for word in line.split())
        for word in (END, _UNKNOWN):
            counts.pop(word, None)
        return cls((END, _UNKNOWN, *(word for word, _ in counts.most_common(most))))

    def encode(self, lines: Iterable[str]) -> Tensor:
        """Return the numbers of all words [tokens], with an end after every line."""
        numbers = {word: number for number, word in enumerate(self.words)}
        return torch.tensor(
            [numbers.get(word, 1) for line in lines for word in (*line.split(), END)], dtype=torch.int64
        )

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self.words)


class ContextWindows(Dataset[tuple[Tensor, Tensor]]):
    """Every position of a corpus [tokens] as an instance: the words before it and the word there. Nothing is copied.

    The first `context` positions have too few words before them and are skipped.
    """

    def __init__(self, tokens: Tensor, *, context: int) -> None:
        _check(tokens, context)
        self.tokens, self.context = tokens, context

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self.tokens) - self.context

    def __getitem__(self, position: int) -> tuple[Tensor, Tensor]:
        """Return the context and the word of a position."""
        if not -len(self) <= position < len(self):
            raise IndexError(f"position {position} of {len(self)}")
        start = position % len(self)
        return self.tokens[start : start + self.context], self.tokens[start + self.context]


class Sequences(Dataset[dict[str, Tensor]]):
    """Stretches of one length as instances: `input_ids`, and as `labels` the word after each.

    The labels are shifted already, because scores compare outputs and labels position by position; do not hand them to
    a Hugging Face model itself, which would shift them again. What remains at the end of the corpus is skipped.
    """

    def __init__(self, tokens: Tensor, *, length: int) -> None:
        _check(tokens, length)
        self.tokens, self.length = tokens, length

    def __len__(self) -> int:
        """Return the number of sequences."""
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        """Return one sequence and the words after its words."""
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
        """Return the number of rows."""
        return len(self._rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        """Return one row."""
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


class FeedForwardLM(nn.Module):
    """Scores of the next word [batch, words] from context words [batch, context].

    With `language_model_sites` nothing in it leaks, unless it is tied or has an output bias: the embedding's columns
    are masked before the hidden layer sees them. Tied weights (hidden = embedding) are far fewer, but what an instance
    teaches the output reaches the embedding that its flipped network reads. Size and dropout are the paper's.
    """

    def __init__(
        self,
        words: int,
        *,
        context: int = 4,
        embedding: int = 650,
        hidden: int = 650,
        dropout: float = 0.3,
        tied: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if words < 2 or context < 1:
            raise TrainingError(f"words={words!r}, context={context!r}: give two words or more and a context from 1.")
        if tied and hidden != embedding:
            raise TrainingError(
                f"a tied output layer reads the embedding, but embedding={embedding} and hidden={hidden} differ. Give "
                "both the same size, or tied=False."
            )
        self.embedding = nn.Embedding(words, embedding)
        self.embedding_dropout = nn.Dropout(dropout)
        self.flatten = nn.Flatten()
        self.hidden = nn.Linear(context * embedding, hidden)
        self.activation = nn.Tanh()
        self.hidden_dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, words, bias=bias)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        if tied:
            self.output.weight = self.embedding.weight

    def forward(self, context: Tensor) -> Tensor:
        """Return the scores of all words as the next."""
        vectors = self.flatten(self.embedding_dropout(self.embedding(context)))
        return self.output(self.hidden_dropout(self.activation(self.hidden(vectors))))


def language_model_sites() -> dict[str, Dim]:
    """Return `at` for `turnover.wrap`: columns of the embedding, alike for all context words, and the hidden layer."""
    return {"embedding": "features", "activation": "features"}


def _check(tokens: Tensor, length: int) -> None:
    if length < 1:
        raise BatchError(f"context and length count tokens; {length!r} was given. Give 1 or more.")
    if not isinstance(tokens, Tensor) or tokens.dim() != 1 or tokens.is_floating_point():
        shape = f"{tokens.dtype} {list(tokens.shape)}" if isinstance(tokens, Tensor) else type(tokens).__name__
        raise BatchError(f"a corpus is one row of whole numbers [tokens]; {shape} was given: Vocabulary.encode(lines).")
    if len(tokens) <= length:
        raise BatchError(f"the corpus has {len(tokens)} tokens, too few for {length} and the one after. Give more.")
