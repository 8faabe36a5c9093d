"""What instances are called: the integers that masks are made of, and the names that users gave.

Masks know integers only, the *mask ids*: row numbers, integers of a column, or hashes of strings. People see *ids*:
what they gave, strings or integers. `Names` goes from the one to the other and back; results hold both side by side.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnover.errors import InstanceIdError, TurnOverError

FIRST_RESERVED_ID = 2**62
"""From here on ids belong to instances that were never trained."""

Name = str | int
"""What a user calls an instance or a query."""

Ints = NDArray[np.int64]
Ids = NDArray[Any]
"""Names in an array: int64 where all are integers from 0 on (none: −1), else objects (none: None)."""

_SHOWN = 3
_COMPARED = 20_000  # names that a wrong one is compared with: the comparison takes microseconds each


def instance_id_of(string: str) -> int:
    """Return the mask id of a string: 62 bits of its BLAKE2b hash.

    The hash is BLAKE2b with a digest of 8 bytes and no key, over the UTF-8 bytes, read as a
    little-endian number modulo 2**62.

    Args:
        string: an id or group name as it stands in your column.

    Example:
        >>> instance_id_of("review-17")
        476552979230029453
    """
    digest = blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % FIRST_RESERVED_ID


@dataclass(frozen=True)
class Names:
    """The names of instances by mask id; an instance without one is called by its mask id.

    Example:
        >>> names = Names.of([0, 1], ["doc-1", "doc-2"])
        >>> names.shown(np.array([1, 0])).tolist(), names.mask_ids(["doc-2"]).tolist()
        (['doc-2', 'doc-1'], [1])
    """

    by_id: Mapping[int, Name] = field(default_factory=dict[int, Name])
    _by_name: dict[Name, int] = field(default_factory=dict[Name, int], init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raise where two instances have one name."""
        again: dict[Name, list[int]] = {}
        for number, name in self.by_id.items():
            other = self._by_name.setdefault(name, number)
            if other != number:
                again.setdefault(name, [other]).append(number)
        if again:
            listed = "; ".join(
                f"{name!r} of {' and '.join(map(str, numbers[:_SHOWN]))}"
                for name, numbers in list(again.items())[:_SHOWN]
            )
            more = f" and {len(again) - _SHOWN:,} more" if len(again) > _SHOWN else ""
            raise InstanceIdError(
                f"several instances have one name: {listed}{more} (names with their mask ids). Give every instance a "
                "name of its own; a DataFrame gets one by reset_index(drop=True)."
            )

    @classmethod
    def of(cls, mask_ids: Iterable[int], names: Iterable[Any]) -> "Names":
        """Return the names of these instances; raise where one of them has two, or two of them have one."""
        by_id: dict[int, Name] = {}
        for number, given in zip(_listed(mask_ids), _listed(names), strict=True):
            if number >= 0 and by_id.setdefault(number, name := plain_name(given)) != name:
                raise collision(name, by_id[number], number)
        return cls(by_id if any(name != number for number, name in by_id.items()) else {})

    @classmethod
    def given(cls, names: "Mapping[int, Any] | Iterable[Any] | None") -> "Names":
        """Return names that a user gave: by mask id, or those of the mask ids 0, 1, 2 and so on; None: there are none.

        Example:
            >>> Names.given(["a", "b"]).by_id
            {0: 'a', 1: 'b'}
        """
        if names is None:
            return cls()
        if isinstance(names, str | bytes):
            raise InstanceIdError(f"names must be a mapping or a sequence, got {names!r}. Give one name per instance.")
        if isinstance(names, Set):
            raise InstanceIdError("names are a set, which has no order. Give a list, or names by id: {0: 'a', 1: 'b'}.")
        if isinstance(names, Mapping):
            wrong = [key for key in names if isinstance(key, bool) or not isinstance(key, int | np.integer)]
            if wrong:
                raise InstanceIdError(
                    f"names are given by ids, which are integers, got {wrong[0]!r}. Give them as {{0: 'a', 1: 'b'}}."
                )
            return cls.of(names.keys(), names.values())
        every = _listed(names)
        return cls.of(range(len(every)), every)

    def __bool__(self) -> bool:
        """Tell whether any instance has a name."""
        return bool(self.by_id)

    def __or__(self, other: "Names") -> "Names":
        """Return both, those on the right where an instance has two."""
        return self if not other else other if not self else Names({**self.by_id, **other.by_id})

    def shown(self, mask_ids: Ints) -> Ids:
        """Return ids as people see them, in the shape of the mask ids; a mask id below 0 stands for none."""
        if not self.by_id:
            return mask_ids
        names = [None if number < 0 else self.by_id.get(number, number) for number in mask_ids.ravel().tolist()]
        return id_array(names).reshape(mask_ids.shape)

    def mask_ids(self, given: Any, *, error: type[TurnOverError] = InstanceIdError) -> Any:
        """Return the mask ids of ids as users give them, int64; where these hold no names, they come back as they are.

        A string is a name. So is an integer where names are integers; where they are strings, it is a mask id.

        Args:
            given: ids, a sequence or an array.
            error: what to raise for an unknown name.
        """
        if not self._has_integers and not strings_in(given):
            return given
        names = list(map(plain_name, _listed(given)))
        found = [self._by_name.get(name) for name in names]
        unknown = [
            name
            for name, number in zip(names, found, strict=True)
            if number is None and (self._has_integers or isinstance(name, str))
        ]
        if unknown:
            unknown = list(dict.fromkeys(unknown))
            near = near_names(str(unknown[0]), map(str, self.by_id.values()))
            hint = f"Did you mean {near}?" if near else "See .ids for those there are."
            more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
            raise error(f"there is no instance {', '.join(map(repr, unknown[:_SHOWN]))}{more}. {hint}")
        numbers = [name if number is None else number for name, number in zip(names, found, strict=True)]
        return np.array(numbers, np.int64)

    def check_all_named(self, mask_ids: Ints) -> None:
        """Raise where names that were given for 0, 1, 2 and so on are not as many as the instances of these ids."""
        named, most = len(self.by_id), int(mask_ids.max(initial=-1)) + 1
        # Some of many rows have gaps between their numbers, and names of all rows suit them, too.
        if named < most or (named > most == len(mask_ids)):
            raise InstanceIdError(
                f"names has {named:,} names, and train has {len(mask_ids):,} instances with ids up to {most - 1}. Give "
                "one name for each row, in their order, or names by id: {0: 'a', 1: 'b'}."
            )

    @cached_property
    def _has_integers(self) -> bool:
        """Tell whether an integer may be the name of another mask id."""
        return any(not isinstance(name, str) and name != number for number, name in self.by_id.items())


