"""Rows that are nearly the same, joined: texts by MinHash of character n-grams, features by their cosine.

Two texts agree in one minimum of hashed n-grams with the probability of their Jaccard similarity. Texts that agree in
all four minima of one of 24 bands are candidates, each checked by its true similarity, so that work grows with the rows
and not with their pairs. Features of up to 20,000 rows are compared pair by pair, a block at a time. Of more,
candidates are rows that lie on the same side of all random hyperplanes of one of 24 bands or more. A band has as many
hyperplanes as a pair at the threshold agrees in half of the time: two rows at an angle agree in one with the
probability 1 − angle / π (Charikar 2002). It has more where these would leave many rows together, each of them compared
with two others only; then there are more bands, so that a pair at the threshold agrees in one of them in 99 of 100
cases.
"""

import re
import unicodedata
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

_LENGTH, _BANDS, _MINIMA = 4, 24, 4
_AT_ONCE = 4096
_BLOCK = 2048
ALL_PAIRS = 20_000
"""Of more rows than this, features are not compared pair by pair."""

_MOST_PLANES = 62
_MOST_MISSED, _MOST_BANDS = 0.01, 256
_PRIME = np.uint64(0x9E3779B97F4A7C15)


class Components:
    """Connected parts of n things; pairs are added in bulk and never kept."""

    def __init__(self, count: int) -> None:
        self._least = np.arange(count)

    def join(self, one: NDArray[np.integer], other: NDArray[np.integer]) -> None:
        """Join pairs."""
        while True:
            a, b = self.of_each[one], self._least[other]
            apart = a != b
            if not apart.any():
                return
            one, other, a, b = one[apart], other[apart], a[apart], b[apart]
            np.minimum.at(self._least, np.maximum(a, b), np.minimum(a, b))

    @property
    def of_each(self) -> NDArray[np.int64]:
        """Return the least member of each one's part."""
        while True:
            further = self._least[self._least]
            if np.array_equal(further, self._least):
                return self._least
            self._least = further


def normalized(text: str) -> str:
    """Return a text without case, punctuation, encodings of accents and runs of spaces; signs only stay as they are."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = " ".join(re.sub(r"[\W_]+", " ", folded).split())
    return words or " ".join(folded.split())


def join_near_texts(texts: Sequence[str], threshold: float, components: Components) -> None:
    """Join texts, each once, whose sets of character n-grams have at least this cosine."""
    grams = [_grams(text) for text in texts]
    bands = np.concatenate(
        [_bands(grams[start : start + _AT_ONCE]) for start in range(0, len(grams), _AT_ONCE)] or [np.empty((0, _BANDS))]
    )
    for band in bands.T:
        one, other = _candidates(band)
        parts = components.of_each
        apart = parts[one] != parts[other]
        one, other = one[apart], other[apart]
        pairs = zip(one.tolist(), other.tolist(), strict=True)
        near = np.array([_cosine(grams[a], grams[b]) >= threshold for a, b in pairs], bool)
        components.join(one[near], other[near])


def join_near_features(rows: NDArray[np.float32], threshold: float, components: Components) -> None:
    """Join rows [n, d] whose cosine is at least the threshold; a row of zeros is like no other."""
    whole = torch.from_numpy(rows)
    norms = whole.norm(dim=1, keepdim=True)
    unit = whole / norms.clamp(min=1e-30)
    if len(unit) > ALL_PAIRS:
        _join_by_hyperplanes(unit, threshold, components)
        return
    for start in range(0, len(unit), _BLOCK):
        block = unit[start : start + _BLOCK]
        for other in range(start, len(unit), _BLOCK):
            near = block @ unit[other : other + _BLOCK].t() >= threshold
            if other == start:
                near = near.triu(1)
            one, two = (part.numpy() for part in near.nonzero(as_tuple=True))
            if len(one):
                components.join(one + start, two + other)


def _join_by_hyperplanes(unit: torch.Tensor, threshold: float, components: Components) -> None:
    """Join rows of length 1 whose cosine is at least the threshold, among candidates by random hyperplanes."""
    agreeing = 1 - np.arccos(threshold) / np.pi
    fewest = np.log2(len(unit)) + 1  # so that rows which are not alike seldom lie together
    planes = int(np.clip(max(np.log(0.5) / np.log(agreeing), fewest), 1, _MOST_PLANES))
    powers = 2 ** torch.arange(planes)
    bands = np.log(_MOST_MISSED) / np.log1p(-(agreeing**planes))
    for band in range(int(np.clip(bands, _BANDS, _MOST_BANDS))):
        normals = torch.randn(unit.shape[1], planes, generator=torch.Generator().manual_seed(band))
        sides = [((part @ normals > 0) * powers).sum(1) for part in unit.split(_AT_ONCE)]
        one, other = _candidates(torch.cat(sides).numpy().astype(np.uint64))
        parts = components.of_each
        apart = parts[one] != parts[other]
        one, other = one[apart], other[apart]
        for start in range(0, len(one), _AT_ONCE):
            first, second = one[start : start + _AT_ONCE], other[start : start + _AT_ONCE]
            near = ((unit[first] * unit[second]).sum(1) >= threshold).numpy()
            components.join(first[near], second[near])


def _candidates(band: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of texts with the same number: each with the one before it and with the first.

    That is linear also where all texts are alike; what it misses, another band finds.
    """
    order = np.argsort(band, kind="stable")
    again = np.flatnonzero(band[order][1:] == band[order][:-1]) + 1
    starts = np.arange(len(order))
    starts[again] = 0
    first = np.maximum.accumulate(starts)[again]
    return np.concatenate([order[again]] * 2), np.concatenate([order[again - 1], order[first]])


def _grams(text: str) -> NDArray[np.uint64]:
    """Return the hashed n-grams of a text, each once, sorted."""
    padded = f" {text} ".encode("utf-32-le", "surrogatepass")  # texts of unknown encoding may hold halves of signs
    codes = np.frombuffer(padded, np.uint32).astype(np.uint64)
    length = min(_LENGTH, len(codes))
    windows = np.lib.stride_tricks.sliding_window_view(codes, length)
    hashed = np.zeros(len(windows), np.uint64)
    with np.errstate(over="ignore"):
        for column in windows.T:
            hashed = _mixed(hashed ^ column)
    return np.unique(hashed)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return integers whose bits all depend on all bits of the given ones."""
    x = (x + _PRIME) * np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(32))


def _bands(grams: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return one number per text and band [texts, bands]; equal where all minima of the band are."""
    joined = np.concatenate(grams)
    starts = np.cumsum([0, *(len(part) for part in grams[:-1])])
    result = np.zeros((len(grams), _BANDS), np.uint64)
    with np.errstate(over="ignore"):
        for band in range(_BANDS):
            for minimum in range(_MINIMA):
                seed = np.uint64(band * _MINIMA + minimum + 1) * _PRIME
                least = np.minimum.reduceat(_mixed(joined ^ seed), starts)
                result[:, band] = _mixed(result[:, band] ^ least)
    return result


def _cosine(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> float:
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / np.sqrt(len(one) * len(other))
