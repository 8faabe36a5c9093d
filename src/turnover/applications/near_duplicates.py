"""Rows that are the same or nearly the same: by their text, or by features that are given.

Duplicates matter twice: a row whose twin was trained is not truly held out, and a twin on both sides of a split makes a
test set easier than the world.

Texts that agree in all four minima of hashed n-grams (MinHash) of one of 24 bands are candidates, each checked by its
true similarity, so that work grows with the rows and not with their pairs. Features of many rows are candidates where
they lie on the same side of all random hyperplanes of a band: rows at an angle agree in one with the probability
1 − angle / π (Charikar 2002). A band has as many hyperplanes as a pair at the threshold agrees in half of the time, or
more where these would leave many rows together; there are as many bands as find such a pair in 99 of 100 cases.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from turnover.errors import ApplicationError
from turnover.scores import load_pandas

from .examples import Examples
from .results import Result

if TYPE_CHECKING:
    import pandas

# Pixels and cells of different rows are alike by nature: only what is practically the same counts.
_SAME_FEATURES = 0.999
_SHOWN_OF_A_GROUP = 4
# Of more rows than this, features are not compared pair by pair.
_ALL_PAIRS = 20_000
_LENGTH, _BANDS, _MINIMA = 4, 24, 4
_AT_ONCE, _BLOCK = 4096, 2048
_MOST_PLANES, _MOST_MISSED, _MOST_BANDS = 62, 0.01, 256
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Duplicates:
    """Groups of rows that are the same or nearly the same.

    Attributes:
        exact: for each group, whether all its rows are the same after normalization.
        group_of: the group of every row [n]; −1: it has no duplicate.
        hashed: whether the pairs to compare were found by hashing, which may miss some; else all were compared.
    """

    groups: tuple[tuple[int, ...], ...]
    exact: tuple[bool, ...]
    group_of: NDArray[np.int64]
    threshold: float
    hashed: bool = False

    def __len__(self) -> int:
        return len(self.group_of)

    def twins(self, place: int) -> tuple[int, ...]:
        """Return the places of the other rows of a row's group."""
        group = int(self.group_of[place])
        return () if group < 0 else tuple(other for other in self.groups[group] if other != place)

    def as_dict(self) -> dict[str, Any]:
        """Return the groups as JSON could hold them."""
        groups = [{"rows": list(rows), "exact": exact} for rows, exact in zip(self.groups, self.exact, strict=True)]
        return {"threshold": self.threshold, "hashed": self.hashed, "rows": len(self), "groups": groups}

    def table(self) -> "pandas.DataFrame":
        """Return one line per row that has a duplicate: group, row and whether the whole group is exactly the same."""
        rows = [(number, row, self.exact[number]) for number, group in enumerate(self.groups) for row in group]
        return load_pandas().DataFrame(rows, columns=["group", "row", "exact"])

    def among(self, rows: NDArray[np.int64]) -> "Duplicates":
        """Return the duplicates among some of the rows, counted from 0 in their order."""
        places = {int(row): place for place, row in enumerate(rows)}
        kept = [
            (tuple(sorted(places[row] for row in group if row in places)), exact)
            for group, exact in zip(self.groups, self.exact, strict=True)
        ]
        groups = sorted((group, exact) for group, exact in kept if len(group) > 1)
        return Duplicates.of(groups, len(rows), self.threshold, hashed=self.hashed)

    @classmethod
    def of(
        cls, groups: Sequence[tuple[tuple[int, ...], bool]], rows: int, threshold: float, *, hashed: bool
    ) -> "Duplicates":
        """Return groups of so many rows, each with whether it is exact."""
        group_of = np.full(rows, -1, np.int64)
        for number, (group, _) in enumerate(groups):
            group_of[list(group)] = number
        return cls(
            tuple(group for group, _ in groups), tuple(exact for _, exact in groups), group_of, threshold, hashed
        )


@dataclass(frozen=True)
class DuplicateGroup(Result):
    """Rows that are nearly the same, of which `rows` are the first.

    Attributes:
        exact: all are the same, but for case, punctuation and spaces.
        across_splits: some are for training and some for validation or test, so that the test is easier than the world.
    """

    rows: tuple[int, ...]
    size: int
    exact: bool
    labels_agree: bool
    across_splits: bool


@dataclass(frozen=True)
class NearDuplicates(Result):
    """Groups of near-duplicates: first those whose labels disagree, then those across splits, then by size.

    Attributes:
        contradictions: groups whose labels disagree.
        across_splits: groups with training rows and validation or test rows.
        rows: how many rows were compared.
    """

    count: int
    contradictions: int
    across_splits: int
    items: tuple[DuplicateGroup, ...]
    rows: int = 0
    threshold: float = 1.0
    hashed: bool = False


