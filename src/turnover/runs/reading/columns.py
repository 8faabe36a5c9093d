"""What the columns of a table are: text, label and group as asked for or by obvious names; labels as class numbers."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from turnover.errors import DataFileError
from turnover.runs.config import Kind, RunConfig
from turnover.tables import counted
from turnover.training import scale_problem

from .tables import Table, column_of

if TYPE_CHECKING:
    import pandas as pd

_TEXT_NAMES = (
    *("text", "sentence", "review", "content", "body", "message", "comment", "tweet", "document", "article"),
    *("utterance", "question", "query", "description", "title", "sms", "review_text", "reviewtext"),
)
_LABEL_NAMES = (
    *("label", "labels", "class", "target", "y", "category", "sentiment", "topic", "intent", "label_text"),
    *("class_name", "species", "outcome", "diagnosis", "coarse_label"),
)
MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-", "<na>")
"""What stands for a missing number."""

_BYTES = "bytes"
_NESTED = {
    **dict.fromkeys((bytes, bytearray, memoryview), _BYTES),
    **dict.fromkeys((list, tuple, set, np.ndarray), "lists"),
    dict: "objects",
}
_MOST_CLASSES = 1000
# Labels that are numbers: of so few different ones, each is a class. Among more, whole numbers are classes where each
# has as many rows as this, on average, or where they count without a gap.
_FEW_NUMBERS, _ROWS_OF_A_CLASS = 20, 5
_MOSTLY = 0.9
_UNSURE_FROM = 10
_FEWEST_ROWS = 4
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?|[-+]?\.\d+")
_MOST_NAMED = 5
_GUESSED_ROWS = 2000
_MOST_LISTED = 20


@dataclass(frozen=True)
class Chosen:
    """The columns of a run."""

    kind: Literal["text", "table"]
    label: str
    text: str | None
    group: str | None


def choose_columns(table: Table, config: RunConfig) -> Chosen:
    """Return which columns are what.

    Texts are learned from where a text column is given or obvious; with only a label given, a table is learned from,
    unless texts are all there is beside it.
    """
    for option, name in (("--text", config.text), ("--label", config.label), ("--group", config.group)):
        if name is not None:
            check_column(table, name, option=option)
    for name in config.columns:
        check_column(table, name, option="--columns")
    if config.text is not None and config.text == config.label:
        raise DataFileError(f"--text and --label are both {config.text!r}. Give two columns.")
    label = choose_label(table, config)
    text = config.text
    if text is None and config.task != "table" and not config.columns:
        text = _text_column(table, config, label)
    if text is None and config.task == "text":
        raise _cannot_tell(table, "--text", label)
    return Chosen("table" if text is None else "text", label, text, config.group)


def choose_label(table: Table, config: RunConfig) -> str:
    """Return the column of labels: as asked for, by an obvious name, or the only one beside the text."""
    columns = [str(name) for name in table.frame.columns]
    if config.label is not None:
        check_column(table, config.label, option="--label")
        return config.label
    label = _obvious(columns, _LABEL_NAMES, not_this=config.text) or _only_other(columns, config)
    if label is None:
        raise _cannot_tell(table, "--label")
    return label


def choose_text(table: Table, config: RunConfig) -> str:
    """Return the column of texts: as asked for, by an obvious name, or the only one that holds any."""
    if config.text is not None:
        check_column(table, config.text, option="--text")
        return config.text
    columns = [str(name) for name in table.frame.columns if name != config.label]
    texts = [name for name in columns if looks_like_text(column_of(table.frame, name))]
    text = _obvious(columns, _TEXT_NAMES) or (texts[0] if len(texts) == 1 else None)
    if text is None:
        raise _cannot_tell(table, "--text", config.label)
    return text


def check_column(table: Table, name: str, *, option: str) -> None:
    """Raise where a table lacks the column that an option asked for, and suggest the nearest."""
    columns = [str(column) for column in table.frame.columns]
    if name in columns:
        return
    near = nearest(name, columns)
    suggestion = f" Did you mean {option} {_quoted(near)}?" if near else ""
    raise DataFileError(
        f"{table.source!r} has no column {name!r}.{suggestion} Its columns are {_listed(columns)}."
        + (_maybe_no_header(columns) if not near else "")
    )


def check_cells(table: Table, name: str, *, option: str) -> None:
    """Raise where a column that is learned from holds lists or objects, which are neither numbers nor texts."""
    kinds = _kinds_of(column_of(table.frame, name)) - {_BYTES}
    if kinds:
        raise DataFileError(
            f"column {name!r} of {table.source!r} holds {' and '.join(sorted(kinds))}. A run learns from one number or "
            f"text per cell: write it so, or name another column: {option} NAME."
        )


def check_no_bytes(table: Table) -> None:
    """Raise where a table has a column of bytes, which are neither numbers nor texts."""
    for name in table.frame.columns:
        if _BYTES in _kinds_of(column_of(table.frame, name)):
            raise DataFileError(
                f"column {str(name)!r} of {table.source!r} holds {_BYTES}. Write them as texts or numbers, or "
                "remove the column."
            )


def _kinds_of(values: "pd.Series") -> set[str]:
    """Return what a column holds beside numbers, texts and dates."""
    if values.dtype != object:
        return set()
    return {_NESTED[kind] for kind in set(map(type, values.to_numpy())) & _NESTED.keys()}


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the name that was probably meant, if any."""
    by_lower = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    within = [other for lower, other in by_lower.items() if name and (name.lower() in lower or lower in name.lower())]
    return by_lower[close[0]] if close else next(iter(within), None)


