"""A finished run of a language model: every position of a text is an instance, its context and its word."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import turnover
from turnover.applications import ColoredText, colored_text
from turnover.errors import RunError

from .config import RunConfig
from .corpus_kept import open_corpus
from .feed_forward_lm import FeedForwardLM
from .finished import FinishedRun
from .kept_scores import keep_scores, open_scores
from .reading.corpus import Corpus
from .rows import Split
from .token_data import END

_WIDTH, MODELS = 128, 3
# Words that are shown together.
PASSAGE = 80


class LmRun(FinishedRun):
    """A finished run of a language model, opened from its folder. Everything is loaded when it is needed first.

    Args:
        folder: of the run.
    """

    kind = "lm"

    @cached_property
    def corpus(self) -> Corpus:
        """Return the text."""
        return open_corpus(self.folder.path)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the vocabulary."""
        return self.corpus.vocabulary.words

    def data(self, split: Split) -> tuple[Tensor, Tensor]:
        """Return the context [positions, context] and the word of every position of a split."""
        windows = self.corpus.tokens(split).unfold(0, self.config.context + 1, 1)
        return windows[:, :-1], windows[:, -1]

    @cached_property
    def train_data(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return contexts, words and ids of the training positions; the id is the position's number."""
        x, y = self.data("train")
        return x, y, torch.arange(len(y))

    @cached_property
    def models(self) -> list[nn.Module]:
        """Return the trained models, with masks of different seeds."""
        found = []
        for number in range(self.config.replicas or MODELS):
            plain = language_model(self.config, len(self.words))
            found.append(self.load_model(self.folder.model / str(number), plain))
        return found

    @cached_property
    def influence(self) -> turnover.Influence:
        """Return the engine."""
        return turnover.Influence(self.models, train=self.train_data)

    @cached_property
    def self_influence(self) -> turnover.Scores:
        """Return what each training position does to its own prediction, averaged over the models."""
        file = self.folder.scores / "self.npz"
        if not file.exists():
            keep_scores(file, self.influence.self_influence(progress=False))
        with self.reading(file):
            return open_scores(file)

    @cached_property
    def frequency(self) -> np.ndarray:
        """Return how often the word of each training position occurs."""
        y = self.train_data[1]
        return torch.bincount(y, minlength=len(self.words))[y].numpy()

    def passage(self, start: int, length: int = PASSAGE) -> ColoredText:
        """Return words of the training text, colored by their self-influence.

        Shades are those of the whole text, so that passages can be compared.

        Args:
            start: number of the first word.
            length: how many words.
        """
        context = self.config.context
        numbers = self.corpus.tokens("train")[start : start + length].tolist()
        values = np.full(len(numbers), np.nan)
        known = range(max(start, context), start + len(numbers))
        values[[place - start for place in known]] = self.self_influence.values[[place - context for place in known]]
        shown = ["↵\n" if self.words[number] == END else self.words[number] for number in numbers]
        low, high = np.percentile(self.self_influence.values, (70, 95))
        return colored_text(shown, values, limits=(float(low), float(high)), unit="self-influence")

    def most_memorized(self, k: int = 5, *, length: int = PASSAGE) -> list[int]:
        """Return where the passages begin of which most was learned by heart, none of them overlapping."""
        values = np.concatenate([np.zeros(self.config.context), self.self_influence.values])
        length = min(length, len(values))
        sums = np.convolve(values, np.ones(length), mode="valid")
        found: list[int] = []
        for start in np.argsort(-sums).tolist():
            if all(abs(start - other) >= length for other in found):
                found.append(int(start))
            if len(found) == k:
                break
        return found

    def context_of(self, text: str) -> Tensor:
        """Return the last words of a text as a context [1, context].

        Raises:
            RunError: it has fewer words than the model's context.
        """
        numbers = self.corpus.vocabulary.encode([text])[:-1]
        if len(numbers) < self.config.context:
            raise RunError(
                f"the model reads {self.config.context} words before the next one; {text!r} has {len(numbers)}. Give "
                "more words."
            )
        return numbers[None, -self.config.context :]

    @torch.no_grad()
    def next_words(self, text: str, *, k: int = 5) -> list[tuple[str, float]]:
        """Return the likeliest words after a text, with their probabilities."""
        x = self.context_of(text)
        probabilities = torch.stack([model(x).softmax(1)[0] for model in self.models]).mean(0)
        values, places = probabilities.topk(min(k, len(self.words)))
        return [(self.words[place], value) for place, value in zip(places.tolist(), values.tolist(), strict=True)]

    def around(self, position: int, *, before: int = 8, after: int = 3) -> dict[str, Any]:
        """Return the words around a training position, for people to read."""
        place = position + self.config.context
        numbers = self.corpus.tokens("train")
        said = [self.words[number] for number in numbers[max(0, place - before) : place + 1 + after].tolist()]
        at = min(place, before)
        return {"before": " ".join(said[:at]), "word": said[at], "after": " ".join(said[at + 1 :])}


def language_model(config: RunConfig, words: int) -> FeedForwardLM:
    """Return the untrained model without masks."""
    width = config.hidden or _WIDTH
    return FeedForwardLM(words, context=config.context, embedding=width, hidden=width)
