"""Reviews of electronic goods (Multi-Domain Sentiment), written as SST-2 is: in small letters, tokens apart."""

import html
import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from turnover.applications import near_duplicates

from .folder import data_file, read_tsv
from .sst2 import Sentences

_SOURCE = (
    "The Multi-Domain Sentiment data set is at https://www.cs.jhu.edu/~mdredze/datasets/sentiment/ (unprocessed; "
    "electronics, positive.review and negative.review). Wanted is one file, a header and then "
    "label<TAB>unique_id<TAB>text, label 1 for positive, a review a line."
)

# In this order: an opening quote is known by what stands before it, an ellipsis must not be cut into full stops.
_STEPS = [
    (re.compile(r'(^|[\s([{<])"'), r"\1 `` "),
    (re.compile(r'"'), " '' "),
    (re.compile(r"(^|[\s([{<])'(?=\w)(?!(?:s|m|d|ll|re|ve|em|n|til|cause)\b)"), r"\1 ` "),
    (re.compile(r"(?<!\.)\.\.+(?!\.)"), " ... "),
    (re.compile(r"--+"), " -- "),
    (re.compile(r"([?!]+|\$+|[;@#%&(){}\[\]<>])"), r" \1 "),
    (re.compile(r"(?<!\d)([,:])|([,:])(?!\d)"), r" \1\2 "),
    # A full stop ends a sentence, but for that of an abbreviation (u.s.).
    (re.compile(r"(?<![\s.])(?<!\.\w)\.(?=\s|$|')"), " . "),
    (re.compile(r"(?<=[a-z]{2})\.(?=[a-z]{3})"), " . "),
    (re.compile(r"\b(can)not\b"), r"\1 not"),
    (re.compile(r"(?<=\w)n't\b"), " n't"),
    (re.compile(r"(?<=\w)'(s|m|d|ll|re|ve)\b"), r" '\1"),
    (re.compile(r"(?<=\w)'(?=\s|$|[.,;:?!])"), " ' "),
]


def load_electronics(*, rows: int | None = None) -> Sentences:
    """Return reviews of electronics: 2,000, as many positive as negative, some of them more than once."""
    found = read_tsv(data_file("electronics/electronics.tsv", source=_SOURCE))
    labels = np.array([int(row["label"]) for row in found], np.int64)
    places = np.arange(len(found))
    if rows is not None:
        halves = [np.flatnonzero(labels == label)[: rows // 2] for label in (0, 1)]
        places = np.sort(np.concatenate(halves))
    return Sentences([tokenized(found[place]["text"]) for place in places], labels[places])


def tokenized(text: str) -> str:
    """Return a text as SST-2 would have it: Penn Treebank tokens in small letters, round brackets as they are.

    Example:
        >>> tokenized("It's great, but I can't use it (yet)...")
        "it 's great , but i ca n't use it ( yet ) ..."
    """
    # Some reviews hold signs as HTML writes them.
    text = html.unescape(text).lower().translate({0x2019: "'", 0x2018: "'", 0x201C: '"', 0x201D: '"'})
    for pattern, replacement in _STEPS:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())


def split_reviews(reviews: Sentences, *, validation: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the places of validation reviews, as many of both labels, and of the others, for testing.

    Equal and nearly equal texts are on one side.

    Example:
        >>> some = Sentences(["a", "b", "a", "c", "d", "e"], np.array([0, 1, 0, 1, 0, 1]))
        >>> first, other = split_reviews(some, validation=2, seed=0)
        >>> len(first), len(other), bool({0, 2} <= set(first.tolist()) or {0, 2} <= set(other.tolist()))
        (2, 4, True)
    """
    groups = _groups(tuple(reviews.texts))
    still_needed = np.array([validation // 2, validation // 2])
    chosen: list[int] = []
    for number in np.random.default_rng(seed).permutation(len(groups)):
        labels = np.bincount(reviews.labels[groups[number]], minlength=2)
        if (labels <= still_needed).all():
            chosen += groups[number]
            still_needed = still_needed - labels
    rest = np.setdiff1d(np.arange(len(reviews)), chosen)
    return np.sort(np.array(chosen, np.int64)), rest


@lru_cache(maxsize=1)  # every seed splits the same reviews
def _groups(texts: tuple[str, ...]) -> list[list[int]]:
    """Return the places of all texts, those that are nearly the same together."""
    repeated = near_duplicates(texts)
    alone = np.flatnonzero(repeated.group_of < 0)
    return [*map(list, repeated.groups), *([int(place)] for place in alone)]
