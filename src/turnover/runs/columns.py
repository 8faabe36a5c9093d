"""Tables as rows: which columns are text, label, group and cells; labels as classes or numbers; bad rows."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnover.errors import DataFileError
from turnover.tables import counted
from turnover.training import scale_problem

from .config import Kind, RunConfig
from .files import Table, need_pyarrow
from .table import Rows

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT_NAMES = (
    *("text", "sentence", "review", "content", "body", "message", "comment", "tweet", "document", "article"),
    *("utterance", "question", "query", "description", "title", "sms", "review_text", "reviewtext"),
)
_LABEL_NAMES = (
    *("label", "labels", "class", "target", "y", "category", "sentiment", "topic", "intent", "label_text"),
    *("class_name", "species", "outcome", "diagnosis", "coarse_label"),
)
_NAMES_OF_IDS = ("id", "index", "uid", "uuid", "guid", "rowid", "row_id", "unnamed: 0")
MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-", "<na>")
"""What stands for a missing number."""

_MOST_CLASSES, _FEWEST_ROWS = 1000, 4
# Labels that are numbers: of so few different ones, each is a class. Among more, whole numbers are classes where each
# has as many rows as this, on average, or where they count without a gap.
_FEW_NUMBERS, _ROWS_OF_A_CLASS = 20, 5
_MOSTLY, _UNSURE_FROM = 0.9, 10
_FEW_WORDS = 0.1  # share of words up to which a column may be meant as numbers
_NUMBER = re.compile(r"[-+]?\d+(\.\d*)?|[-+]?\.\d+")
_GUESSED_ROWS, _MOST_LISTED, _MOST_NAMED = 2000, 20, 5


# Cells


def label_text(value: Any) -> str:
    """Return a label as text; "" where there is none."""
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else str(int(value)) if float(value).is_integer() else str(value)
    text = str(value).strip()
    return "" if text.lower() in ("nan", "<na>", "nat") else text


def parsed_number(text: str) -> float | None:
    """Return the number that a text is, infinite ones too; None: it is a word."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if np.isnan(number) or "_" in text else number


def _is_text(column: "pa.ChunkedArray") -> bool:
    types = need_pyarrow().types
    return types.is_string(column.type) or types.is_large_string(column.type)


def looks_like_text(column: "pa.ChunkedArray", *, words: float = 3.0) -> bool:
    """Tell whether a column holds sentences, of so many words on average, rather than categories or numbers."""
    if not _is_text(column):
        return False
    sample = column.drop_null().slice(0, _GUESSED_ROWS).to_pylist()
    if not sample or all(parsed_number(text) is not None for text in sample):
        return False
    return sum(len(text.split()) for text in sample) >= words * len(sample) and len(set(sample)) > 0.3 * len(sample)


# Which column is what


@dataclass(frozen=True)
class _Chosen:
    label: str
    text: str | None
    group: str | None

    @property
    def by_option(self) -> list[tuple[str, str]]:
        columns = ((self.label, "--label"), (self.text, "--text"), (self.group, "--group"))
        return [(name, option) for name, option in columns if name is not None]


def _choose_columns(table: Table, config: RunConfig) -> _Chosen:
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
    return _Chosen(label, text, config.group)


def choose_label(table: Table, config: RunConfig) -> str:
    """Return the column of labels: as asked for, by an obvious name, or the only one beside the text."""
    if config.label is not None:
        check_column(table, config.label, option="--label")
        return config.label
    label = _obvious([name for name in table.columns if name != config.text], _LABEL_NAMES)
    others = [name for name in table.columns if name not in (config.text, config.group)]
    if label is None and config.text is not None and len(others) == 1:
        label = others[0]
    if label is None:
        raise _cannot_tell(table, "--label")
    return label