def near_duplicates(
    texts: Sequence[str] | None = None, *, features: ArrayLike | Tensor | None = None, threshold: float = 0.9
) -> Duplicates:
    """Return groups of rows that are the same or nearly the same.

    Texts are the same if they are after Unicode normalization, without case, punctuation and runs of spaces; how near
    they are is the cosine of their sets of character 4-grams. Hashing misses a pair of similarity 0.9 about once in a
    hundred thousand and one of 0.8 once in a hundred. Features are compared by cosine: all pairs of up to 20,000 rows;
    of more, hashing (`hashed` says so) misses about one in fifty pairs at a threshold of 0.9, at 0.999 none, and at low
    thresholds, or where many rows are alike, more. Groups are joined through common members, so that the ends of a long
    chain may be less alike than the threshold says.

    Args:
        texts: the rows as texts; or
        features: [n, d], of images or tables; rows that are equal are exact duplicates.
        threshold: similarity from which rows count as nearly the same; 1: exact duplicates only.

    Raises:
        ApplicationError: neither or both of texts and features, or a threshold outside (0, 1].

    Example:
        >>> near_duplicates(["A fine film.", "It is not.", "a  fine film"]).groups
        ((0, 2),)
    """
    if (texts is None) == (features is None):
        raise ApplicationError("give either texts or features=, to compare rows by.")
    if not 0 < threshold <= 1:
        raise ApplicationError(f"threshold must be a similarity within (0, 1], such as 0.9, got {threshold!r}.")
    if texts is not None:
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ApplicationError("texts must be a list of strings, one per row.")
        things: Any = np.array([_normalized(text) for text in texts], object if texts else str)
    else:
        rows = _feature_rows(features)
        as_bytes = np.dtype((np.void, max(1, rows.shape[1]) * rows.itemsize))
        things = (rows + 0.0).view(as_bytes)[:, 0] if rows.size else rows.sum(1)
    _, first, same = np.unique(things, return_index=True, return_inverse=True)
    parts = _Parts(len(first))
    if threshold < 1 and texts is not None:
        _join_near_texts(things[first].tolist(), threshold, parts)
    elif threshold < 1:
        _join_near_features(_feature_rows(features)[first], threshold, parts)
    hashed = threshold < 1 and (texts is not None or len(first) > _ALL_PAIRS)
    whole = parts.of_each[same.reshape(-1)]
    order = np.argsort(whole, kind="stable")
    ends = np.flatnonzero(np.diff(whole[order])) + 1
    groups = sorted(tuple(part.tolist()) for part in np.split(order, ends) if len(part) > 1)
    exact = [len(np.unique(same[list(group)])) == 1 for group in groups]
    return Duplicates.of(list(zip(groups, exact, strict=True)), len(whole), threshold, hashed=hashed)


def example_duplicates(examples: Examples, features: Tensor) -> Duplicates:
    """Return which rows of all splits are nearly the same: texts as texts, others by their inputs."""
    if examples.kind == "text":
        return near_duplicates(list(examples.values))
    return near_duplicates(features=features.flatten(1), threshold=_SAME_FEATURES)


def find_near_duplicates(examples: Examples, duplicates: Duplicates, *, most: int = 100) -> NearDuplicates:
    """Return near-duplicates as a finding: its counts, and at most so many groups."""
    groups = [
        DuplicateGroup(
            rows=rows[:_SHOWN_OF_A_GROUP],
            size=len(rows),
            exact=exact,
            labels_agree=examples.labels.agree(rows),
            across_splits=len(set((examples.splits[list(rows)] == "train").tolist())) == 2,
        )
        for rows, exact in zip(duplicates.groups, duplicates.exact, strict=True)
    ]
    groups.sort(key=lambda group: (group.labels_agree, not group.across_splits, -group.size, group.rows))
    return NearDuplicates(
        count=len(groups),
        contradictions=sum(not group.labels_agree for group in groups),
        across_splits=sum(group.across_splits for group in groups),
        items=tuple(groups[:most]),
        rows=len(duplicates),
        threshold=duplicates.threshold,
        hashed=duplicates.hashed,
    )


def _feature_rows(features: Any) -> NDArray[np.float32]:
    rows = np.asarray(features.detach().cpu() if isinstance(features, Tensor) else features, np.float32)
    if rows.ndim < 2:
        raise ApplicationError(f"features have shape {list(rows.shape)}. Give [rows, features].")
    rows = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))
    if not np.isfinite(rows).all():
        raise ApplicationError("features hold numbers that are not finite. Replace or leave out those rows.")
    return np.ascontiguousarray(rows)