def looks_like_text(values: "pd.Series", *, words: float = 3.0) -> bool:
    """Tell whether a column holds sentences, of so many words on average, rather than categories or numbers."""
    sample = values.dropna().head(_GUESSED_ROWS)
    if not len(sample) or not all(isinstance(value, str) for value in sample) or all(map(_is_number, sample)):
        return False
    return sum(len(value.split()) for value in sample) >= words * len(sample) and sample.nunique() > 0.3 * len(sample)


def label_text(value: Any) -> str:
    """Return a label as text; "" where there is none."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(value)
    text = str(value).strip()
    return "" if text.lower() in ("nan", "<na>", "nat") else text


def number_labels(values: Iterable[Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return class numbers, -1 where a label is missing, and the names of the classes in their natural order."""
    seen: dict[str, int] = {}
    labels = np.fromiter((seen.setdefault(label_text(value), len(seen)) for value in values), np.int64)
    names = natural_order(set(seen) - {""})
    numbers = {name: number for number, name in enumerate(names)} | {"": -1}
    return np.array([numbers[text] for text in seen], np.int64)[labels], tuple(names)


@dataclass(frozen=True)
class Labels:
    """The labels of rows: class numbers with their names, or numbers.

    Attributes:
        values: class numbers, -1 where a label is missing; or numbers, NaN where one is missing or cannot be learned.
        names: of the classes; empty: labels are numbers.
        problems: rows whose label cannot be learned, with what is wrong with it.
        note: which of both was taken, and how to change that; "": there is no doubt.
    """

    values: np.ndarray
    names: tuple[str, ...]
    problems: tuple[tuple[np.ndarray, str], ...] = ()
    note: str = ""

    @property
    def known(self) -> np.ndarray:
        """Return which rows have a label, bool [rows]."""
        return self.values >= 0 if self.names else np.isfinite(self.values)


def read_labels(values: Iterable[Any], task: Kind | None, *, column: str) -> Labels:
    """Return labels as numbers where "regression" was asked for, or where they can be nothing else; else as classes."""
    texts = [label_text(value) for value in values]
    classes, names = number_labels(texts)
    if task == "classification":
        return Labels(classes, names)
    parsed = [_parsed(name) for name in names]
    numbers = {name: number for name, number in zip(names, parsed, strict=True) if number is not None}
    words = [name for name in names if name not in numbers and name.lower() not in MISSING]
    mostly = len(numbers) >= _MOSTLY * (len(numbers) + len(words))
    if task != "regression" and not (mostly and _are_measured(numbers, classes, names)):
        whole = not words and len(numbers) > _UNSURE_FROM
        doubt = f"Labels of column {column!r} are taken as {len(names):,} classes. To learn them as numbers: "
        return Labels(classes, names, note=f"{doubt}--task regression." if whole else "")
    cells = np.array([numbers.get(name, np.nan) for name in names] + [np.nan])[classes]
    infinite = np.isinf(cells)
    is_word = np.isin(classes, [names.index(word) for word in words])
    examples = ", ".join(map(repr, words[:3]))
    problems = [
        (infinite, f"with an infinite label in column {column!r}"),
        (is_word, f"with a label that is not a number in column {column!r}, {examples},"),
    ]
    note = (
        ""
        if task == "regression"
        else f"Labels of column {column!r} are taken as numbers ({len(numbers):,} different ones): a regression. To "
        "learn each of them as a class: --task classification."
    )
    present = tuple((rows, problem) for rows, problem in problems if rows.any())
    return Labels(np.where(infinite, np.nan, cells), (), present, note)


