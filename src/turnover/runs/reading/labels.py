"""Labels as class numbers, and refusing columns that are no labels."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from turnover.errors import DataFileError

MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-", "<na>")
"""What stands for a missing number."""

MOST_CLASSES = 1000
FEWEST_ROWS = 4
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?|[-+]?\.\d+")


def label_text(value: Any) -> str:
    """Return a label as text; "" where there is none.

    Example:
        >>> [label_text(value) for value in ("good ", 1, 1.0, True, None, float("nan"))]
        ['good', '1', '1', 'True', '', '']
    """
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(value)
    text = str(value).strip()
    return "" if text.lower() in ("nan", "<na>", "nat") else text


def number_labels(values: Iterable[Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return class numbers, -1 where a label is missing, and the names of the classes in their natural order.

    Args:
        values: strings, whole numbers or truth values, one a row.

    Example:
        >>> number_labels([10, 9, None, 10])
        (array([ 1,  0, -1,  1]), ('9', '10'))
    """
    texts = [label_text(value) for value in values]
    names = natural_order(set(texts) - {""})
    numbers = {name: number for number, name in enumerate(names)} | {"": -1}
    return np.array([numbers[text] for text in texts], np.int64), tuple(names)


def natural_order(names: Iterable[str]) -> list[str]:
    """Return names sorted as people would: numbers as numbers, letters without regard to case.

    Example:
        >>> natural_order(["b10", "b9", "A"])
        ['A', 'b9', 'b10']
    """
    return sorted(names, key=_natural_key)


def _natural_key(name: str) -> tuple[Any, ...]:
    if _NUMBER.fullmatch(name):
        return (0, float(name), (), name)
    parts = re.split(r"(\d+)", name.casefold())
    # Letters and numbers alternate, so that like is compared with like.
    return (1, 0.0, tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name)


def check_labels(labels: np.ndarray, names: Sequence[str], *, column: str, source: str) -> None:
    """Refuse labels that no classifier can learn.

    Args:
        labels: class numbers of the rows that have a label.
        names: of the classes.
        column: of the labels, for the message.
        source: the file, for the message.

    Raises:
        DataFileError: no row or too few, one class only, or too many classes to be a label.
    """
    where = f"column {column!r} of {source!r}"
    if not len(labels):
        raise DataFileError(
            f"no row of {source!r} has a label in column {column!r}. Name another column: --label NAME."
        )
    if len(labels) < FEWEST_ROWS:
        raise DataFileError(
            f"{source!r} has {_counted(len(labels), 'row')} with a label. A run needs at least {FEWEST_ROWS} rows of "
            "two classes, and hundreds to be worth looking at. Give a file with more rows."
        )
    if len(names) == 1:
        raise DataFileError(
            f"{where} has one class only, {names[0]!r}, in {_counted(len(labels), 'row')}. Give rows of two classes or "
            "more, or name another column: --label NAME."
        )
    example = f"such as {names[0]!r} and {names[-1]!r}"
    fractions = [name for name in names if _NUMBER.fullmatch(name) and not float(name).is_integer()]
    if len(names) > 20 and len(fractions) > len(names) / 2:
        raise DataFileError(
            f"{where} has {len(names):,} different numbers, {example}: is this the label? A run learns classes. Put "
            "the numbers into a few bands, or name another column: --label NAME."
        )
    if len(names) > MOST_CLASSES or len(names) == len(labels) or len(names) > max(20, len(labels) / 2):
        raise DataFileError(
            f"{where} has {len(names):,} different values in {_counted(len(labels), 'row')}, {example}: is this the "
            f"label? A class needs several rows, and {MOST_CLASSES:,} classes are the most. Name another column: "
            "--label NAME."
        )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
