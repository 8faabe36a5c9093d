"""Columns of a table as numbers: standardized numbers, categories as one bit each."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import DataFileError
from turnover.runs.reading import MISSING, label_text

if TYPE_CHECKING:
    import pandas as pd

_MOST_CATEGORIES = 100


@dataclass(frozen=True)
class Column:
    """How one column becomes numbers."""

    name: str
    mean: float = 0.0  # of the training rows; takes the place of a missing number
    spread: float = 1.0
    # Anything else counts as other; None: a column of numbers.
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Return how many numbers a value becomes; the last tells that it is missing or other."""
        return 2 if self.categories is None else len(self.categories) + 1


@dataclass(frozen=True)
class ColumnInputs:
    """Turns rows of a table into vectors."""

    columns: tuple[Column, ...]
    kind = "columns"

    @classmethod
    def fit(cls, table: "pd.DataFrame") -> "ColumnInputs":
        """Return what suits the training rows of a table."""
        return cls(tuple(_column(str(name), table[name]) for name in table.columns))

    @property
    def width(self) -> int:
        """Return how many numbers a row becomes."""
        return sum(column.width for column in self.columns)

    def __call__(self, table: "pd.DataFrame") -> Tensor:
        """Return float32 [rows, width]; columns that are absent count as missing."""
        parts = [_numbers(column, table) for column in self.columns]
        return torch.from_numpy(np.concatenate(parts, axis=1))

    @classmethod
    def of_json(cls, columns: Sequence[dict[str, Any]]) -> "ColumnInputs":
        """Return the inputs of columns that were kept as JSON."""
        return cls(tuple(Column(**with_tuples(column)) for column in columns))


def with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of JSON with tuples in place of lists."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def checked_cells(columns: tuple[Column, ...], cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return new cells as a run takes them: numbers, categories, None where one is missing.

    A word in a column of numbers is an error: counted as missing, it would give another answer than was asked for.
    """
    return {column.name: _cell(column, cells[column.name]) for column in columns if column.name in cells}


def _cell(column: Column, value: Any) -> float | str | None:
    text = label_text(value)
    if column.categories is not None:
        return text or None
    if text.lower() in MISSING:
        return None
    try:
        number = float(text)
    except ValueError as error:
        raise DataFileError(
            f"{text!r} in column {column.name!r} must be a number. Give one, or leave it empty."
        ) from error
    if not math.isfinite(number):
        raise DataFileError(f"{text!r} in column {column.name!r} must be finite. Give a number, or leave it empty.")
    return number


def _column(name: str, values: Any) -> Column:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return Column(name)
        with np.errstate(over="ignore", invalid="ignore"):
            mean, spread = float(numbers.mean()), float(numbers.std())
        if not 0 < spread < math.inf:  # squares of tiny numbers are 0, of huge ones infinite
            size = float(np.abs(numbers).max()) or 1.0
            mean, spread = float((numbers / size).mean()) * size, float((numbers / size).std()) * size
        return Column(name, mean, spread or 1.0)
    most = values.dropna().astype(str).value_counts().index[:_MOST_CATEGORIES]
    return Column(name, categories=tuple(sorted(most)))


def _numbers(column: Column, table: "pd.DataFrame") -> np.ndarray:
    import pandas as pd

    encoded = np.zeros((len(table), column.width), np.float32)
    if column.name not in table.columns:
        encoded[:, -1] = 1
        return encoded
    values = table[column.name]
    if column.categories is None:
        found_numbers: Any = pd.to_numeric(values, errors="coerce")
        numbers = found_numbers.to_numpy(np.float64, na_value=np.nan)
        known = np.isfinite(numbers)
        encoded[known, 0] = (numbers[known] - column.mean) / column.spread
        encoded[~known, 1] = 1
        return encoded
    places = {category: place for place, category in enumerate(column.categories)}
    chosen = [places.get(str(value), -1) for value in values]
    encoded[np.arange(len(table)), chosen] = 1
    return encoded