def _are_measured(numbers: Mapping[str, float], classes: np.ndarray, names: Sequence[str]) -> bool:
    """Tell whether labels are measured numbers rather than names of classes that happen to be numbers."""
    values = np.array(list(numbers.values()))
    values = values[np.isfinite(values)]
    if len(values) <= _FEW_NUMBERS:
        return False
    fractions = values != np.round(values)
    if 2 * int(fractions.sum()) > len(values):
        return True
    rows = int(np.isin(classes, [place for place, name in enumerate(names) if name in numbers]).sum())
    without_gap = not fractions.any() and values.max() - values.min() + 1 == len(values)
    return not without_gap and rows < _ROWS_OF_A_CLASS * len(values)


def _parsed(text: str) -> float | None:
    """Return the number that a label is, infinite ones too; None: it is a word."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if np.isnan(number) or "_" in text else number


def check_scale(labels: np.ndarray, *, column: str, source: str) -> None:
    """Reject numbers of training, validation or test rows whose squares overflow or vanish."""
    if problem := scale_problem(labels):
        raise DataFileError(f"numbers in column {column!r} of {source!r} {problem}, in a column to name by --label.")


def check_numbers(labels: np.ndarray, *, column: str, source: str) -> None:
    """Reject numbers that no regression can learn."""
    if len(labels) < _FEWEST_ROWS:
        raise DataFileError(
            f"{source!r} has {counted(len(labels), 'row')} with a number in column {column!r}. A run needs at least "
            f"{_FEWEST_ROWS} rows, and useful results need hundreds. Give a file with more rows, or name another "
            "column: --label NAME."
        )
    if labels.min() == labels.max():
        raise DataFileError(
            f"column {column!r} of {source!r} has the number {labels[0]:g} in all {counted(len(labels), 'row')}: there "
            "is nothing to learn. Give rows of different numbers, or name another column: --label NAME."
        )


def natural_order(names: Iterable[str]) -> list[str]:
    """Return names sorted as people would: numbers as numbers, letters without regard to case."""
    return sorted(names, key=_natural_key)


def check_labels(labels: np.ndarray, label_names: Sequence[str], *, column: str, source: str) -> None:
    """Reject class numbers that no classifier can learn; −1: without a label. Names are those of all classes."""
    labels = labels[labels >= 0]
    names = [label_names[int(number)] for number in np.unique(labels)]
    where = f"column {column!r} of {source!r}"
    if not len(labels):
        raise DataFileError(
            f"no row of {source!r} has a label in column {column!r}. Name another column: --label NAME."
        )
    if len(labels) < _FEWEST_ROWS:
        raise DataFileError(
            f"{source!r} has {counted(len(labels), 'row')} with a label. A run needs at least {_FEWEST_ROWS} rows of "
            "two classes, and useful results need hundreds. Give a file with more rows."
        )
    if len(names) == 1:
        raise DataFileError(
            f"{where} has one class only, {names[0]!r}, in {counted(len(labels), 'row')}. Give rows of two classes or "
            "more, or name another column: --label NAME."
        )
    example = f"such as {names[0]!r} and {names[-1]!r}"
    if len(names) > _MOST_CLASSES or len(names) == len(labels) or len(names) > max(20, len(labels) / 2):
        raise DataFileError(
            f"{where} has {len(names):,} different values in {counted(len(labels), 'row')}, {example}: is this the "
            f"label? A class needs several rows, and {_MOST_CLASSES:,} classes are the most. Name another column: "
            f"--label NAME{', or learn numbers: --task regression' if all(map(_is_number, names)) else ''}."
        )


@dataclass
class BadRows:
    """Collects bad rows, to be skipped or rejected, while data is read."""

    source: str  # what has them, for the message
    skip: bool
    noun: str = "row"  # what a row is called
    cure: str = "Correct or remove them"  # what to do about them
    _problems: list[str] = field(default_factory=list)

    def add(self, names: Sequence[str], problem: str, *, why: str = "") -> None:
        """Add bad rows, if any: `problem` stands behind "rows", `why` is what is wrong with the first of them."""
        if not names:
            return
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        which = f"{counted(len(names), self.noun)} {problem}"
        where = f"{', '.join(names[:_MOST_NAMED])}{more}{f': {why}' if why else ''}"
        self._problems.append(f"{which} skipped ({where})." if self.skip else f"{which} ({where})")

    def notes(self) -> list[str]:
        """Return a sentence on each kind of bad rows that is skipped; raise where they may not be skipped."""
        if self._problems and not self.skip:
            raise DataFileError(
                f"{self.source} has {' and '.join(self._problems)}. {self.cure}, or skip them: --skip-bad"
            )
        return self._problems


def _text_column(table: Table, config: RunConfig, label: str) -> str | None:
    others = [str(name) for name in table.frame.columns if name not in (label, config.group)]
    obvious = _obvious(others, _TEXT_NAMES)
    if obvious is not None and config.task == "text":
        return obvious
    # Of a column that is called text, short texts are enough; but Mr and Mrs in "title" are categories.
    if obvious is not None and config.label is None and looks_like_text(column_of(table.frame, obvious), words=0.5):
        return obvious
    # One column of something else is enough to know: there may be thousands.
    if config.task != "text" and not all(looks_like_text(column_of(table.frame, name)) for name in others):
        return None
    texts = [name for name in others if looks_like_text(column_of(table.frame, name))]
    # Several columns of texts and no obvious name: an honest question is better than a guess.
    return obvious if obvious in texts else texts[0] if len(texts) == 1 else None


def _only_other(columns: list[str], config: RunConfig) -> str | None:
    """Return the label's column where it is the only one beside the text."""
    others = [name for name in columns if name not in (config.text, config.group)]
    return others[0] if config.text is not None and len(others) == 1 else None


