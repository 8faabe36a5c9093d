"""Arrays that results hold: checked, of a fixed type, and closed to writing."""

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def floats(given: ArrayLike, name: str) -> Floats:
    """Return the numbers as float32, closed to writing; without a copy if they are both already.

    Args:
        given: numbers in any form.
        name: what to call them in messages.
    """
    array = _array(given, name)
    if array.dtype.kind not in "fiub":
        raise ScoresError(f"{name} are of type {array.dtype}; give real numbers.")
    # Beyond the range of float32 lies infinity, as for every float32 computation.
    with np.errstate(over="ignore"):
        return _as_closed(array, np.dtype(np.float32))


def instance_ids(given: ArrayLike, name: str = "ids") -> Ints:
    """Return instance ids as int64 [n], closed to writing; without a copy if they are both already.

    Args:
        given: integers from 0 to 2**63 − 1.
        name: what to call them in messages.
    """
    array = whole_numbers(given, name)
    if array.size and int(array.min()) < 0:
        raise ScoresError(f"{name} hold {array.min()}; an instance id is an integer from 0 to 2**63 − 1.")
    return array


def whole_numbers(given: ArrayLike, name: str, dims: int = 1) -> Ints:
    """Return integers as int64, closed to writing; without a copy if they are both already.

    Args:
        given: integers in any form.
        name: what to call them in messages.
        dims: how many dimensions they must have.
    """
    array = _array(given, name)
    if array.ndim != dims:
        raise ScoresError(
            f"{name} have shape {list(array.shape)}; give {'[n]' if dims == 1 else f'{dims} dimensions'}."
        )
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ScoresError(f"{name} are of type {array.dtype}; give integers.")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise ScoresError(f"{name} hold {array.max()}; give integers below 2**63.")
    return _as_closed(array, np.dtype(np.int64))


def close(state: dict[str, Any]) -> dict[str, Any]:
    """Close every array of an unpickled object to writing: pickle forgets that it was."""
    for value in state.values():
        if isinstance(value, np.ndarray):
            cast(NDArray[Any], value).flags.writeable = False
    return state


def closed(array: Floats) -> Floats:
    """Return a new array closed to writing: a result takes it without a copy."""
    array.flags.writeable = False
    return array


def same(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    """Tell whether two arrays hold the same, NaN equal to NaN; None is equal to None only."""
    if one is None or other is None:
        return one is other
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))


def near(one: Floats | None, other: Floats | None) -> bool:
    """Tell whether two arrays agree up to what another chunk size or thread count changes; None agrees with None."""
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-5, atol=1e-5, equal_nan=True)


def _array(given: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ScoresError(f"{name} cannot be read as an array: {error}") from error


def _as_closed(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if array.dtype == dtype and not _can_change(array):
        return array
    result = np.array(array, dtype, order="C")
    result.flags.writeable = False
    return result


def _can_change(array: NDArray[Any]) -> bool:
    """Tell whether someone may still write to the array, through the memory that it shares too."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if cast(NDArray[Any], owner).flags.writeable:
            return True
        owner = cast(Any, owner).base
    return owner is not None
