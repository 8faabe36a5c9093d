"""The paper's open question: what does training without positions of high self-influence, or with less of them, do?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .corpus import Corpus
from .pattern import RARE
from .training import word_losses

Floats = NDArray[np.float64]

VARIANTS = ("removed", "random", "matched", "weighted")
"""Left out: the positions of highest self-influence; as many at random; as many at random whose words are as frequent.
Weighted: those of highest self-influence count less."""


def weights_for(
    variant: str, scores: Floats, frequencies: NDArray[np.int64], *, share: float, weight: float, seed: int
) -> Tensor:
    """Return a weight for every position.

    Args:
        variant: one of VARIANTS.
        scores: self-influence of the positions.
        frequencies: of their words.
        share: of the positions that are left out or weighted down.
        weight: of those weighted down.
        seed: of what is drawn at random.
    """
    highest = np.argsort(-scores, kind="stable")[: round(share * len(scores))]
    rng = np.random.default_rng(seed)
    choose: dict[str, Callable[[], NDArray[np.int64]]] = {
        "removed": lambda: highest,
        "weighted": lambda: highest,
        "random": lambda: rng.choice(len(scores), len(highest), replace=False),
        "matched": lambda: _matched(highest, frequencies, rng),
    }
    found = torch.ones(len(scores))
    found[torch.from_numpy(choose[variant]())] = weight if variant == "weighted" else 0.0
    return found


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