def strings_in(given: Any) -> list[str]:
    """Return the strings among ids; arrays of numbers and ranges are not looked at."""
    looked_at = isinstance(given, Sequence) and not isinstance(given, range | str)
    if not looked_at and getattr(getattr(given, "dtype", None), "kind", "i") not in "OUT":
        return []
    return [str(one) for one in np.asarray(given, object).flat if isinstance(one, str)]


def near_names(name: str, known: Iterable[str]) -> str:
    """Return the names that are nearest to one, for a message; "" where none is.

    Example:
        >>> near_names("doc-33", ["doc-1", "doc-3", "page"])
        "'doc-3' or 'doc-1'"
    """
    names = list(known)
    if len(names) > _COMPARED:
        names = [one for one in names if one[:3] == name[:3] or one[-3:] == name[-3:]][:_COMPARED]
    return " or ".join(map(repr, difflib.get_close_matches(name, names, n=_SHOWN)))


def named_ids(given: Any, mask_ids: Any, error: type[TurnOverError]) -> tuple[Ids, Any] | None:
    """Return names and their mask ids where names were given; None: what was given are mask ids.

    Strings without mask ids get their hashes; None stands for no instance.
    """
    if mask_ids is None and not strings_in(given):
        return None
    names = np.asarray(given, object)
    if mask_ids is None:
        wrong = [one for one in names.flat if not isinstance(one, str | int | None)]
        if wrong:
            raise error(f"ids must be strings or integers, got {wrong[0]!r} of type {type(wrong[0]).__name__}.")
        numbers = [-1 if one is None else instance_id_of(one) if isinstance(one, str) else one for one in names.flat]
        mask_ids = np.array(numbers, np.int64).reshape(names.shape)
    none = np.asarray(mask_ids).ravel() < 0 if np.size(mask_ids) == names.size else np.zeros(names.size, bool)
    listed = [None if is_none else plain_name(one) for one, is_none in zip(names.flat, none, strict=True)]
    return id_array(listed).reshape(names.shape), mask_ids


def id_array(names: Sequence[Name | None]) -> Ids:
    """Return names as an array, read-only; None stands for no instance."""
    if all(name is None or (isinstance(name, int) and 0 <= name < 2**63) for name in names):
        array: Ids = np.array([-1 if name is None else name for name in names], np.int64)
    else:
        array = np.empty(len(names), object)
        array[:] = names
    array.flags.writeable = False
    return array


def plain_name(given: Any) -> Name:
    """Return a name as a plain string or integer; anything else could not come back as it was."""
    is_time = isinstance(given, np.datetime64 | np.timedelta64)  # which would become nanoseconds
    value = given.item() if hasattr(given, "item") and not isinstance(given, str) and not is_time else given
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    raise InstanceIdError(
        f"names of instances must be strings or integers, got {given!r} of type {type(given).__name__}. Give texts, of "
        "an index for example index.map(str), or row numbers: reset_index(drop=True)."
    )


def collision(value: object, other: object, number: int) -> InstanceIdError:
    """Return the error for two names of one instance."""
    return InstanceIdError(
        f"{value!r} and {other!r} both have the instance id {number}. Rename one of them, or give the column as "
        "integers."
    )


def _listed(given: Any) -> list[Any]:
    if getattr(getattr(given, "dtype", None), "kind", "") in "mM":  # dates, which tolist makes nanoseconds of
        return list(given)
    return given.tolist() if hasattr(given, "tolist") else list(given)