def _text_column(table: Table, config: RunConfig, label: str) -> str | None:
    others = [name for name in table.columns if name not in (label, config.group)]
    obvious = _obvious(others, _TEXT_NAMES)
    if obvious is not None and config.task == "text":
        return obvious
    # Of a column that is called text, short texts are enough; but Mr and Mrs in "title" are categories.
    if obvious is not None and config.label is None and looks_like_text(table.data.column(obvious), words=0.5):
        return obvious
    texts = [name for name in others if looks_like_text(table.data.column(name))]
    if config.task != "text" and len(texts) < len(others):
        return None
    # Several columns of texts and no obvious name: an honest question is better than a guess.
    return obvious if obvious in texts else texts[0] if len(texts) == 1 else None


def _obvious(columns: Sequence[str], names: Sequence[str]) -> str | None:
    by_lower = {column.lower(): column for column in columns}
    return next((by_lower[name] for name in names if name in by_lower), None)


def check_column(table: Table, name: str, *, option: str) -> None:
    """Raise where a table lacks the column that an option asked for, and suggest the nearest."""
    if name in table.columns:
        return
    near = nearest(name, table.columns)
    suggestion = f" Did you mean {option} {_quoted(near)}?" if near else ""
    shown = [repr(name if len(name) <= 60 else f"{name[:60]}...") for name in table.columns[:_MOST_LISTED]]
    more = f" and {len(table.columns) - _MOST_LISTED} more" if len(table.columns) > _MOST_LISTED else ""
    raise DataFileError(
        f"{table.source!r} has no column {name!r}.{suggestion} Its columns are {', '.join(shown)}{more}."
        + (_maybe_no_header(table.columns) if not near else "")
    )


def _check_cells(table: Table, name: str, *, option: str) -> None:
    """Raise where a column that is learned from holds lists or objects, which are neither numbers nor texts."""
    types, kind = need_pyarrow().types, table.data.column(name).type
    if types.is_nested(kind):
        what = "objects" if types.is_struct(kind) else "lists"
        raise DataFileError(
            f"column {name!r} of {table.source!r} holds {what}. A run learns from one number or text per cell: write "
            f"it so, or name another column: {option} NAME."
        )


def _check_no_bytes(table: Table) -> None:
    types = need_pyarrow().types
    for part in table.data.schema:
        if types.is_binary(part.type) or types.is_large_binary(part.type) or types.is_fixed_size_binary(part.type):
            raise DataFileError(
                f"column {part.name!r} of {table.source!r} holds bytes. Write them as texts or numbers, or remove the "
                "column."
            )


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the name that was probably meant, if any."""
    by_lower = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    within = [other for lower, other in by_lower.items() if name and (name.lower() in lower or lower in name.lower())]
    return by_lower[close[0]] if close else next(iter(within), None)


def _cannot_tell(table: Table, option: str, label: str | None = None) -> DataFileError:
    """Return an error that lists the columns and what each might be."""
    what = option.removeprefix("--")
    columns = [name for name in table.columns if name != label]
    described, guesses = [], []
    for name in columns[:_MOST_LISTED]:
        values = table.data.column(name).slice(0, _GUESSED_ROWS)
        few, is_text = len(set(map(str, values.to_pylist()))), looks_like_text(values)
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
    odd = [name for name in columns if len(name) > 60 or parsed_number(name) is not None]
    if not odd:
        return ""
    return f" The first line must hold the names of the columns; {odd[0][:60]!r} does not look like one."


def _quoted(name: str) -> str:
    return name if name.replace("_", "a").replace("-", "a").isalnum() else repr(name)


# Labels


@dataclass(frozen=True)
class Labels:
    """The labels of rows: class numbers with their names, or numbers.

    Attributes:
        values: class numbers, −1 where a label is missing; or numbers, NaN where one is missing or cannot be learned.
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


