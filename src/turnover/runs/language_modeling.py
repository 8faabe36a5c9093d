"""Learning the next word of a text: every position is an instance, its context and its word."""

import copy
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from turnover.applications import Examples, TrainingText
from turnover.errors import RunError
from turnover.influence import Curvature, EstimatorOption
from turnover.scores import Scores
from turnover.wrapping import wrap

from .config import RunConfig, Watch
from .folder import RunFolder
from .inputs import Inputs
from .language_models import END, FeedForwardLM, language_model_sites
from .reading import Corpus, read_corpus
from .rows import SPLITS, Rows
from .stages import Sizes
from .training import loss_and_accuracy

_DEFAULTS = {"hidden": 128, "epochs": 3, "learning_rate": 1e-3, "replicas": 3}


class LanguageModeling:
    """The task of learning the next word from those before it. Several models are trained one by one."""

    name: ClassVar[str] = "lm"
    score_names: ClassVar[tuple[str, ...]] = ("self_influence",)
    # Masks of three models tell what a position does to its own word, but not what it does to all others. A temperature
    # that is looked for costs as much as all the rest, outputs being many, and finds the same places.
    estimator: ClassVar[EstimatorOption] = Curvature(temperature=1.0)
    estimator_of_means: ClassVar[EstimatorOption] = estimator
    recorded: ClassVar[bool] = False
    kind = "lm"
    references = 0
    loss_weights = None
    scale = None

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:
        self._config, self._folder = config, folder
        self.settings = config.with_defaults(**_DEFAULTS)

    def read(self, watch: Watch) -> tuple[str, ...]:
        """Read the text and return notes on it."""
        self._config.check_kind(self.kind)
        self.corpus = read_corpus(self._config)
        return self.corpus.notes

    def keep(self) -> None:
        """Write the text into the folder."""
        self.corpus.save(self._folder)

    def prepare(self, watch: Watch) -> None:
        """Do nothing: words have their numbers already."""

    @property
    def rows(self) -> Rows:
        """Raise: a text has no rows."""
        raise RunError("a run of a language model has a text and no labeled rows. Its text is run.task.corpus.")

    @property
    def examples(self) -> Examples:
        """Raise: a text has no rows."""
        raise RunError("a run of a language model has a text and no labeled rows. Its text is run.text.")

    @cached_property
    def text(self) -> TrainingText:
        """Return the training text."""
        words = (self.words[number] for number in self.corpus.tokens("train").tolist())
        return TrainingText(tuple("\n" if word == END else word for word in words), self._config.context)

    @property
    def preparation(self) -> Inputs:
        """Raise: words need no preparation."""
        raise RunError("a run of a language model has word numbers as inputs. Make them from texts: run.inputs(texts).")

    @cached_property
    def corpus(self) -> Corpus:
        """Return the text."""
        return Corpus.open(self._folder)

    @property
    def words(self) -> tuple[str, ...]:
        """Return the vocabulary."""
        return self.corpus.vocabulary.words

    @property
    def label_names(self) -> tuple[str, ...]:
        """Return the vocabulary: what is predicted is a word."""
        return self.words

    @cached_property
    def _windows(self) -> list[Tensor]:
        """Return the context and the word of every position [positions, context + 1], for each split."""
        length = self._config.context + 1
        texts = [self.corpus.tokens(split) for split in SPLITS]
        return [text.unfold(0, length, 1) if len(text) >= length else text.new_empty(0, length) for text in texts]

    @cached_property
    def splits(self) -> np.ndarray:
        """Return the split of each position, as index into SPLITS."""
        return np.repeat(np.arange(len(SPLITS), dtype=np.int8), [len(windows) for windows in self._windows])

    @cached_property
    def ids(self) -> np.ndarray:
        """Return the number of each position, training positions first."""
        return np.arange(len(self.splits))

    @cached_property
    def x(self) -> Tensor:
        """Return the context of every position [positions, context]."""
        return torch.cat([windows[:, :-1] for windows in self._windows])

    @cached_property
    def y(self) -> Tensor:
        """Return the word of every position."""
        return torch.cat([windows[:, -1] for windows in self._windows])

    def inputs(self, values: Any) -> Tensor:
        """Return the last words of texts as contexts [texts, context]."""
        contexts = []
        for text in values:
            numbers, _ = self.tokens(text)
            if len(numbers) < self._config.context:
                raise RunError(
                    f"the model reads {self._config.context} words before the next one; {text!r} has {len(numbers)}. "
                    "Give more words."
                )
            contexts.append(numbers[-self._config.context :])
        return torch.stack(contexts)

    def tokens(self, text: str) -> tuple[Tensor, tuple[str, ...]]:
        """Return the word numbers of a text, and its words, separated from punctuation as those that were trained."""
        words = self.corpus.words_of(text)
        return self.corpus.vocabulary.encode([" ".join(words)])[:-1], words

    def unknown_words(self, text: str) -> tuple[str, ...]:
        """Return the words of a text that the model does not know, each once."""
        return tuple(dict.fromkeys(word for word in self.corpus.words_of(text) if word not in self.words))

    @property
    def model_folders(self) -> list[Path]:
        """Return where each of the trained models is kept."""
        return [self._folder.model / str(number) for number in range(self.settings.replicas)]

    def seed_of(self, number: int) -> int:
        """Return the seed of a model's weights, masks and batches."""
        return self._config.seed * 1000 + number

    @property
    def sizes(self) -> Sizes:
        """Return what decides how long the run takes."""
        settings, train = self.settings, int((self.splits == SPLITS.index("train")).sum())
        products = settings.hidden * (settings.context * settings.hidden + len(self.words))
        return Sizes(
            rows=train * settings.replicas,
            products=products,
            units=2 * settings.hidden,
            epochs=settings.epochs,
            batch_size=settings.batch_size,
        )

    def plain_network(self) -> nn.Module:
        """Return the untrained model without masks."""
        width = self.settings.hidden
        return FeedForwardLM(len(self.words), context=self._config.context, embedding=width, hidden=width)

    def masked_network(self, number: int) -> nn.Module:
        """Return an untrained model with masks of its own."""
        sites = language_model_sites()
        return wrap(self.plain_network(), at=sites, keep=self._config.keep, seed=self.seed_of(number))

    def asked_model(self, model: nn.Module) -> nn.Module:
        """Return the model with a frozen output layer, which curvature leaves out.

        The curvature of as many outputs as there are words would be a matrix of words by words. What a position taught
        the output layer shows in the layers below, too: the gradient that reaches them is made of its rows.
        """
        asked = copy.deepcopy(model)
        asked.get_submodule("output").requires_grad_(False)
        return asked

    def results(self, models: Sequence[nn.Module], self_influence: Scores) -> dict[str, float]:
        """Return perplexities, and the rank correlation of self-influence with the frequency of words."""
        from scipy.stats import rankdata

        results: dict[str, float] = {}
        for number, split in enumerate(SPLITS):
            places = np.flatnonzero(self.splits == number)
            if split != "train" and len(places):
                losses = [loss_and_accuracy(model, self.x[places], self.y[places])[0] for model in models]
                results[f"{split}_perplexity"] = float(np.exp(np.mean(losses)))
        results["positive_share"] = float((self_influence.values > 0).mean())
        results["frequency_correlation"] = float(
            np.corrcoef(rankdata(self_influence.values), rankdata(self.frequency))[0, 1]
        )
        return results

    @cached_property
    def frequency(self) -> np.ndarray:
        """Return how often the word of each training position occurs in the training text."""
        y = self._windows[0][:, -1]
        return torch.bincount(y, minlength=len(self.words))[y].numpy()

    def next_words(self, probabilities: np.ndarray, *, k: int = 5) -> list[tuple[str, float]]:
        """Return the most likely words of a prediction, with their probabilities."""
        places = np.argsort(-probabilities, kind="stable")[:k]
        return [(self.words[place], float(probabilities[place])) for place in places]
