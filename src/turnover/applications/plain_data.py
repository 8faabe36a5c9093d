"""Results as JSON could hold them, and as tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from turnover.scores import load_pandas

if TYPE_CHECKING:
    import pandas


def plain(value: Any) -> Any:
    """Return a value as JSON could hold it: dataclasses as dicts, arrays as lists, numbers that are none as None.

    Example:
        >>> plain({"score": np.float32(0.5), "rows": np.arange(2), "missing": float("nan")})
        {'score': 0.5, 'rows': [0, 1], 'missing': None}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def table_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> "pandas.DataFrame":
    """Return rows as a table with these columns, also where there are no rows; needs pandas."""
    return load_pandas().DataFrame(list(rows), columns=list(columns))
