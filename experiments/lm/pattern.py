"""Is self-influence that of rare words and names? Rank correlation with frequency, and names at equal frequency."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnover.evaluation import Bootstrap, drawn, interval_of, spearman

from .corpus import Corpus

STRETCH = 100
"""Words of a stretch of text: what is drawn anew together, since words near each other are not independent."""

RARE = 5
"""Words that are at most so often in the training text are called rare."""

Floats = NDArray[np.float64]


def with_frequency(scores: Floats, frequencies: NDArray[np.int64], *, draws: int) -> dict[str, float]:
    """Return Spearman's correlation of scores with log frequency, and its 95 % interval over stretches of text."""
    logs = np.log(frequencies.astype(np.float64))
    stretches = np.array_split(np.arange(len(scores)), max(2, len(scores) // STRETCH))

    def draw(rng: np.random.Generator) -> float:
        rows = np.concatenate([stretches[place] for place in drawn(rng, len(stretches))])
        return float(spearman(scores[rows], logs[rows]))

    interval = interval_of(draw, Bootstrap(draws=draws))
    return {"spearman": float(spearman(scores, logs)), "low": interval.low, "high": interval.high}


def by_frequency(scores: Floats, corpus: Corpus) -> list[dict[str, Any]]:
    """Return mean scores of names and of other words by how often the word is in the text, in powers of two.

    A name is a word with a capital in the middle of a sentence; whether it stands after a full stop or at the start of
    a line cannot be told from the word, so that such positions are left out.
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
    stretches = np.array_split(np.arange(len(scores)), max(2, len(scores) // STRETCH))

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

    def draw(rng: np.random.Generator) -> float:
        return difference(np.concatenate([stretches[place] for place in drawn(rng, len(stretches))]))

    interval = interval_of(draw, Bootstrap(draws=draws))
    return {"difference": difference(np.arange(len(scores))), "low": interval.low, "high": interval.high}


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
