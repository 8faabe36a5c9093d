"""Several results as one: more queries for the same instances, or more instances for the same queries."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from turnover.errors import ScoresError

from .about import Over, agreed, all_names, told_by
from .arrays import Floats, closed, near, same
from .content import Content
from .per_query import is_per_row


def joined(parts: Sequence[Content], over: Over) -> dict[str, Any]:
    """Return what the class `Scores` takes for all parts together."""
    if over not in ("queries", "ids"):
        raise ScoresError(f'over={over!r}; give "queries" or "ids".')
    if not parts:
        raise ScoresError("there is nothing to join; give one Scores or more.")
    told = vars(agreed([told_by(part) for part in parts], over))
    _check_known(parts)
    return {**told, **(_over_queries(parts) if over == "queries" else _over_ids(parts))}


def _over_queries(parts: Sequence[Content]) -> dict[str, Any]:
    first = parts[0]
    for place, part in enumerate(parts):
        if part.queries is None:
            raise ScoresError(f'part {place} is one score an instance and has no queries; give over="ids".')
        if not same(first.ids, part.ids):
            raise ScoresError(
                f"ids of part {place} differ from those of part 0, or their order does; "
                "put them in one order with .select(ids=...), or compute the scores of the same ids."
            )
        if first.null is not None and part.null is not None and len(first.null) != len(part.null):
            raise ScoresError(
                f"part 0 has the scores of {len(first.null)} never-trained ids and part {place} of {len(part.null)}; "
                "compute both with the same null."
            )
    return {
        "values": _side_by_side([part.values for part in parts]),
        "ids": first.ids,
        "queries": all_names([part.queries or () for part in parts]),
        "stderr": _side_by_side([_known(part, "stderr") for part in parts]),
        "null": _side_by_side([part.null for part in parts]),
        "null_spread": _side_by_side([part.null_spread for part in parts]),
        "offset": _side_by_side([part.offset for part in parts]),
    }


def _over_ids(parts: Sequence[Content]) -> dict[str, Any]:
    first = parts[0]
    for place, part in enumerate(parts):
        if part.queries != first.queries:
            raise ScoresError(f'queries of part {place} differ from those of part 0; give over="queries".')
        if not near(first.null, part.null):
            raise ScoresError(f"null of part {place} differs from that of part 0: another model or null.")
    ids = np.concatenate([part.ids for part in parts])
    _refuse_shared(parts)
    return {
        "values": _below([part.values for part in parts]),
        "ids": ids,
        "queries": first.queries,
        "stderr": _below([_known(part, "stderr") for part in parts]),
        "null": first.null,
        "null_spread": _one_for_all(parts, "null_spread"),
        "offset": _one_for_all(parts, "offset"),
    }


def _known(part: Content, what: str) -> Floats | None:
    """Return what a part was given; standard errors that are the spread of never-trained ids are not stderr."""
    if what == "stderr":
        return part.sources["stderr"].whole if "stderr" in part.sources else None
    return getattr(part, what)


def _check_known(parts: Sequence[Content]) -> None:
    """Raise if something is known of some parts only: it would be lost for the others without a word."""
    problems: list[str] = []
    for what in ("stderr", "null", "null_spread", "offset"):
        known = [place for place, part in enumerate(parts) if _known(part, what) is not None]
        if 0 < len(known) < len(parts):
            other = next(place for place in range(len(parts)) if place not in known)
            problems.append(f"{what} is there in part {known[0]} and not in part {other}")
    if problems:
        raise ScoresError("; ".join(problems) + ". Compute all parts the same way.")


def _refuse_shared(parts: Sequence[Content]) -> None:
    # Within a part rows of a group share an id; between parts a shared id was scored twice.
    together = np.sort(np.concatenate([np.unique(part.ids) for part in parts]))
    twice = together[1:][together[1:] == together[:-1]]
    if twice.size:
        raise ScoresError(
            f"instance {twice[0]} is in more than one part, as are {twice.size - 1} others; join disjoint sets of ids."
        )


def _one_for_all(parts: Sequence[Content], what: str) -> Floats | None:
    """Return what must be the same in all parts, being about queries; or all of it, where each row is its query."""
    arrays: list[Floats | None] = [getattr(part, what) for part in parts]
    if any(is_per_row(array, part.shape) for array, part in zip(arrays, parts, strict=True)):
        rows = zip(arrays, parts, strict=True)
        return _below([None if array is None else np.broadcast_to(array, part.shape) for array, part in rows])
    for place, array in enumerate(arrays):
        if not near(arrays[0], array):
            raise ScoresError(f"{what} of part {place} differs from that of part 0: another model or null.")
    return arrays[0]


def _side_by_side(arrays: Sequence[Floats | None]) -> Floats | None:
    known = [array for array in arrays if array is not None]
    return closed(np.concatenate(known, axis=-1)) if known else None


def _below(arrays: Sequence[Floats | None]) -> Floats | None:
    known = [array for array in arrays if array is not None]
    return closed(np.concatenate(known, axis=0)) if known else None
