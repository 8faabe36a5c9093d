"""Scores of any library as one float64 matrix, its rows in the order that is asked for."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from turnover.errors import ScoresError
from turnover.scores import Scores

from .correlation import Floats

AnyScores = Scores | ArrayLike | Tensor


def matrix_of(scores: AnyScores, *, ids: ArrayLike | None = None, name: str = "scores") -> Floats:
    """Return scores as float64 [rows, queries]; scores [rows] become one column.

    Args:
        scores: `Scores`, whose rows are put in the order of `ids`; or a plain array, whose rows are in it already.
        ids: the instance id of every row; None: row numbers.
        name: what to call the scores in messages.

    Raises:
        ScoresError: ids are missing, shapes do not fit, or a score is not finite.

    Example:
        >>> from turnover.scores import Scores
        >>> matrix_of(Scores([[1.0], [2.0]], ids=[8, 7]), ids=[7, 8])
        array([[2.],
               [1.]])
    """
    wanted = None if ids is None else np.asarray(ids)
    if isinstance(scores, Scores):
        values = scores.values[_places(scores.ids, wanted, name)].astype(np.float64)
    else:
        values = numbers_of(scores, name)
        if wanted is not None and values.ndim and len(values) != len(wanted):
            raise ScoresError(f"{name} have {len(values)} rows and there are {len(wanted)} ids. Give one row an id.")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or not values.size:
        raise ScoresError(f"{name} have shape {list(values.shape)}. Give [rows, queries], or [rows].")
    failed = int((~np.isfinite(values)).sum())
    if failed:
        raise ScoresError(f"{failed} of {values.size} {name} are not finite. Leave out those rows or queries first.")
    return values


def numbers_of(given: Any, name: str) -> Floats:
    """Return numbers in any form as a float64 array."""
    if isinstance(given, Scores):
        given = given.values
    if isinstance(given, Tensor):
        given = given.detach().cpu().numpy()
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScoresError(f"{name} cannot be read as an array of numbers: {error}") from error


def _places(have: NDArray[np.int64], wanted: NDArray[Any] | None, name: str) -> Any:
    """Return the place of every wanted id among those there are."""
    if wanted is None:
        if np.array_equal(have, np.arange(len(have))):
            return slice(None)
        raise ScoresError(
            f"{name} have ids of their own ({have[:3].tolist()}...), not row numbers. "
            "Give the id of every row: ids=recipe.ids."
        )
    if np.array_equal(have, wanted):
        return slice(None)
    if len(np.unique(have)) < len(have) or len(np.unique(wanted)) < len(wanted):
        raise ScoresError(f"{name} and ids are in another order, and rows that share an id cannot be told apart.")
    order = np.argsort(have)
    places = order[np.searchsorted(have, wanted, sorter=order).clip(max=len(have) - 1)]
    missing = wanted[have[places] != wanted]
    if missing.size:
        raise ScoresError(
            f"{name} lack {missing.size} of {wanted.size} instances ({missing[:5].tolist()}...). Score all of them."
        )
    return places
