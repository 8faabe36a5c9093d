"""Rare words and names, and trainings without positions of high self-influence."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.evaluation import Bootstrap, interval_of, spearman
from turnover_bench.experiments.findings import standard_error

from .training import Corpus, word_losses

Floats = NDArray[np.float64]

STRETCH = 100
"""Words of a stretch of text: what is drawn anew together, since words near each other are not independent."""

RARE = 5
"""Words that are at most so often in the training text are called rare."""


def with_frequency(scores: Floats, frequencies: NDArray[np.int64], *, draws: int) -> dict[str, float]:
    """Return Spearman's correlation of scores with log frequency, and its 95 % interval over stretches of text."""
    logs = np.log(frequencies.astype(np.float64))
    return _over_stretches("spearman", lambda rows: float(spearman(scores[rows], logs[rows])), len(scores), draws)


def _over_stretches(
    name: str, statistic: Callable[[NDArray[np.int64]], float], positions: int, draws: int
) -> dict[str, float]:
    """Return a statistic of all positions, and its 95 % interval by bootstrap over stretches of text."""
    stretches = np.array_split(np.arange(positions), max(2, positions // STRETCH))

    def draw(rng: np.random.Generator) -> float:
        return statistic(
            np.concatenate([stretches[place] for place in rng.integers(0, len(stretches), len(stretches))])
        )

    interval = interval_of(draw, Bootstrap(draws=draws))
    return {name: statistic(np.arange(positions)), "low": interval.low, "high": interval.high}


def by_frequency(scores: Floats, corpus: Corpus) -> list[dict[str, Any]]:
    """Return mean scores of names and of other words by how often the word is in the text, in powers of two.

    A name is a word with a capital in the middle of a sentence; whether it stands after a full stop or at the start of
    a line cannot be told from the word, so that such positions are skipped.
    """
    names, starts = named(corpus), starting(corpus)
    frequencies = corpus.frequencies
    bins = np.floor(np.log2(frequencies)).astype(int)
    found = []
    for number in range(bins.max() + 1):
        here = (bins == number) & ~starts & ordinary(corpus)
        parts = {"names": here & names, "others": here & ~names}
        found.append(
            {
                "from": 2**number,
                "to": 2 ** (number + 1) - 1,
                **{
                    name: {
                        "positions": int(some.sum()),
                        "words": len(np.unique(corpus.train.words.numpy()[some])),
                        "mean": float(scores[some].mean()) if some.any() else None,
                    }
                    for name, some in parts.items()
                },
            }
        )
    return found


def rare_names(scores: Floats, corpus: Corpus, *, draws: int) -> dict[str, float]:
    """Return by how much rare names score above other words that are as rare, with its interval over stretches."""
    some = (corpus.frequencies <= RARE) & ~starting(corpus) & ordinary(corpus)
    names, frequencies = named(corpus), corpus.frequencies

    def difference(rows: NDArray[np.int64]) -> float:
        """Return the mean over frequencies, each weighted by its names."""
        total = weight = 0.0
        for frequency in range(1, RARE + 1):
            here = rows[some[rows] & (frequencies[rows] == frequency)]
            mine, other = here[names[here]], here[~names[here]]
            if len(mine) and len(other):
                total += len(mine) * (scores[mine].mean() - scores[other].mean())
                weight += len(mine)
        return total / weight if weight else float("nan")

    return _over_stretches("difference", difference, len(scores), draws)


def named(corpus: Corpus) -> NDArray[np.bool_]:
    """Return which positions hold a word that begins with a capital."""
    capital = np.array([word[:1].isupper() for word in corpus.vocabulary.words])
    return capital[corpus.train.words.numpy()]


def starting(corpus: Corpus) -> NDArray[np.bool_]:
    """Return which positions begin a line or sentence, where every word has a capital."""
    ends = np.array([word in ("<eos>", ".", "?", "!", "=", '"', ":") for word in corpus.vocabulary.words])
    return ends[corpus.train.contexts[:, -1].numpy()]


def ordinary(corpus: Corpus) -> NDArray[np.bool_]:
    """Return which positions hold a word of letters, neither a sign nor the unknown word."""
    letters = np.array([word[:1].isalpha() for word in corpus.vocabulary.words])
    return letters[corpus.train.words.numpy()]


VARIANTS = ("removed", "random", "matched", "weighted")
"""Left out: the positions of highest self-influence; as many at random; as many at random whose words are as frequent.
Weighted: those of highest self-influence count less."""


def weights_for(
    variant: str, scores: Floats, frequencies: NDArray[np.int64], *, share: float, weight: float, seed: int
) -> Tensor:
    """Return a weight for every position, where a share of them is removed or weighted down as in one of VARIANTS."""
    highest = np.argsort(-scores, kind="stable")[: round(share * len(scores))]
    rng = np.random.default_rng(seed)
    chosen = highest
    if variant == "random":
        chosen = rng.choice(len(scores), len(highest), replace=False)
    elif variant == "matched":
        chosen = _matched(highest, frequencies, rng)
    weights = torch.ones(len(scores))
    weights[torch.from_numpy(chosen)] = weight if variant == "weighted" else 0.0
    return weights


def judged(model: nn.Module, corpus: Corpus) -> dict[str, float]:
    """Return test perplexity: of all words, of those in the vocabulary, and of rare and frequent ones among them."""
    losses, words = word_losses(model, corpus.test), corpus.test.words
    counts = torch.from_numpy(corpus.counts)[words]
    known = words != 1  # Vocabulary: the unknown word is number 1
    parts: dict[str, Any] = {
        "all": torch.ones_like(known),
        "known": known,
        "rare": known & (counts <= RARE),
        "frequent": known & (counts > RARE),
    }
    return {name: float(losses[some].mean().exp()) for name, some in parts.items()}


def _matched(highest: NDArray[np.int64], frequencies: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return as many positions in every class of frequency as the highest have there, drawn from all of the class."""
    # Powers of two, so that classes of frequent words have positions to draw from.
    classes = np.floor(np.log2(frequencies)).astype(int)
    return np.concatenate(
        [
            rng.choice(np.flatnonzero(classes == number), int((classes[highest] == number).sum()), replace=False)
            for number in np.unique(classes[highest])
        ]
    )


Runs = Sequence[Mapping[str, float]]


def change(some: Runs, others: Runs, what: str) -> list[float]:
    """Return by how many per cent perplexity is higher, for every seed.

    Example:
        >>> change([{"all": 110.0}], [{"all": 100.0}], "all")
        [10.0]
    """
    return [round(100 * (one[what] / other[what] - 1), 6) for one, other in zip(some, others, strict=True)]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error; of one value the error is 0.

    Example:
        >>> mean_and_error([1.0, 3.0])
        (2.0, 1.0)
    """
    return mean(values), standard_error(values) or 0.0


def verdict(values: Sequence[float]) -> str:
    """Return "higher", "lower", or "" where Student's 95 % interval of the mean includes 0 or there is one seed alone.

    Example:
        >>> verdict([2.0, 2.1, 1.9]), verdict([-1.0, 1.0, 0.5])
        ('higher', '')
    """
    from scipy.stats import t

    middle, error = mean_and_error(values)
    if len(values) < 2 or abs(middle) <= t.ppf(0.975, len(values) - 1) * error:
        return ""
    return "higher" if middle > 0 else "lower"
