"""Which rows repeat another: the same text but for case and spaces, the same pixels, the same values."""

import unicodedata
from hashlib import blake2b
from typing import Any

import numpy as np

from .rows import Rows


def copies_of(rows: Rows) -> np.ndarray:
    """Return a number for every row, the same for rows that repeat each other, from 0 in order of appearance.

    Rows of a table of which most repeat another one are no copies: there are just few combinations of values.

    Args:
        rows: texts, images or a table.

    Example:
        >>> import pandas as pd
        >>> texts = ["Good film", "bad", "good  film"]
        >>> rows = Rows("text", pd.DataFrame(), texts, np.zeros(3), ("0",), "y", "", ("", "", ""))
        >>> copies_of(rows)
        array([0, 1, 0])
    """
    if rows.kind == "text":
        keys = np.array([_hash(normalized(text).encode("utf-8", "surrogatepass")) for text in rows.values], np.uint64)
    elif rows.kind == "image":
        keys = np.array([_hash(np.ascontiguousarray(image).data) for image in rows.values], np.uint64)
    else:
        keys = _of_values(rows)
    _, firsts, numbers = np.unique(keys, return_index=True, return_inverse=True)
    if rows.kind == "table" and len(firsts) < len(rows) / 2:
        return np.arange(len(rows))
    order = np.empty(len(firsts), np.int64)
    order[np.argsort(firsts)] = np.arange(len(firsts))
    return order[numbers.reshape(-1)]


def normalized(text: str) -> str:
    """Return a text without what does not make it another one: case, spaces and forms of the same letter.

    Example:
        >>> normalized(" A  Good film")
        'a good film'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def _hash(content: bytes | memoryview) -> int:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def _of_values(rows: Rows) -> np.ndarray:
    import pandas as pd
    from pandas.util import hash_pandas_object

    table = rows.values.copy()
    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            table[name] = table[name].map(lambda value: normalized(str(value)), na_action="ignore").astype(object)
    hashed: Any = hash_pandas_object  # pandas tells no type of it
    return hashed(table, index=False).to_numpy(np.uint64)
