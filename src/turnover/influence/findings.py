"""Warning of scores that could not be computed."""

import warnings

import numpy as np

from turnover.errors import TurnOverWarning
from turnover.scores import Scores

_SHOWN = 5


def warn_of_nan(scores: Scores) -> None:
    """Name queries and instances whose outputs were not numbers; all others are finished."""
    bad = np.argwhere(~np.isfinite(scores.values))
    if not len(bad):
        return
    named = [
        f"instance {scores.ids[place[0]]}" + (f" on query {scores.queries[place[1]]!r}" if scores.queries else "")
        for place in bad[:_SHOWN]
    ]
    more = f" and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
    warnings.warn(
        f"{len(bad):,} of {scores.values.size:,} scores are not finite: {', '.join(named)}{more}. The model's "
        "outputs or the loss were NaN or infinite there; all other scores are finished.",
        TurnOverWarning,
        stacklevel=3,
    )
