"""Which rows train, validate and test: classes in proportion, copies and groups on one side; which rows are copies."""

import unicodedata
from collections.abc import Hashable, Iterable
from hashlib import blake2b

import numpy as np

from turnover.errors import DataFileError

from .config import RunConfig
from .table import SPLITS, Rows

_TRAIN = 0


def split_rows(rows: Rows, config: RunConfig) -> np.ndarray:
    """Return the split of every row, int8 [rows]: 0 train, 1 validation, 2 test.

    Every class, or band of numbers, is split in the same proportion as far as that goes, and has training rows. Rows
    that repeat each other and rows of one group stay on one side. Where a separate file gave the split, it holds. With
    few rows, validation and test get one of each class as long as that takes no more than a fifth.
    """
    splits = rows.splits.copy()
    free = np.flatnonzero(splits < 0)
    shares = {1: config.validation, 2: config.test}
    open_splits = [split for split, share in shares.items() if share > 0 and not (splits == split).any()]
    if not len(free) or not open_splits:
        splits[free] = _TRAIN
        if not open_splits or not (splits == _TRAIN).any():
            return _checked(splits, rows)
        # Separate files without one for validation: the training rows are split further.
        free = np.flatnonzero(splits == _TRAIN)
    strata, names = rows.strata
    labels = strata[free]
    pieces = _inseparable(rows)[free]
    targets = _targets(labels, len(names), [shares[split] for split in open_splits], config.seed)
    _need_enough(rows, len(free), len(np.unique(pieces)), len(np.unique(labels)), open_splits)
    numbers = _assigned(labels, pieces, targets, config.seed)
    splits[free] = np.array([_TRAIN, *open_splits], np.int8)[numbers]
    return _checked(splits, rows)


def draw_rows(labels: np.ndarray, most: int, *, seed: int) -> np.ndarray:
    """Return places of at most so many rows, in order: drawn at random, classes in proportion, none of them lost."""
    if most >= len(labels):
        return np.arange(len(labels))
    classes, counts = np.unique(labels, return_counts=True)
    rng = np.random.default_rng(seed)
    sizes = _in_proportion(counts, most, rng, least=int(most >= len(classes)), spare=0)
    drawn = [
        rng.choice(np.flatnonzero(labels == number), size, replace=False)
        for number, size in zip(classes, sizes, strict=True)
    ]
    return np.sort(np.concatenate(drawn))


def copies_of(rows: Rows) -> np.ndarray:
    """Return a number for every row, the same for rows that repeat each other, from 0 in order of appearance.

    Rows of a table of which most repeat another one are no copies: there are just few combinations of values.
    """
    keys: Iterable[Hashable]
    if rows.kind == "text":
        keys = (_hash(normalized(text).encode("utf-8")) for text in rows.values)
    elif rows.kind == "image":
        keys = (_hash(np.ascontiguousarray(image).data) for image in rows.values)
    else:
        cells = ([_comparable(cell) for cell in column.to_pylist()] for column in rows.cells.columns)
        keys = zip(*cells, strict=True)
    numbers: dict[Hashable, int] = {}
    copies = np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64, len(rows))
    return np.arange(len(rows)) if rows.kind == "table" and len(numbers) < len(rows) / 2 else copies


def _hash(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=8).digest()


def _comparable(cell: float | str | None) -> Hashable:
    return normalized(cell) if isinstance(cell, str) else cell


