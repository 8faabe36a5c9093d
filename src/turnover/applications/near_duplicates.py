"""Rows that are the same or nearly the same: by their text, or by features that are given.

Duplicates matter twice: a row whose twin was trained is not truly held out, and a twin on both sides of a split makes a
test set easier than the world.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from turnover.errors import ApplicationError
from turnover.scores import load_pandas

from ._results import Result
from ._similarity import ALL_PAIRS, Components, join_near_features, join_near_texts, normalized
from .examples import Examples

if TYPE_CHECKING:
    import pandas

# Pixels and cells of different rows are alike by nature: only what is practically the same counts.
_SAME_FEATURES = 0.999
# Numbers of near-duplicates agree within this share of their standard deviation.
_NEAR_NUMBERS = 0.5
_SHOWN_OF_A_GROUP = 4


@dataclass(frozen=True)
class Duplicates:
    """Groups of rows that are the same or nearly the same.

    Attributes:
        groups: places of the rows of each group of two or more, in order.
        exact: for each group, whether all its rows are the same after normalization.
        group_of: the group of every row [n]; −1: it has no duplicate.
        threshold: similarity from which rows count as nearly the same.
        hashed: whether the pairs to compare were found by hashing, which may miss some; else all were compared.
    """

    groups: tuple[tuple[int, ...], ...]
    exact: tuple[bool, ...]
    group_of: NDArray[np.int64]
    threshold: float
    hashed: bool = False

    def __len__(self) -> int:
        """Return the number of rows that were looked at."""
        return len(self.group_of)

    def twins(self, place: int) -> tuple[int, ...]:
        """Return the places of the other rows of a row's group."""
        group = int(self.group_of[place])
        return () if group < 0 else tuple(other for other in self.groups[group] if other != place)

    def as_dict(self) -> dict[str, Any]:
        """Return the groups as JSON could hold them."""
        groups = [{"rows": list(rows), "exact": exact} for rows, exact in self._groups()]
        return {"threshold": self.threshold, "hashed": self.hashed, "rows": len(self), "groups": groups}

    def table(self) -> "pandas.DataFrame":
        """Return one line per row that has a duplicate: group, row and whether the whole group is exactly the same."""
        rows = [(number, row, self.exact[number]) for number, group in enumerate(self.groups) for row in group]
        return load_pandas().DataFrame(rows, columns=["group", "row", "exact"])

    def among(self, rows: NDArray[np.int64]) -> "Duplicates":
        """Return the duplicates among some of the rows, counted from 0 in their order."""
        places = {int(row): place for place, row in enumerate(rows)}
        kept = [(tuple(places[row] for row in group if row in places), exact) for group, exact in self._groups()]
        kept = sorted((tuple(sorted(group)), exact) for group, exact in kept if len(group) > 1)
        group_of = np.full(len(rows), -1, np.int64)
        for number, (group, _) in enumerate(kept):
            group_of[list(group)] = number
        return Duplicates(
            tuple(group for group, _ in kept), tuple(exact for _, exact in kept), group_of, self.threshold, self.hashed
        )

    def _groups(self) -> "zip[tuple[tuple[int, ...], bool]]":
        return zip(self.groups, self.exact, strict=True)