class _Parts:
    """Connected parts of n things; pairs are added in bulk and never kept."""

    def __init__(self, count: int) -> None:
        self._least = np.arange(count)

    def join(self, one: NDArray[np.integer], other: NDArray[np.integer]) -> None:
        while True:
            a, b = self.of_each[one], self._least[other]
            apart = a != b
            if not apart.any():
                return
            one, other, a, b = one[apart], other[apart], a[apart], b[apart]
            np.minimum.at(self._least, np.maximum(a, b), np.minimum(a, b))

    @property
    def of_each(self) -> NDArray[np.int64]:
        while True:
            further = self._least[self._least]
            if np.array_equal(further, self._least):
                return self._least
            self._least = further


def _normalized(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = " ".join(re.sub(r"[\W_]+", " ", folded).split())
    return words or " ".join(folded.split())


def _join_near_texts(texts: Sequence[str], threshold: float, parts: _Parts) -> None:
    """Join texts, each once, whose sets of character n-grams have at least this cosine."""
    grams = [_grams(text) for text in texts]
    bands = np.concatenate(
        [_bands(grams[start : start + _AT_ONCE]) for start in range(0, len(grams), _AT_ONCE)] or [np.empty((0, _BANDS))]
    )
    for band in bands.T:
        one, other = _candidates(band, parts)
        pairs = [(grams[a], grams[b]) for a, b in zip(one, other, strict=True)]
        shared = [len(np.intersect1d(a, b, assume_unique=True)) for a, b in pairs]
        near = np.array(shared) >= threshold * np.array([np.sqrt(len(a) * len(b)) for a, b in pairs])
        parts.join(one[near], other[near])


def _join_near_features(rows: NDArray[np.float32], threshold: float, parts: _Parts) -> None:
    """Join rows [n, d] whose cosine is at least the threshold; a row of zeros is like no other."""
    whole = torch.from_numpy(rows)
    norms = whole.norm(dim=1, keepdim=True)
    unit = whole / norms.clamp(min=1e-30)
    if len(unit) > _ALL_PAIRS:
        _join_by_hyperplanes(unit, threshold, parts)
        return
    for start in range(0, len(unit), _BLOCK):
        block = unit[start : start + _BLOCK]
        for other in range(start, len(unit), _BLOCK):
            near = block @ unit[other : other + _BLOCK].t() >= threshold
            if other == start:
                near = near.triu(1)
            one, two = (part.numpy() for part in near.nonzero(as_tuple=True))
            if len(one):
                parts.join(one + start, two + other)


def _join_by_hyperplanes(unit: torch.Tensor, threshold: float, parts: _Parts) -> None:
    """Join rows of length 1 whose cosine is at least the threshold, among candidates by random hyperplanes."""
    agreeing = 1 - np.arccos(threshold) / np.pi
    fewest = np.log2(len(unit)) + 1  # so that rows which are not alike seldom lie together
    planes = int(np.clip(max(np.log(0.5) / np.log(agreeing), fewest), 1, _MOST_PLANES))
    powers = 2 ** torch.arange(planes)
    bands = np.log(_MOST_MISSED) / np.log1p(-(agreeing**planes))
    for band in range(int(np.clip(bands, _BANDS, _MOST_BANDS))):
        normals = torch.randn(unit.shape[1], planes, generator=torch.Generator().manual_seed(band))
        sides = [((part @ normals > 0) * powers).sum(1) for part in unit.split(_AT_ONCE)]
        one, other = _candidates(torch.cat(sides).numpy().astype(np.uint64), parts)
        for start in range(0, len(one), _AT_ONCE):
            first, second = one[start : start + _AT_ONCE], other[start : start + _AT_ONCE]
            near = ((unit[first] * unit[second]).sum(1) >= threshold).numpy()
            parts.join(first[near], second[near])


def _candidates(band: NDArray[np.uint64], parts: _Parts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of rows with the same number that are not joined yet: each with the one before and with the first.

    That is linear also where all rows are alike; what it misses, another band finds.
    """
    order = np.argsort(band, kind="stable")
    again = np.flatnonzero(band[order][1:] == band[order][:-1]) + 1
    starts = np.arange(len(order))
    starts[again] = 0
    first = np.maximum.accumulate(starts)[again]
    one, other = np.concatenate([order[again]] * 2), np.concatenate([order[again - 1], order[first]])
    apart = parts.of_each[one] != parts.of_each[other]
    return one[apart], other[apart]


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
