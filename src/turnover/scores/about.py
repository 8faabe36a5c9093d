"""What a result says about itself: its unit, how it was computed, and from what."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

from turnover.errors import ScoresError

SIGN = "positive: the training instance helps"
"""What the sign of every score means."""

Name = str | int
"""A query's name; queries without names are numbered from 0."""

Over = Literal["queries", "ids"]


@dataclass(frozen=True)
class About:
    """Unit, path, replicas and provenance of a result.

    Attributes:
        unit: what scores are differences of: "loss", "probability", "margin", or a function's name.
        path: how they were computed, for people to read.
        replicas: over how many networks they are averaged.
        provenance: all that they depend on, as plain data.
    """

    unit: str
    path: str
    replicas: int
    provenance: dict[str, Any]


def about(unit: str, path: str, replicas: int, provenance: Mapping[str, Any] | None) -> About:
    """Return what a result says about itself, checked, with a copy of the provenance."""
    if not isinstance(unit, str) or not unit:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ScoresError(f'unit={unit!r}; name what scores are differences of, such as unit="loss".')
    if not isinstance(path, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ScoresError(f"path={path!r} is of type {type(path).__name__}; say in a string how scores were computed.")
    if not isinstance(replicas, int) or replicas < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ScoresError(f"replicas={replicas!r}; give the number of networks that scores are averaged over, from 1.")
    return About(unit, path, replicas, plain_provenance(provenance))


def plain_provenance(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy that JSON can hold; None: nothing is known."""
    return {str(key): _plain(key, value) for key, value in (given or {}).items()}


def told_by(result: Any) -> About:
    """Return what a Scores or a Top says about itself."""
    return about(result.unit, result.path, result.replicas, result.provenance)


def names(given: Sequence[Name] | None, count: int) -> tuple[Name, ...]:
    """Return the names of `count` queries, checked; None: they are numbered.

    Args:
        given: one string or integer a query, each once.
        count: how many there must be.
    """
    if given is None:
        return tuple(range(count))
    result = tuple(name_of(one) for one in given)
    if len(result) != count:
        raise ScoresError(f"there are {len(result)} names in queries= and {count} queries (columns of values).")
    if len(set(result)) < count:
        again = next(name for place, name in enumerate(result) if name in result[:place])
        raise ScoresError(f"two queries have the name {again!r}; give every query a name of its own.")
    return result


def all_names(parts: Sequence[tuple[Name, ...]]) -> tuple[Name, ...]:
    """Return the names of the queries of all parts; queries that are numbered in every part are numbered anew."""
    together = tuple(name for part in parts for name in part)
    numbered = all(part == tuple(range(len(part))) for part in parts)
    return tuple(range(len(together))) if numbered else together


def agreed(parts: Sequence[About], over: Over) -> About:
    """Return what all parts say together; raise where they are results of different things.

    Paths may differ (both ways compute the same) and are listed. The entry of the provenance that describes what the
    parts are joined over differs by nature and is listed too.

    Args:
        parts: one of each part.
        over: what the parts are joined over.
    """
    first = parts[0]
    problems: list[str] = []
    for place, part in enumerate(parts):
        for what in ("unit", "replicas"):
            problems += _difference(place, what, getattr(first, what), getattr(part, what))
        for key in sorted((first.provenance.keys() | part.provenance.keys()) - {over}):
            problems += _difference(place, key, first.provenance.get(key), part.provenance.get(key))
    if problems:
        raise ScoresError("these are scores of different things: " + "; ".join(problems))
    provenance = deepcopy(first.provenance)
    entries = [part.provenance.get(over) for part in parts]
    if any(entry != entries[0] for entry in entries):
        provenance[over] = entries
    return replace(first, path=" | ".join(dict.fromkeys(part.path for part in parts)), provenance=provenance)


def _difference(place: int, what: str, one: object, other: object) -> list[str]:
    return [] if one == other else [f"{what} is {_short(one)} in part 0 and {_short(other)} in part {place}"]


def _plain(key: object, value: object) -> Any:
    try:
        # What comes back from a file must equal what was given, so it is written and read once here.
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ScoresError(
            f"provenance[{key!r}] cannot be written as JSON ({error}); give strings, numbers, lists and dicts."
        ) from error


def name_of(given: Any) -> Name:
    """Return a query's name as a plain string or integer."""
    if hasattr(given, "item"):
        given = given.item()
    if isinstance(given, str):
        return str(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return int(given)
    raise ScoresError(f"a query has the name {given!r} of type {type(given).__name__}; give strings or integers.")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
