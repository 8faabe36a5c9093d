"""Arrays that results hold: checked, of a fixed type, read-only; read in blocks; averaged without failed pairs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from turnover.errors import MissingExtraError, ScoresError
from turnover.ids import Ids, Ints, Names, named_ids

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Doubles = NDArray[np.float64]
_T = TypeVar("_T", bound=np.generic)

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
        raise ScoresError(f"{name} must have {dims} dimension{'s' * (dims > 1)}, got shape {list(array.shape)}.")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise ScoresError(f"{name} must be integers, got {array.dtype}.")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise ScoresError(f"{name} must be below 2**63, got {array.max()}.")
    return _read_only(array, np.dtype(np.int64))


def instance_ids(given: ArrayLike, name: str = "ids") -> Ints:
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


def load_pandas() -> Any:
    return load_package("pandas", "tables need pandas: pip install 'turnover[store]'.")


def load_package(name: str, missing: str) -> Any:
    """Return a package or a part of one, or raise with what is missing without it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(missing) from error


def closed(array: NDArray[_T]) -> NDArray[_T]:
    """Return a new array, read-only: a result takes it without a copy."""
    array.flags.writeable = False
    return array


def close(state: dict[str, Any]) -> dict[str, Any]:
    """Make every array of an unpickled object read-only: pickle forgets that it was."""
    for value in state.values():
        if isinstance(value, np.ndarray):
            cast(NDArray[Any], value).flags.writeable = False
    return state


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


def _read_only(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the array itself where nobody can write to it, through the memory that it shares too, else a copy."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not cast(NDArray[Any], owner).flags.writeable:
        owner = cast(Any, owner).base
    if array.dtype == dtype and owner is None:
        return array
    return closed(np.array(array, dtype, order="C"))


class Source:
    """Numbers [n] or [n, m] that can be read in part; here those in memory, read-only."""

    folder: str | None = None
    """Where the numbers still have to be read from; None: they are in memory."""

    step = 1
    """How many rows are best read together."""

    shape: tuple[int, ...]

    def __init__(self, array: Floats) -> None:
        self._array, self.shape = array, array.shape

    @property
    def whole(self) -> Floats:
        return self._array

    def rows(self, start: int, stop: int) -> Floats:
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
    means, offsets = np.empty((2, source.shape[0]), np.float32)
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


def _mean(values: Floats, valid: Bools) -> Doubles:
    # 0 / 0 where all failed and inf − inf are NaN, which is what they should be.
    with np.errstate(all="ignore"):
        return np.where(valid, values, np.float32(0)).sum(axis=1, dtype=np.float64) / valid.sum(axis=1)


@dataclass(frozen=True, eq=False)
class TokenScores:
    """Scores of the tokens of n rows. Rows differ in length, so all tokens lie in one array, row after row."""

    values: Floats  # float32, the tokens of all rows
    starts: Ints  # int64 [n + 1], where each row begins; the last is the end

    @classmethod
    def of_rows(cls, rows: Iterable[ArrayLike]) -> "TokenScores":
        """Return the scores of rows that are given as one array each."""
        parts = [floats(row, "tokens") for row in rows]
        for place, part in enumerate(parts):
            if part.ndim != 1:
                raise ScoresError(f"tokens of row {place} must be one list [tokens], got shape {list(part.shape)}.")
        values = np.concatenate([np.empty(0, np.float32), *parts])
        starts = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)]).astype(np.int64)
        return cls(**close({"values": values, "starts": starts}))

    @classmethod
    def concat(cls, parts: Sequence["TokenScores | None"]) -> "TokenScores | None":
        """Return the tokens of several results one after the other; None where no part has any."""
        known = [part for part in parts if part is not None]
        if not known:
            return None
        if len(known) < len(parts):
            raise ScoresError(
                "some parts have scores of tokens and others have none. Compute all parts with one loss [rows, tokens]."
            )
        return cls.of_rows([part.row(place) for part in known for place in range(len(part))])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, place: int) -> Floats:
        return self.values[self.starts[place] : self.starts[place + 1]]

    def take(self, places: Sequence[int] | Ints) -> "TokenScores":
        return TokenScores.of_rows([self.row(int(place)) for place in places])

    def equals(self, other: "TokenScores | None") -> bool:
        return other is not None and same(self.values, other.values) and same(self.starts, other.starts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(close(state))


class Views(Protocol):
    """Knows rows as people see them: uint8 pixels [height, width, channels], or a text; None: not known."""

    def instance(self, mask_id: int) -> Any:
        """Return the row of an instance, of a group its first."""
        ...

    def query(self, name: Any) -> Any:
        """Return a query by its name."""
        ...


class Viewed:
    """A result that may know its rows as people see them. They are neither compared nor written nor pickled."""

    views: Views | None = None

    def seen_by(self, views: Views | None) -> Any:
        """Give the result what knows its rows, and return it."""
        object.__setattr__(self, "views", views)
        return self

    def __getstate__(self) -> dict[str, Any]:
        # The rows are left out: they may be a whole data set.
        return {name: value for name, value in vars(self).items() if name != "views"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(close(state))


class OfInstances(Viewed):
    """A result with one row per instance."""

    def __init__(self, ids: ArrayLike, mask_ids: ArrayLike | None) -> None:
        self._ids, self._mask_ids, self._names = both_ids(ids, mask_ids)

    @property
    def ids(self) -> Ids:
        """Return the ids of the instances as they were given [n]: int64, or objects where there are strings."""
        return self._ids

    @property
    def mask_ids(self) -> Ints:
        """Return the integers that the masks of the instances are made of, int64 [n]: what `instances` takes."""
        return self._mask_ids

    @property
    def names(self) -> Names:
        """Return the names of instances that are not called by their mask id."""
        return self._names

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._ids)
