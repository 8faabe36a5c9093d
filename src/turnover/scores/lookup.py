"""From instance ids and names of queries to rows and columns."""

import difflib
from collections.abc import Sequence

import numpy as np

from turnover.errors import ScoresError

from .about import Name
from .arrays import Ints

_MOST_NAMED = 5


def rows_of(wanted: Ints, ids: Ints) -> Ints:
    """Return the rows of the wanted ids, in that order; all rows where several have one id."""
    order = np.argsort(ids, kind="stable")
    first = np.searchsorted(ids, wanted, side="left", sorter=order)
    counts = np.searchsorted(ids, wanted, side="right", sorter=order) - first
    unknown = wanted[counts == 0]
    if unknown.size:
        more = f" and {unknown.size - _MOST_NAMED} more" if unknown.size > _MOST_NAMED else ""
        listed = ", ".join(str(one) for one in unknown[:_MOST_NAMED])
        raise ScoresError(f"there are no scores of instance {listed}{more}; see .ids for those there are.")
    # The r-th row of an id that starts at place p of the order is order[p + r].
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(first, counts) + within].astype(np.int64)


def columns_of(wanted: Sequence[Name], queries: tuple[Name, ...] | None) -> Ints:
    """Return the columns of the wanted queries, in that order."""
    if queries is None:
        raise ScoresError("these are one score an instance; there are no queries to choose from.")
    columns = {name: column for column, name in enumerate(queries)}
    result: list[int] = []
    for name in wanted:
        if name not in columns:
            near = difflib.get_close_matches(str(name), [str(one) for one in queries], n=1)
            hint = f"did you mean {near[0]!r}?" if near else "see .queries for those there are."
            raise ScoresError(f"there is no query {name!r}; {hint}")
        result.append(columns[name])
    return np.array(result, np.int64)
