"""WikiText-2 as positions: the paper's passage and as much text around it as is asked for."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from experiments.datasets.wikitext2 import load_wikitext2
from turnover.runs import Vocabulary

from .config import Config

PASSAGE = "The cast was :"
"""The line that is in the middle of the paper's figure."""


@dataclass(frozen=True)
class Positions:
    """Contexts and the words after them.

    Attributes:
        contexts: [positions, context].
        words: [positions].
    """

    contexts: Tensor
    words: Tensor

    @classmethod
    def of(cls, tokens: Tensor, context: int) -> "Positions":
        """Return all positions of a text that have a whole context."""
        return cls(tokens.unfold(0, context, 1)[:-1], tokens[context:])

    def __len__(self) -> int:
        """Return the number of positions."""
        return len(self.words)


@dataclass(frozen=True)
class Corpus:
    """The text.

    Attributes:
        vocabulary: words of the training text.
        train: its positions; a position's number is its instance id.
        valid: positions that choose the rate and let it fall.
        test: positions that are only reported.
        passage: the place of the paper's passage among the training positions.
        first: the training text's first word among all of WikiText-2.
    """

    vocabulary: Vocabulary
    train: Positions
    valid: Positions
    test: Positions
    passage: int
    first: int

    @property
    def counts(self) -> np.ndarray:
        """Return how often each word of the vocabulary is in the training positions."""
        return np.bincount(self.train.words.numpy(), minlength=len(self.vocabulary))

    @property
    def frequencies(self) -> np.ndarray:
        """Return, for every training position, how often its word is in the training text."""
        return self.counts[self.train.words.numpy()]


def load_corpus(config: Config) -> Corpus:
    """Return the text of the experiment.

    Raises:
        MissingDataError: WikiText-2 is not there.
    """
    lines = load_wikitext2("train")
    found = [number for number, line in enumerate(lines) if line.strip() == PASSAGE]
    before = sum(len(line.split()) + 1 for line in lines[: found[0]])
    everything = [word for line in lines for word in (*line.split(), "<eos>")]
    amount = len(everything) if config.tokens is None else config.tokens
    # The passage lies where the test of the pattern has text on both sides of it.
    first = max(0, min(before - amount // 2, len(everything) - amount))
    own = " ".join(everything[first : first + amount]).split(" <eos>")
    vocabulary = Vocabulary.of(own)
    context = config.network.context
    train = Positions.of(_encoded(vocabulary, everything[first : first + amount]), context)
    others = (
        Positions.of(vocabulary.encode(load_wikitext2(split))[: config.held_out], context)
        for split in ("valid", "test")
    )
    return Corpus(vocabulary, train, *others, passage=before - first - context, first=first)


def _encoded(vocabulary: Vocabulary, words: list[str]) -> Tensor:
    numbers = {word: number for number, word in enumerate(vocabulary.words)}
    return torch.tensor([numbers[word] for word in words])