def number_labels(values: Iterable[Any]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return class numbers, −1 where a label is missing, and the names of the classes in their natural order."""
    seen: dict[str, int] = {}
    labels = np.fromiter((seen.setdefault(label_text(value), len(seen)) for value in values), np.int64)
    names = sorted(set(seen) - {""}, key=_natural_key)
    numbers = {name: number for number, name in enumerate(names)} | {"": -1}
    return np.array([numbers[text] for text in seen], np.int64)[labels], tuple(names)


def _natural_key(name: str) -> tuple[Any, ...]:
    """Order names as people would: numbers as numbers, letters without regard to case."""
    if _NUMBER.fullmatch(name):
        return (0, float(name), (), name)
    parts = re.split(r"(\d+)", name.casefold())
    # Letters and numbers alternate, so that like is compared with like.
    return (1, 0.0, tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name)


def read_labels(values: Iterable[Any], task: Kind | None, *, column: str) -> Labels:
    """Return labels as numbers where "regression" was asked for, or where they can be nothing else; else as classes."""
    classes, names = number_labels(values)
    if task == "classification":
        return Labels(classes, names)
    parsed = {name: parsed_number(name) for name in names}
    numbers = {name: number for name, number in parsed.items() if number is not None}
    words = [name for name in names if name not in numbers and name.lower() not in MISSING]
    mostly = len(numbers) >= _MOSTLY * (len(numbers) + len(words))
    if task != "regression" and not (mostly and _are_measured(numbers, classes, names)):
        doubt = f"Labels of column {column!r} are taken as {len(names):,} classes. To learn them as numbers: "
        unsure = not words and len(numbers) > _UNSURE_FROM
        return Labels(classes, names, note=f"{doubt}--task regression." if unsure else "")
    cells = np.array([numbers.get(name, np.nan) for name in names] + [np.nan])[classes]
    infinite = np.isinf(cells)
    is_word = np.isin(classes, [names.index(word) for word in words])
    problems = (
        (infinite, f"with an infinite label in column {column!r}"),
        (is_word, f"with a label that is not a number in column {column!r}, {', '.join(map(repr, words[:3]))},"),
    )
    note = (
        f"Labels of column {column!r} are taken as numbers ({len(numbers):,} different ones): a regression. To learn "
        "each of them as a class: --task classification."
    )
    present = tuple((rows, problem) for rows, problem in problems if rows.any())
    return Labels(np.where(infinite, np.nan, cells), (), present, "" if task == "regression" else note)


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


def check_labels(labels: np.ndarray, label_names: Sequence[str], *, column: str, source: str) -> None:
    """Reject class numbers that no classifier can learn; −1: without a label. Names are those of all classes."""
    labels = labels[labels >= 0]
    names = [label_names[int(number)] for number in np.unique(labels)]
    where, rows = f"column {column!r} of {source!r}", counted(len(labels), "row")
    if not len(labels):
        raise DataFileError(
            f"no row of {source!r} has a label in column {column!r}. Name another column: --label NAME."
        )
    if len(labels) < _FEWEST_ROWS:
        raise DataFileError(
            f"{source!r} has {rows} with a label. A run needs at least {_FEWEST_ROWS} rows of two classes, and useful "
            "results need hundreds. Give a file with more rows."
        )
    if len(names) == 1:
        raise DataFileError(
            f"{where} has one class only, {names[0]!r}, in {rows}. Give rows of two classes or more, or name another "
            "column: --label NAME."
        )
    if len(names) > _MOST_CLASSES or len(names) == len(labels) or len(names) > max(20, len(labels) / 2):
        numbers = all(parsed_number(name) is not None for name in names)
        raise DataFileError(
            f"{where} has {len(names):,} different values in {rows}, such as {names[0]!r} and {names[-1]!r}: is this "
            f"the label? A class needs several rows, and {_MOST_CLASSES:,} classes are the most. Name another column: "
            f"--label NAME{', or learn numbers: --task regression' if numbers else ''}."
        )


def check_numbers(labels: np.ndarray, trained: np.ndarray, *, column: str, source: str) -> None:
    """Reject numbers that no regression can learn, or whose squares overflow or vanish."""
    if problem := scale_problem(labels):
        raise DataFileError(f"numbers in column {column!r} of {source!r} {problem}, in a column to name by --label.")
    labels = labels[trained]
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


# Tables as rows


def rows_of_tables(tables: Sequence[Table], splits: Sequence[int], config: RunConfig, *, name: str) -> Rows:
    """Return the rows of one or more tables with the same columns, each of a split or `TO_BE_SPLIT`.

    Rows without a label or text are rejected, or skipped where that was asked for. Cells that a table is learned from
    may be missing: a note says where, and an input of their own marks them.
    """
    pa, first = need_pyarrow(), tables[0]
    for table in tables:
        _check_no_bytes(table)
    chosen = _choose_columns(first, config)
    for table in tables:
        for column, option in chosen.by_option:
            if option != "--group":
                check_column(table, column, option=option)
            if column in table.columns:
                _check_cells(table, column, option=option)
    data = _joined(tables)
    names, origins = first.names, first.numbers.tolist()
    for table in tables[1:]:
        names += [f"{Path(table.source).name} {row}" for row in table.names]
        origins += [None] * len(table.numbers)
    split_of = np.repeat(np.array(splits, np.int8), [len(table.numbers) for table in tables])
    labels = read_labels(data.column(chosen.label).to_pylist(), config.task, column=chosen.label)
    kept = labels.known
    as_classes = ", learn classes (--task classification)" if labels.problems and config.task is None else ""
    bad = BadRows(repr(config.data), config.skip_bad, cure=f"Correct or remove them{as_classes}")
    lacking = ~kept
    for rows, problem in labels.problems:
        bad.add(list(compress(names, rows)), problem)
        lacking &= ~rows
    if kept.any():
        bad.add(list(compress(names, lacking)), f"without a label in column {chosen.label!r}")
    texts: list[str] = []
    if chosen.text is not None:
        texts = [label_text(cell) for cell in data.column(chosen.text).to_pylist()]
        filled = np.array([bool(text) for text in texts])
        if not filled.any():
            raise DataFileError(
                f"column {chosen.text!r} of {first.source!r} has no text in any row. Name another column: --text NAME."
            )
        bad.add(list(compress(names, kept & ~filled)), f"without text in column {chosen.text!r}")
        kept = kept & filled
    notes = [*bad.notes(), *([labels.note] if labels.note else [])]
    values, label_names = labels.values[kept], labels.names
    if not kept.all():
        data = data.filter(pa.array(kept))
        names, texts, origins = (list(compress(part, kept)) for part in (names, texts, origins))
        if label_names:
            values, label_names = number_labels(data.column(chosen.label).to_pylist())
    groups = _groups(data, chosen.group, names, notes)
    return Rows.of(
        "table" if chosen.text is None else "text",
        data,
        texts if chosen.text is not None else _cells(data, config, chosen, tables, notes),
        values,
        label_names,
        name=name,
        label_column=chosen.label,
        names=names,
        origins=origins,
        splits=split_of[kept],
        groups=groups,
        notes=notes,
    )


def _joined(tables: Sequence[Table]) -> "pa.Table":
    """Return the rows of tables below each other; where types of a column differ, its cells become strings."""
    pa = need_pyarrow()
    if len(tables) == 1:
        return tables[0].data
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for table in tables for name in table.columns):
        parts = [
            table.data.column(name).combine_chunks() if name in table.columns else pa.nulls(table.data.num_rows)
            for table in tables
        ]
        kinds = {part.type for part in parts} - {pa.null()}
        if len(kinds) > 1 and not all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
            text = pa.large_string()
            parts = [pa.array([None if c is None else label_text(c) for c in part.to_pylist()], text) for part in parts]
            kinds = {text}
        kind = pa.float64() if len(kinds) > 1 else next(iter(kinds), pa.null())
        columns[name] = pa.chunked_array([part.cast(kind) for part in parts], kind)
    return pa.table(columns)


def _groups(data: "pa.Table", column: str | None, names: Sequence[str], notes: list[str]) -> list[str]:
    if column is None:
        return []
    groups = [label_text(value) for value in data.column(column).to_pylist()]
    if alone := sum(not group for group in groups):
        notes.append(f"{counted(alone, 'row')} without a group in column {column!r}: each is a group of its own.")
    found = [group or name for group, name in zip(groups, names, strict=True)]
    if len(set(found)) < 3:
        raise DataFileError(
            f"column {column!r} has {len(set(found))} groups: rows of a group stay in one split, so that training, "
            "validation and test need three groups or more. Name another column: --group NAME."
        )
    return found


def _cells(
    data: "pa.Table", config: RunConfig, chosen: _Chosen, tables: Sequence[Table], notes: list[str]
) -> "pa.Table":
    """Return the columns that a table is learned from: numbers as float64, categories as strings."""
    asked = list(config.columns)
    if chosen.label in asked:
        raise DataFileError(f"--columns has the label {chosen.label!r} among them. Omit it: it is what is learned.")
    columns: dict[str, pa.Array] = {}
    useless: dict[str, list[str]] = {}
    filled_in: list[str] = []
    for name in asked or [name for name in data.column_names if name not in (chosen.label, chosen.group)]:
        for table in tables:
            if name in table.columns:
                _check_cells(table, name, option="--columns")
        values = _numbers_or_categories(data.column(name))
        notes += _words_among_numbers(name, values)
        if reason := _useless(name, values, asked=bool(asked)):
            useless.setdefault(reason, []).append(name)
            continue
        if values.null_count:
            filled_in.append(f"{name!r} ({values.null_count:,})")
        for table in tables[1:]:
            check_column(table, name, option="--columns")
        columns[name] = values
    notes += [f"Skipped, {reason}: {', '.join(map(repr, names))}." for reason, names in useless.items()]
    if filled_in:
        notes.append(f"Missing values, which an input of their own marks: {', '.join(filled_in)}.")
    if not columns:
        texts = [name for name in data.column_names if name != chosen.label and looks_like_text(data.column(name))]
        cure = f"--text {texts[0]!r} learns from texts" if texts else "Name columns: --columns NAME"
        raise DataFileError(
            f"{tables[0].source!r} has no column of numbers or categories to learn {chosen.label!r} from. "
            f"{' '.join(notes[-len(useless) :]) if useless else ''} {cure}."
        )
    return need_pyarrow().table(columns)


def _numbers_or_categories(column: "pa.ChunkedArray") -> "pa.Array":
    """Return a column as float64 or as strings, null where a cell is missing."""
    pa = need_pyarrow()
    types, kind = pa.types, column.type
    if types.is_integer(kind) or types.is_floating(kind):  # Arrow rounds decimals twice
        numbers = column.cast(pa.float64(), safe=False).to_numpy()
        return pa.array(numbers, mask=~np.isfinite(numbers))
    texts = [label_text(value) for value in column.to_pylist()]
    if not types.is_boolean(kind):
        cells = [None if text.lower() in MISSING else parsed_number(text) for text in texts]
        if all(cell is not None or text.lower() in MISSING for cell, text in zip(cells, texts, strict=True)):
            numbers = np.array([np.nan if cell is None else cell for cell in cells], np.float64)
            return pa.array(numbers, mask=~np.isfinite(numbers))
    return pa.array([text or None for text in texts], pa.large_string())


def _words_among_numbers(name: str, values: "pa.Array") -> list[str]:
    """Return a note on a column that would be one of numbers but for a few cells: categories are rarely meant."""
    if not _is_text(values):
        return []
    known = values.drop_null().to_pylist()
    words = [text for text in known if parsed_number(text) is None]
    if not 0 < len(words) <= _FEW_WORDS * len(known):
        return []
    some = ", ".join(map(repr, dict.fromkeys(words[:3])))
    return [
        f"Column {name!r} is taken as categories, because {len(words):,} of its {len(known):,} cells are not numbers "
        f"({some}): correct or empty them if numbers are meant."
    ]


def _useless(name: str, values: "pa.Array", *, asked: bool) -> str | None:
    """Return why nothing can be learned from a column, or None."""
    known = len(values) - values.null_count
    different = len(values.drop_null().unique())
    if different == 0:
        return "no value in any row"
    if different == 1 and known == len(values):
        return "the same value in every row"
    if asked:
        return None
    lower = name.lower()
    is_id = lower in _NAMES_OF_IDS or lower.endswith(("_id", " id")) or name.endswith("Id")
    if is_id and different == known:
        return "a number or name of the row"
    if _is_text(values) and different > max(20, len(values) / 2):
        return "nearly every row has another value"
    return None