def normalized(text: str) -> str:
    """Return a text without what does not make it another one: case, spaces and forms of the same letter."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def _inseparable(rows: Rows) -> np.ndarray:
    """Return a number for every row, the same for rows that must stay together by copies, groups or both."""
    copies = copies_of(rows) if rows.copies is None else rows.copies
    if not rows.groups:
        return copies
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, groups = np.unique(np.array(rows.groups, dtype=object).astype(str), return_inverse=True)
    size = int(copies.max()) + 1 + int(groups.max()) + 1
    links = coo_array((np.ones(len(rows), np.int8), (copies, groups + copies.max() + 1)), shape=(size, size))
    return connected_components(links, directed=False)[1][copies]


def _targets(labels: np.ndarray, classes: int, shares: list[float], seed: int) -> np.ndarray:
    """Return how many rows of each class every split should have [1 + shares, classes], training first."""
    counts = np.bincount(labels, minlength=classes)
    rng = np.random.default_rng([seed, 1])
    few = min(int((counts > 0).sum()), len(labels) // 5)
    left, parts = counts.copy(), []
    for share in shares:
        total = max(round(share * len(labels)), few, 1)
        part = np.minimum(_in_proportion(counts, total, rng, least=0, spare=1), np.maximum(left - 1, 0))
        parts.append(part)
        left = left - part
    return np.stack([left, *parts])


def _in_proportion(counts: np.ndarray, total: int, rng: np.random.Generator, *, least: int, spare: int) -> np.ndarray:
    """Return so many of each class that they are `total` together, by largest remainders, ties at random.

    Each class gets at least `least` and leaves at least `spare`.
    """
    most = np.maximum(counts - spare, 0)
    exact = counts * (total / max(counts.sum(), 1))
    shares = np.clip(np.floor(exact).astype(np.int64), np.minimum(least, most), most)
    while shares.sum() != total:
        step = 1 if shares.sum() < total else -1
        open_ = shares < most if step > 0 else shares > np.minimum(least, most)
        if not open_.any():
            break
        order = np.lexsort((rng.random(len(counts)), -step * (exact - shares)))
        order = order[open_[order]][: abs(total - int(shares.sum()))]
        shares[order] += step
    return shares


def _assigned(labels: np.ndarray, pieces: np.ndarray, targets: np.ndarray, seed: int) -> np.ndarray:
    """Return a row of `targets` for every row: large pieces first, to where most are missing, then single rows."""
    numbers, pieces = np.unique(pieces, return_inverse=True)
    sizes = np.bincount(pieces, minlength=len(numbers))
    members = _members(labels, pieces) if (sizes > 1).any() else []
    tie = np.random.default_rng([seed, 2]).permutation(len(numbers))
    missing, scale = targets.astype(float), np.maximum(targets, 1)
    chosen = np.zeros(len(numbers), np.int64)
    order = np.lexsort((tie, -sizes))
    for piece in order[sizes[order] > 1]:
        kinds, counts = np.unique(members[piece], return_counts=True)
        # How much nearer a split comes to what it should have: squared distances, relative to the target.
        gains = (counts * (2 * missing[:, kinds] - counts) / scale[:, kinds]).sum(1)
        chosen[piece] = gains.argmax()
        missing[chosen[piece], kinds] -= counts
    single = np.flatnonzero(sizes[pieces] == 1)
    single = single[np.argsort(tie[pieces[single]])]
    for label in range(targets.shape[1]):
        rows = single[labels[single] == label]
        for split in range(1, len(targets)):
            taken, rows = np.split(rows, [min(max(int(missing[split, label]), 0), len(rows))])
            chosen[pieces[taken]] = split
    _repair(chosen, pieces, labels, targets)
    return chosen[pieces]


def _repair(chosen: np.ndarray, pieces: np.ndarray, labels: np.ndarray, targets: np.ndarray) -> None:
    """Move whole pieces so that every class has training rows and, if possible, no split is empty."""
    classes = targets.shape[1]
    trained = np.bincount(labels[chosen[pieces] == _TRAIN], minlength=classes)
    empty = [split for split in range(1, len(targets)) if not (chosen == split).any()]
    lost = np.flatnonzero((targets.sum(0) > 0) & (trained == 0))
    if not empty and not len(lost):
        return
    members = _members(labels, pieces)
    by_size = np.argsort(np.bincount(pieces), kind="stable")
    for label in lost:
        if not trained[label]:
            piece = next(piece for piece in by_size if chosen[piece] != _TRAIN and label in members[piece])
            chosen[piece] = _TRAIN
            trained = trained + np.bincount(members[piece], minlength=classes)
    for split in range(1, len(targets)):
        if (chosen == split).any():
            continue
        for piece in by_size[chosen[by_size] == _TRAIN]:
            count = np.bincount(members[piece], minlength=classes)
            if ((trained - count)[count > 0] > 0).all():
                chosen[piece], trained = split, trained - count
                break


def _members(labels: np.ndarray, pieces: np.ndarray) -> list[np.ndarray]:
    """Return the labels of the rows of every piece."""
    ends = np.cumsum(np.bincount(pieces))
    return np.split(labels[np.argsort(pieces, kind="stable")], ends[:-1])


def _need_enough(rows: Rows, free: int, pieces: int, classes: int, open_splits: list[int]) -> None:
    """Raise where rows cannot be split whatever the shares."""
    asked = " and ".join(SPLITS[split] for split in (_TRAIN, *open_splits))
    if free < classes + len(open_splits):
        what = f"{free} rows" if rows.numeric else f"{free} rows of {classes} classes"
        each = "one to train" if rows.numeric else "one of each class to train"
        raise DataFileError(
            f"{rows.name!r} has {what}: {asked} need {classes + len(open_splits)} at least, {each} and one in each "
            "other split. Give more rows, or --test 0 to do without a test."
        )
    if pieces < 1 + len(open_splits):
        what = "groups and copies" if rows.groups else "copies"
        raise DataFileError(
            f"the {free} rows of {rows.name!r} are {pieces} different ones: {what} stay on one side of a split, and "
            f"{asked} need {1 + len(open_splits)}. Give more rows that differ"
            f"{', or omit --group.' if rows.groups else '.'}"
        )


def _checked(splits: np.ndarray, rows: Rows) -> np.ndarray:
    """Reject splits without training rows of a class, or without validation rows."""
    strata, names = rows.strata
    train = np.bincount(strata[splits == _TRAIN], minlength=len(names))
    lost = [] if rows.numeric else [name for name, count in zip(names, train, strict=True) if not count]
    if lost:
        raise DataFileError(
            f"no training row of {rows.name!r} has the label {', '.join(map(repr, lost[:5]))}. Give training rows of "
            "every class, or remove the others."
        )
    if not (splits == 1).any():
        raise DataFileError(
            f"no row of {rows.name!r} is left for validation: copies and groups stay on one side, and every class "
            "needs training rows. Give more rows that differ, or a file: --validation-data FILE."
        )
    return splits
