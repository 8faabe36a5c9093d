"""What a result says about itself: unit, path, provenance; names of queries; numbers per query; rows of ids."""

from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ScoresError
from turnover.ids import Ints, Name, Names, near_names
from turnover.storage import plain

from ._arrays import Floats, floats, instance_ids

SIGN = "positive: the training instance helps"
"""What the sign of every score means."""

ATTRIBUTES = "turnover"
"""Where a table keeps what is about all of it."""

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
        # What comes back from a file must equal what was given, so it is as JSON has it from the start.
        object.__setattr__(self, "provenance", plain(self.provenance, where="provenance", error=ScoresError))

    @classmethod
    def of(cls, result: Any) -> "About":
        """Return what a Scores or a Top says about itself."""
        return cls(**{field.name: getattr(result, field.name) for field in fields(cls)})

    @property
    def unit_text(self) -> str:
        return f"units of {self.unit} ({SIGN})"


def method_of(provenance: Mapping[str, Any]) -> str:
    """Return the name of the estimator that made scores; "" where the provenance does not tell."""
    options = provenance.get("options")
    if not isinstance(options, Mapping):
        return ""
    options = cast("Mapping[str, Any]", options)
    return str(options["estimator"]["name"]) if "estimator" in options else "tod"


def agreed(parts: Sequence[Any], over: Over) -> About:
    """Return what all results say together; raise where they are results of different things.

    Paths may differ (both ways compute the same) and are listed. The entry of the provenance that describes what the
    parts are joined over differs by nature and is listed too.
    """
    if not parts:
        raise ScoresError("there is nothing to join; give one result or more.")
    abouts = [About.of(part) for part in parts]
    first = abouts[0]
    problems: list[str] = []
    for place, part in enumerate(abouts):
        pairs = {name: (getattr(first, name), getattr(part, name)) for name in ("unit", "replicas", "standardized")}
        keys = sorted((first.provenance.keys() | part.provenance.keys()) - {over})
        pairs |= {key: (first.provenance.get(key), part.provenance.get(key)) for key in keys}
        problems += [
            f"{name} is {_short(one)} in part 0 and {_short(other)} in part {place}"
            for name, (one, other) in pairs.items()
            if one != other
        ]
    if problems:
        raise ScoresError("these are scores of different things: " + "; ".join(problems))
    provenance = deepcopy(first.provenance)
    entries = [part.provenance.get(over) for part in abouts]
    if any(entry != entries[0] for entry in entries):
        provenance[over] = entries
    return replace(first, path=" | ".join(dict.fromkeys(part.path for part in abouts)), provenance=provenance)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def query_names(given: Iterable[Name] | None, count: int | None = None) -> tuple[Name, ...]:
    """Return names of queries, checked: with `count` so many, each its own; None: they are numbered."""
    if given is None:
        return tuple(range(count or 0))
    if isinstance(given, str | bytes | Set):  # whose letters would be taken, or which has no order
        raise ScoresError(f"queries must be a list of names, in the order of the columns, got {given!r}.")
    names: list[Name] = []
    for one in given:
        name: Any = cast("Any", one).item() if hasattr(one, "item") else one
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise ScoresError(f"the name of a query must be a string or an integer, got {one!r}.")
        names.append(str(name) if isinstance(name, str) else int(name))
    if count is not None and len(names) != count:
        raise ScoresError(f"there are {len(names)} names in queries= and {count} queries (columns of values).")
    if count is not None and len(set(names)) < count:
        again = next(name for place, name in enumerate(names) if name in names[:place])
        raise ScoresError(f"two queries have the name {again!r}; give every query a name of its own.")
    return tuple(names)


def joined_names(parts: Sequence[tuple[Name, ...]]) -> tuple[Name, ...]:
    """Return the names of the queries of all parts; queries that are numbered in every part are numbered anew."""
    together = tuple(name for part in parts for name in part)
    numbered = all(part == tuple(range(len(part))) for part in parts)
    return tuple(range(len(together))) if numbered else together


def columns_of(names: Iterable[Name], queries: tuple[Name, ...] | None) -> Ints:
    """Return the columns of the queries with these names, in that order."""
    if queries is None:
        raise ScoresError("these are one score per instance; there are no queries to choose from.")
    columns = {name: column for column, name in enumerate(queries)}
    chosen = query_names(names)
    unknown = [name for name in chosen if name not in columns]
    if unknown:
        near = near_names(str(unknown[0]), map(str, queries))
        hint = f"did you mean {near}?" if near else "see .queries for those there are."
        raise ScoresError(f"there is no query {unknown[0]!r}; {hint}")
    return np.array([columns[name] for name in chosen], np.int64)


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


def per_query(given: ArrayLike | None, shape: tuple[int, ...], name: str) -> Floats | None:
    """Return numbers that belong to queries, such as the offset, for scores of this shape, checked.

    One number, or as many as there are queries; for scores [n] as many as rows, each its own query.
    """
    if given is None:
        return None
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
