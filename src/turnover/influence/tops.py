"""Lists of several blocks of queries put one below the other."""

from collections.abc import Sequence

import numpy as np

from turnover.scores import Top


def joined(tops: Sequence[Top]) -> Top:
    """Return one Top for the queries of all; they are of the same instances and k."""
    first = tops[0]

    def stacked(name: str) -> np.ndarray | None:
        parts = [getattr(top, name) for top in tops]
        return None if parts[0] is None else np.concatenate(parts)

    names = ("helpful_ids", "helpful_scores", "helpful_stderr", "harmful_ids", "harmful_scores", "harmful_stderr")
    arrays = {name: stacked(name) for name in (*names, "counts", "null_spread")}
    return Top(
        **arrays,  # pyright: ignore[reportArgumentType] - the fields of the first say which may be None
        queries=tuple(name for top in tops for name in top.queries or ()),
        unit=first.unit,
        path=first.path,
        replicas=first.replicas,
        provenance=first.provenance,
    )