@dataclass(frozen=True)
class DuplicateGroup(Result):
    """Rows that are nearly the same.

    Attributes:
        rows: numbers of the first of them.
        exact: all are the same, but for case, punctuation and spaces.
        across_splits: at least one is for training and one for validation or test, so that the network is tested on
            what it was trained on.
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
        threshold: as of `Duplicates`.
        hashed: as of `Duplicates`.
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
    they are is the cosine of their sets of character 4-grams. Candidates are found by hashing (MinHash), which misses a
    pair of similarity 0.9 about once in a hundred thousand and one of 0.8 once in a hundred. Features are compared by
    cosine: all pairs of up to 20,000 rows; of more, candidates are found by random hyperplanes, so that time grows with
    the rows (`hashed` says so); of pairs at a threshold of 0.9 about one in fifty is missed, at 0.999 none, and at low
    thresholds, or where many rows are alike, more. Groups are joined through common members, so that the ends of a long
    chain may be less alike than the threshold says. Memory grows with the rows, never with the pairs.

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
        normal = [normalized(text) for text in texts]
        first, same = (
            np.unique(np.array(normal, object), return_index=True, return_inverse=True)[1:] if normal else ([], [])
        )
        components = Components(len(first))
        if threshold < 1:
            join_near_texts([normal[place] for place in first], threshold, components)
    else:
        rows = _rows(features)
        first, same = _same_rows(rows)
        components = Components(len(first))
        if threshold < 1:
            join_near_features(rows[first], threshold, components)
    hashed = threshold < 1 and (texts is not None or len(first) > ALL_PAIRS)
    return _duplicates(np.asarray(same, np.int64).reshape(-1), components, threshold, hashed)


def example_duplicates(examples: Examples, features: Tensor) -> Duplicates:
    """Return which rows are nearly the same, of all splits.

    Args:
        examples: the rows; texts are compared as texts.
        features: inputs of all rows, [rows, ...]; images and tables are compared by them.
    """
    if examples.kind == "text":
        return near_duplicates(list(examples.values))
    return near_duplicates(features=features.flatten(1), threshold=_SAME_FEATURES)


def find_near_duplicates(examples: Examples, duplicates: Duplicates, *, most: int = 100) -> NearDuplicates:
    """Return near-duplicates as a finding: its counts, and at most so many groups."""
    deviation = None if examples.scale is None else examples.scale.deviation
    groups = [
        DuplicateGroup(
            rows=rows[:_SHOWN_OF_A_GROUP],
            size=len(rows),
            exact=exact,
            labels_agree=labels_agree(examples.labels[list(rows)], deviation),
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


def labels_agree(labels: NDArray[Any], deviation: float | None) -> bool:
    """Tell whether labels are the same class, or numbers that differ by less than half their standard deviation.

    Args:
        labels: of some rows.
        deviation: of the numbers of all rows; None: labels are classes.
    """
    return bool((labels == labels[0]).all() if deviation is None else np.ptp(labels) <= _NEAR_NUMBERS * deviation)


def _rows(features: Any) -> NDArray[np.float32]:
    rows = np.asarray(features.detach().cpu() if isinstance(features, Tensor) else features, np.float32)
    if rows.ndim < 2:
        raise ApplicationError(f"features have shape {list(rows.shape)}. Give [rows, features].")
    rows = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))
    if not np.isfinite(rows).all():
        raise ApplicationError("features hold numbers that are not finite. Replace or leave out those rows.")
    return np.ascontiguousarray(rows)


def _same_rows(rows: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of every set of equal rows, and each row's set."""
    as_bytes = (rows + 0.0).view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0] if rows.size else rows[:, :0]
    _, first, same = np.unique(as_bytes, return_index=True, return_inverse=True)
    return first, same.reshape(-1)


def _duplicates(same: NDArray[np.int64], components: Components, threshold: float, hashed: bool) -> Duplicates:
    """Return the groups of rows: `same` is each row's set of equal rows, components join these sets."""
    whole = components.of_each[same] if len(same) else same
    order = np.argsort(whole, kind="stable")
    ends = np.flatnonzero(np.diff(whole[order])) + 1
    groups = [tuple(part.tolist()) for part in np.split(order, ends) if len(part) > 1]
    groups.sort()
    group_of = np.full(len(same), -1, np.int64)
    for number, group in enumerate(groups):
        group_of[list(group)] = number
    exact = tuple(len(set(same[list(group)].tolist())) == 1 for group in groups)
    return Duplicates(tuple(groups), exact, group_of, threshold, hashed)
