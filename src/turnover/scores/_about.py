"""What a result says about itself: unit, path, provenance; names of queries; numbers per query; rows of ids."""

import difflib
import json
from collections.abc import Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.ids import Ints, Name, Names

from ._arrays import Floats, floats, instance_ids

SIGN = "positive: the training instance helps"
"""What the sign of every score means."""

Over = Literal["queries", "ids"]
_MOST_NAMED = 5


@dataclass(frozen=True)
class About:
    """Unit, path, replicas and provenance of a result, checked; the provenance is a copy that JSON can hold."""

    unit: str  # what scores are differences of: "loss", "probability", "margin", or a function's name
    path: str  # how they were computed, for people to read
    replicas: int  # over how many networks they are averaged
    provenance: dict[str, Any]  # all that they depend on
    standardized: bool = False  # whether each query's scores are divided by their root mean square

    def __post_init__(self) -> None:
        if not isinstance(self.unit, str) or not self.unit:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScoresError(f'unit must name what scores are differences of, such as "loss", got {self.unit!r}.')
        if not isinstance(self.path, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScoresError(f"path must be a string that says how scores were computed, got {self.path!r}.")
        if not isinstance(self.replicas, int) or self.replicas < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScoresError(f"replicas must be an integer >= 1, got {self.replicas!r}.")
        object.__setattr__(self, "provenance", plain_provenance(self.provenance))

    @classmethod
    def of(cls, result: Any) -> "About":
        """Return what a Scores or a Top says about itself."""
        return cls(**{field.name: getattr(result, field.name) for field in fields(cls)})


def method_of(provenance: Mapping[str, Any]) -> str:
    """Return the name of the estimator that made scores; "" where the provenance does not tell."""
    options = provenance.get("options")
    if not isinstance(options, Mapping):
        return ""
    options = cast("Mapping[str, Any]", options)
    return str(options["estimator"]["name"]) if "estimator" in options else "tod"


def plain_provenance(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy that JSON can hold; None: nothing is known."""
    named = {str(key): value for key, value in (given or {}).items()}
    try:
        # What comes back from a file must equal what was given, so it is written and read once here.
        return json.loads(json.dumps(named, allow_nan=False))
    except (TypeError, ValueError) as error:
        wrong = next(key for key, value in named.items() if not _is_json(value))
        raise ScoresError(
            f"provenance[{wrong!r}] cannot be written as JSON ({error}); give strings, numbers, lists and dicts."
        ) from error


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def agreed(parts: Sequence[About], over: Over) -> About:
    """Return what all parts say together; raise where they are results of different things.

    Paths may differ (both ways compute the same) and are listed. The entry of the provenance that describes what the
    parts are joined over differs by nature and is listed too.
    """
    first = parts[0]
    problems: list[str] = []
    for place, part in enumerate(parts):
        for name in ("unit", "replicas", "standardized"):
            problems += _difference(place, name, getattr(first, name), getattr(part, name))
        for key in sorted((first.provenance.keys() | part.provenance.keys()) - {over}):
            problems += _difference(place, key, first.provenance.get(key), part.provenance.get(key))
    if problems:
        raise ScoresError("these are scores of different things: " + "; ".join(problems))
    provenance = deepcopy(first.provenance)
    entries = [part.provenance.get(over) for part in parts]
    if any(entry != entries[0] for entry in entries):
        provenance[over] = entries
    return replace(first, path=" | ".join(dict.fromkeys(part.path for part in parts)), provenance=provenance)


def _difference(place: int, name: str, first: object, other: object) -> list[str]:
    return [] if first == other else [f"{name} is {_short(first)} in part 0 and {_short(other)} in part {place}"]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def query_name(given: Any) -> Name:
    """Return a query's name as a plain string or integer."""
    if hasattr(given, "item"):
        given = given.item()
    if isinstance(given, str):
        return str(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return int(given)
    raise ScoresError(f"the name of a query must be a string or an integer, got {given!r}.")


def query_names(given: Sequence[Name] | None, count: int) -> tuple[Name, ...]:
    """Return the names of `count` queries, each its own, checked; None: they are numbered."""
    if given is None:
        return tuple(range(count))
    check_listed(given)
    names = tuple(query_name(name) for name in given)
    if len(names) != count:
        raise ScoresError(f"there are {len(names)} names in queries= and {count} queries (columns of values).")
    if len(set(names)) < count:
        again = next(name for place, name in enumerate(names) if name in names[:place])
        raise ScoresError(f"two queries have the name {again!r}; give every query a name of its own.")
    return names


def check_listed(queries: Any) -> None:
    """Raise where names of queries are one string, whose letters would be taken, or a set, which has no order."""
    if isinstance(queries, str | bytes | Set):
        raise ScoresError(f"queries must be a list of names, in the order of the columns, got {queries!r}.")


def joined_names(parts: Sequence[tuple[Name, ...]]) -> tuple[Name, ...]:
    """Return the names of the queries of all parts; queries that are numbered in every part are numbered anew."""
    together = tuple(name for part in parts for name in part)
    numbered = all(part == tuple(range(len(part))) for part in parts)
    return tuple(range(len(together))) if numbered else together


def columns_of(names: Sequence[Name], queries: tuple[Name, ...] | None) -> Ints:
    """Return the columns of the queries with these names, in that order."""
    if queries is None:
        raise ScoresError("these are one score per instance; there are no queries to choose from.")
    columns = {name: column for column, name in enumerate(queries)}
    for name in names:
        if name not in columns:
            similar = difflib.get_close_matches(str(name), [str(query) for query in queries], n=1)
            hint = f"did you mean {similar[0]!r}?" if similar else "see .queries for those there are."
            raise ScoresError(f"there is no query {name!r}; {hint}")
    return np.array([columns[name] for name in names], np.int64)


def rows_of(chosen: Any, ids: Ints, names: Names) -> Ints:
    """Return the rows of the chosen instances among mask ids, in that order; all rows where several have one id."""
    if isinstance(chosen, str | int | np.integer):
        raise ScoresError(f"ids must be a list of ids, got {chosen!r}. Give ids=[{chosen!r}].")
    chosen_ids = instance_ids(names.mask_ids(chosen, error=ScoresError))
    order = np.argsort(ids, kind="stable")
    first = np.searchsorted(ids, chosen_ids, side="left", sorter=order)
    counts = np.searchsorted(ids, chosen_ids, side="right", sorter=order) - first
    unknown = chosen_ids[counts == 0]
    if unknown.size:
        more = f" and {unknown.size - _MOST_NAMED} more" if unknown.size > _MOST_NAMED else ""
        listed = ", ".join(map(str, names.shown(unknown[:_MOST_NAMED])))
        raise ScoresError(f"there are no scores of instance {listed}{more}; see .ids for those there are.")
    # The r-th row of an id that starts at place p of the order is order[p + r].
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(first, counts) + within].astype(np.int64)


def per_query(given: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    """Return numbers that belong to queries, such as the offset, for scores of this shape, checked.

    One number, or as many as there are queries; for scores [n] as many as rows, each its own query.
    """
    array = floats(given, name)
    if array.ndim == 0 and len(shape) == 2:
        array = floats(np.full(shape[1], array), name)
    if array.shape == shape[-1:] or (array.ndim == 0 and len(shape) == 1):
        return array
    needed = f"[{shape[1]}], one per query" if len(shape) == 2 else f"[], one number, or [{shape[0]}], one per row"
    raise ScoresError(f"{name} must have shape {needed}, got {list(array.shape)}.")


def null_scores(given: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return the scores of null ids for scores of this shape, checked."""
    array = floats(given, "null")
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        needed = "[j]" if len(shape) == 1 else f"[j, {shape[1]}]"
        raise ScoresError(f"null must hold the scores of j null ids, {needed}, got {list(array.shape)}.")
    if len(array) < 2:
        raise ScoresError(f"null must hold the scores of 2 null ids or more, got {len(array)}.")
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
