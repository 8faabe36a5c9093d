"""Numbers that belong to queries, such as the offset: [m] for pairs; one number, or one a row, for scores [n]."""

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError

from .arrays import Floats, Ints, floats


def per_query(given: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    """Return the numbers for scores of this shape, checked.

    Args:
        given: one number, or as many as there are queries; for scores [n] as many as rows, each its own query.
        shape: [n, m] or [n].
        name: what to call them in messages.
    """
    array = floats(given, name)
    if array.ndim == 0 and len(shape) == 2:
        array = floats(np.full(shape[1], array), name)
    if array.shape == shape[-1:] or (array.ndim == 0 and len(shape) == 1):
        return array
    needed = f"one a query: [{shape[1]}]" if len(shape) == 2 else f"one number, or one a row: [{shape[0]}]"
    raise ScoresError(f"{name} has shape {list(array.shape)}; give {needed}.")


def null_scores(given: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return the scores of never-trained ids for scores of this shape, checked."""
    array = floats(given, "null")
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        needed = "[j]" if len(shape) == 1 else f"[j, {shape[1]}]"
        raise ScoresError(f"null has shape {list(array.shape)}; give the scores of j never-trained ids: {needed}.")
    if len(array) < 2:
        raise ScoresError(f"null holds the scores of {len(array)} never-trained ids; a spread needs 2 or more.")
    return array


def is_per_row(array: Floats | None, shape: tuple[int, ...]) -> bool:
    """Tell whether the numbers belong to rows, each a query of its own."""
    return array is not None and array.ndim == 1 and len(shape) == 1


def part_of(array: Floats | None, shape: tuple[int, ...], rows: Ints | None, columns: Ints | None) -> Floats | None:
    """Return the numbers of some rows and queries of scores of this shape; None stands for all."""
    if array is None or array.ndim == 0:
        return array
    chosen = rows if is_per_row(array, shape) else columns
    return array if chosen is None else array[chosen]