def _obvious(columns: Sequence[str], names: Sequence[str], *, not_this: str | None = None) -> str | None:
    by_lower = {column.lower(): column for column in columns if column != not_this}
    return next((by_lower[name] for name in names if name in by_lower), None)


def _cannot_tell(table: Table, option: str, label: str | None = None) -> DataFileError:
    """Return an error that lists the columns and what each might be."""
    what = "label" if option == "--label" else "text"
    columns = [str(name) for name in table.frame.columns if name != label]
    described, guesses = [], []
    for name in columns[:_MOST_LISTED]:
        values = column_of(table.frame, name).head(_GUESSED_ROWS)
        few = values.astype(str).nunique()
        is_text = looks_like_text(values)
        described.append(f"{name!r} ({'texts' if is_text else f'{few:,} different values'})")
        if is_text if what == "text" else 2 <= few <= max(2, min(50, len(values) // 5)):
            guesses.append((few, name))
    # A label has few values; of texts, the column with the most different ones is the likeliest.
    best = (min(guesses) if what == "label" else max(guesses))[1] if guesses else None
    more = f" and {len(columns) - _MOST_LISTED} more" if len(columns) > _MOST_LISTED else ""
    return DataFileError(
        f"which column of {table.source!r} is the {what}? Name it: {option} {_quoted(best or 'NAME')}. The columns are "
        f"{', '.join(described)}{more}.{_maybe_no_header(columns)}"
    )


def _maybe_no_header(columns: Sequence[str]) -> str:
    """Point out a first line that looks like data."""
    odd = [name for name in columns if len(name) > 60 or _is_number(name)]
    if not odd:
        return ""
    return f" The first line must hold the names of the columns; {odd[0][:60]!r} does not look like one."


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _quoted(name: str) -> str:
    return name if name.replace("_", "a").replace("-", "a").isalnum() else repr(name)


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(repr(name if len(name) <= 60 else f"{name[:60]}...") for name in columns[:_MOST_LISTED])
    return shown + (f" and {len(columns) - _MOST_LISTED} more" if len(columns) > _MOST_LISTED else "")


def _natural_key(name: str) -> tuple[Any, ...]:
    if _NUMBER.fullmatch(name):
        return (0, float(name), (), name)
    parts = re.split(r"(\d+)", name.casefold())
    # Letters and numbers alternate, so that like is compared with like.
    return (1, 0.0, tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name)
