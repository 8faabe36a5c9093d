"""The paper's language model (Bengio et al. 2000): its vocabulary, its network, and where masks go in it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from turnover.errors import TrainingError
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
        return len(self.words)


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
    return {"embedding": "features", "activation": "features"}
