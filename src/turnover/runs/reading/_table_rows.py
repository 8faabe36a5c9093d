"""Tables as rows of a run: texts and their labels, or columns of numbers and categories."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from turnover.errors import DataFileError
from turnover.runs._packed import PackedNumbers, PackedTexts
from turnover.runs.config import RunConfig
from turnover.runs.rows import TO_BE_SPLIT, Rows
from turnover.tables import counted

from .columns import (
    MISSING,
    BadRows,
    Chosen,
    Labels,
    check_cells,
    check_column,
    check_no_bytes,
    choose_columns,
    label_text,
    looks_like_text,
    number_labels,
    read_labels,
)
from .tables import Table, cells_of, column_of

if TYPE_CHECKING:
    import pandas as pd

_FEW_WORDS = 0.1
_NAMES_OF_IDS = ("id", "index", "uid", "uuid", "guid", "rowid", "row_id", "unnamed: 0")


@dataclass(frozen=True)
class Part:
    """One file of a run."""

    table: Table
    split: int = TO_BE_SPLIT  # index into SPLITS, or TO_BE_SPLIT


def rows_of_tables(parts: Sequence[Part], config: RunConfig, *, name: str) -> Rows:
    """Return the rows of one or more files with the same columns.

    Rows without a label or text are rejected, or skipped where that was asked for. Cells that a table is learned from
    may be missing: a note says where, and an input of its own marks them.
    """
    import pandas as pd

    first = parts[0].table
    for part in parts:
        check_no_bytes(part.table)
    chosen = choose_columns(first, config)
    for part in parts[1:]:
        for column, option in ((chosen.label, "--label"), (chosen.text, "--text")):
            if column is not None:
                check_column(part.table, column, option=option)
    for part in parts:
        for column, option in ((chosen.label, "--label"), (chosen.text, "--text"), (chosen.group, "--group")):
            if column is not None and column in part.table.frame:
                check_cells(part.table, column, option=option)
    frame = pd.concat([part.table.frame for part in parts], ignore_index=True) if len(parts) > 1 else first.frame
    names, origins = first.names, first.numbers
    for part in parts[1:]:
        others = PackedTexts(f"{Path(part.table.source).name} {row}" for row in part.table.names)
        names = PackedTexts.joined([names, others])
        origins = np.append(origins, np.full(len(others), -1))
    fixed = np.repeat(np.array([part.split for part in parts], np.int8), [len(part.table.numbers) for part in parts])
    notes: list[str] = []
    labels = read_labels(cells_of(column_of(frame, chosen.label)), config.task, column=chosen.label)
    kept = labels.known
    as_classes = ", learn classes (--task classification)" if labels.problems and config.task is None else ""
    bad = BadRows(repr(config.data), config.skip_bad, cure=f"Correct or remove them{as_classes}")
    lacking = ~kept
    for rows, problem in labels.problems:
        bad.add(list(compress(names, rows)), problem)
        lacking &= ~rows
    if kept.any():
        bad.add(list(compress(names, lacking)), f"without a label in column {chosen.label!r}")
    texts = PackedTexts()
    if chosen.text is not None:
        texts = PackedTexts(map(label_text, cells_of(column_of(frame, chosen.text))))
        filled = texts.lengths > 0
        if not filled.any():
            raise DataFileError(
                f"column {chosen.text!r} of {first.source!r} has no text in any row. Name another column: --text NAME."
            )
        bad.add(list(compress(names, kept & ~filled)), f"without text in column {chosen.text!r}")
        kept &= filled
    notes += bad.notes()
    if labels.note:
        notes.append(labels.note)
    if not kept.all():
        frame = frame.iloc[np.flatnonzero(kept)].reset_index(drop=True)
        names, origins = PackedTexts(compress(names, kept)), origins[kept]
        texts = PackedTexts(compress(texts, kept))
        if labels.names:
            classes, label_names = number_labels(cells_of(column_of(frame, chosen.label)))
            labels = Labels(classes, label_names)
        else:
            labels = Labels(labels.values[kept], ())
    return Rows(
        chosen.kind,
        frame,
        texts if chosen.text is not None else _columns(frame, config, chosen, parts, notes),
        labels.values,
        labels.names,
        chosen.label,
        name,
        names,
        PackedNumbers(origins),
        fixed[kept],
        groups=_groups(frame, chosen, names, notes),
        notes=tuple(notes),
    )


def _groups(frame: "pd.DataFrame", chosen: Chosen, names: Sequence[str], notes: list[str]) -> tuple[str, ...]:
    if chosen.group is None:
        return ()
    groups = [label_text(value) for value in cells_of(column_of(frame, chosen.group))]
    alone = sum(not group for group in groups)
    if alone:
        notes.append(f"{counted(alone, 'row')} without a group in column {chosen.group!r}: each is a group of its own.")
    found = tuple(group or name for group, name in zip(groups, names, strict=True))
    if len(set(found)) < 3:
        raise DataFileError(
            f"column {chosen.group!r} has {len(set(found))} groups: rows of a group stay in one split, so that "
            "training, validation and test need three groups or more. Name another column: --group NAME."
        )
    return found


def _columns(
    frame: "pd.DataFrame", config: RunConfig, chosen: Chosen, parts: Sequence[Part], notes: list[str]
) -> "pd.DataFrame":
    """Return the columns that a table is learned from: numbers as float64, categories as strings."""
    import pandas as pd

    asked = list(config.columns)
    if chosen.label in asked:
        raise DataFileError(f"--columns has the label {chosen.label!r} among them. Omit it: it is what is learned.")
    columns: dict[str, pd.Series] = {}
    useless: dict[str, list[str]] = {}
    filled_in: list[str] = []
    for name in asked or [str(name) for name in frame.columns if name not in (chosen.label, chosen.group)]:
        for part in parts:
            if name in part.table.frame:
                check_cells(part.table, name, option="--columns")
        values = _numbers_or_categories(column_of(frame, name))
        notes += _words_among_numbers(name, values)
        reason = _useless(name, values, asked=bool(asked))
        if reason:
            useless.setdefault(reason, []).append(name)
            continue
        if lacking := int(_missing(values).sum()):
            filled_in.append(f"{name!r} ({lacking:,})")
        for part in parts[1:]:
            check_column(part.table, name, option="--columns")
        columns[name] = pd.Series(values, frame.index, dtype="str" if values.dtype == object else "float64")
    for reason, names in useless.items():
        notes.append(f"Skipped, {reason}: {', '.join(map(repr, names))}.")
    if filled_in:
        notes.append(f"Missing values, which an input of their own marks: {', '.join(filled_in)}.")
    if not columns:
        texts = [name for name in frame.columns if name != chosen.label and looks_like_text(column_of(frame, name))]
        cure = f"--text {texts[0]!r} learns from texts" if texts else "Name columns: --columns NAME"
        raise DataFileError(
            f"{parts[0].table.source!r} has no column of numbers or categories to learn {chosen.label!r} from. "
            f"{' '.join(notes[-len(useless) :]) if useless else ''} {cure}."
        )
    return pd.DataFrame(columns)


def _numbers_or_categories(values: "pd.Series") -> np.ndarray:
    """Return a column as float64, NaN where a number is missing, or as objects: strings, None where one is missing.

    By NumPy and not by pandas, whose calls cost more than the work where a table has thousands of columns.
    """
    import pandas as pd

    if pd.api.types.is_bool_dtype(values):
        return np.array([None if pd.isna(value) else str(value) for value in values.tolist()], object)
    if pd.api.types.is_numeric_dtype(values):
        return _finite(values.to_numpy(np.float64, na_value=np.nan))
    texts = [label_text(value) for value in values.to_numpy(dtype=object).tolist()]
    missing = np.array([text.lower() in MISSING for text in texts])
    shown = np.array([None if lacks else text for text, lacks in zip(texts, missing, strict=True)], object)
    numbers = np.asarray(pd.to_numeric(shown, errors="coerce"), np.float64)
    if not (np.isnan(numbers) & ~missing).any():
        return _finite(numbers)
    return np.array([text or None for text in texts], object)


def _finite(numbers: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _words_among_numbers(name: str, values: np.ndarray) -> list[str]:
    """Return a note on a column that would be one of numbers but for a few cells: categories are rarely meant."""
    import pandas as pd

    if values.dtype != object:
        return []
    known = values[values != None]  # noqa: E711 - for every cell
    numbers = np.asarray(pd.to_numeric(known, errors="coerce"), np.float64)
    words = known[np.isnan(numbers)].tolist()
    if not 0 < len(words) <= _FEW_WORDS * len(known):
        return []
    some = ", ".join(map(repr, dict.fromkeys(words[:3])))
    return [
        f"Column {name!r} is taken as categories, because {len(words):,} of its {len(known):,} cells are not numbers "
        f"({some}): correct or empty them if numbers are meant."
    ]


def _missing(values: np.ndarray) -> np.ndarray:
    """Tell which cells of a column are missing."""
    return values == None if values.dtype == object else np.isnan(values)  # noqa: E711 - for every cell


def _useless(name: str, values: np.ndarray, *, asked: bool) -> str | None:
    """Return why nothing can be learned from a column, or None."""
    known = values[~_missing(values)]
    different = len(set(known.tolist()))
    if different == 0:
        return "no value in any row"
    if different == 1 and len(known) == len(values):
        return "the same value in every row"
    if asked:
        return None
    lower = name.lower()
    is_id = lower in _NAMES_OF_IDS or lower.endswith(("_id", " id")) or name.endswith("Id")
    if is_id and different == len(known):
        return "a number or name of the row"
    if values.dtype == object and different > max(20, len(values) / 2):
        return "nearly every row has another value"
    return None
