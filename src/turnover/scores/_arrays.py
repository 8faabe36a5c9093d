"""Arrays that results hold: checked, of a fixed type, read-only; read in blocks; averaged without failed pairs."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import ScoresError
from turnover.ids import Ids, Ints, Names, named_ids

Floats = NDArray[np.float32]

_BLOCK = 2**22
"""Numbers worked on at a time: enough to be fast, and never a second copy of a large result."""


def floats(given: ArrayLike, name: str) -> Floats:
    """Return the numbers as float32, read-only; without a copy if they are both already."""
    array = _array(given, name)
    if array.dtype.kind not in "fiub":
        raise ScoresError(f"{name} must be real numbers, got {array.dtype}.")
    # Beyond the range of float32 lies infinity, as for every float32 computation.
    with np.errstate(over="ignore"):
        return _read_only(array, np.dtype(np.float32))


def integers(given: ArrayLike, name: str, dims: int = 1) -> Ints:
    """Return integers as int64, read-only; without a copy if they are both already."""
    array = _array(given, name)
    if array.ndim != dims:
        needed = "have shape [n]" if dims == 1 else f"have {dims} dimensions"
        raise ScoresError(f"{name} must {needed}, got {list(array.shape)}.")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ScoresError(f"{name} must be integers, got {array.dtype}.")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise ScoresError(f"{name} must be below 2**63, got {array.max()}.")
    return _read_only(array, np.dtype(np.int64))


def instance_ids(given: ArrayLike, name: str = "ids") -> Ints:
    """Return instance ids as int64 [n], read-only; without a copy if they are both already."""
    array = integers(given, name)
    if array.size and int(array.min()) < 0:
        raise ScoresError(f"{name} must be integers from 0 to 2**63 − 1, got {array.min()}.")
    return array


def both_ids(ids: Any, mask_ids: ArrayLike | None, name: str = "ids", dims: int = 1) -> tuple[Ids, Ints, Names]:
    """Return ids as people see them, their mask ids, both read-only, and names; where there are none, both are one.

    In two dimensions, those of lists, −1 and None stand for no instance.
    """
    is_number = getattr(getattr(ids, "dtype", None), "kind", "O") in "iu"
    if mask_ids is not None and is_number and same(np.asarray(ids), np.asarray(mask_ids)):
        mask_ids = None
    named = named_ids(ids, mask_ids, ScoresError)
    numbers = ids if named is None else named[1]
    checked = instance_ids(numbers, name) if dims == 1 else integers(numbers, name, dims)
    if named is None:
        return checked, checked, Names()
    if named[0].shape != checked.shape:
        raise ScoresError(f"{name} have shape {list(named[0].shape)} and their mask ids {list(checked.shape)}.")
    names = Names.of(checked.ravel(), named[0].ravel())
    return (named[0], checked, names) if names else (checked, checked, names)


def close(state: dict[str, Any]) -> dict[str, Any]:
    """Make every array of an unpickled object read-only: pickle forgets that it was."""
    for value in state.values():
        if isinstance(value, np.ndarray):
            cast(NDArray[Any], value).flags.writeable = False
    return state


def closed(array: Floats) -> Floats:
    """Return a new array, read-only: a result takes it without a copy."""
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


def joined_arrays(arrays: list[Floats | None], axis: int) -> Floats | None:
    """Return the arrays that are there as one, read-only; None where there are none."""
    known = [array for array in arrays if array is not None]
    return closed(np.concatenate(known, axis=axis)) if known else None


def _array(given: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ScoresError(f"{name} cannot be read as an array: {error}") from error


def _read_only(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
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


class Source:
    """Numbers [n] or [n, m] that can be read in part; here those in memory, read-only."""

    def __init__(self, array: Floats) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Return [n] or [n, m]."""
        return self.whole.shape

    @property
    def whole(self) -> Floats:
        """Return all numbers, read-only."""
        return self._array

    @property
    def folder(self) -> str | None:
        """Return where the numbers still have to be read from; None: they are in memory."""
        return None

    @property
    def step(self) -> int:
        """Return how many rows are best read together."""
        return 1

    def rows(self, start: int, stop: int) -> Floats:
        """Return the rows from `start` to `stop`."""
        return self.whole[start:stop]

    def take(self, rows: Ints | None, columns: Ints | None) -> Floats:
        """Return these rows and columns in this order; None stands for all."""
        if rows is not None and columns is not None:
            return self.whole[np.ix_(rows, columns)]
        if columns is not None:
            return self.whole[:, columns]
        return self.whole if rows is None else self.whole[rows]

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(close(state))


def source_of(given: ArrayLike | Source, name: str) -> Source:
    """Return the source given, or one of the numbers given; `name` is what to call them in messages."""
    return given if isinstance(given, Source) else Source(floats(cast(ArrayLike, given), name))


def blocks(source: Source) -> Iterator[tuple[int, int, Floats]]:
    """Yield all rows in order, some at a time, with the number of the first and of the one after the last."""
    width = max(1, int(np.prod(source.shape[1:])))
    height = max(1, _BLOCK // width // source.step) * source.step
    for start in range(0, source.shape[0], height):
        stop = min(start + height, source.shape[0])
        yield start, stop, source.rows(start, stop)


def row_means(values: Floats) -> Floats:
    """Return the mean of every row, of the numbers in it that are not NaN; NaN where there are none."""
    return _mean(values, ~np.isnan(values)).astype(np.float32)


def mean_over_queries(source: Source, offset: Floats | None) -> tuple[Floats, Floats | None]:
    """Return each row's mean over the queries [n], and the mean of the offsets [m] that are in it.

    That is one number where no pair failed, else [n]: a failed pair takes its query's offset out of the row's mean.
    """
    means = np.empty(source.shape[0], np.float32)
    offsets = np.empty(source.shape[0], np.float32)
    failed = False
    for start, stop, values in blocks(source):
        valid = ~np.isnan(values)
        failed = failed or not valid.all()
        means[start:stop] = _mean(values, valid)
        if offset is not None:
            offsets[start:stop] = _mean(np.broadcast_to(offset, values.shape), valid)
    if offset is None:
        return means, None
    return means, offsets if failed else row_means(offset[None])[0]


def spread(null: Floats) -> Floats:
    """Return the standard deviation over null ids (the first dimension); NaN where fewer than two are not NaN."""
    columns = null.reshape(len(null), -1).T
    valid = ~np.isnan(columns)
    centered = np.where(valid, columns - _mean(columns, valid)[:, None], 0.0)
    with np.errstate(all="ignore"):
        variance = np.square(centered).sum(axis=1) / (valid.sum(axis=1) - 1)
        variance[valid.sum(axis=1) < 2] = np.nan
        return np.sqrt(variance).astype(np.float32).reshape(null.shape[1:])


def _mean(values: Floats, valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    # 0 / 0 where all failed and inf − inf are NaN, which is what they should be.
    with np.errstate(all="ignore"):
        return np.where(valid, values, np.float32(0)).sum(axis=1, dtype=np.float64) / valid.sum(axis=1)
