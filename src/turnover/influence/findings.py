"""Warning of scores that could not be computed."""

import warnings

import numpy as np

from turnover.errors import TurnOverWarning
from turnover.scores import Scores

_SHOWN = 5
_FEWEST_ROWS = 20
_SIGMAS = 1.0


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


def warn_of_strangers(scores: Scores) -> None:
    """Warn where self-influence cannot be told from that of never-trained ids: then these ids were hardly trained."""
    if scores.null is None or len(scores) < _FEWEST_ROWS:
        return
    finite = scores.values[np.isfinite(scores.values)]
    noise = scores.null.std() * np.sqrt(1 / max(1, len(finite)) + 1 / len(scores.null))
    if finite.size and finite.mean() - scores.null.mean() < _SIGMAS * noise:
        warnings.warn(
            f"the self-influence of these {len(scores):,} rows cannot be told from that of ids that were never trained "
            f"(mean {finite.mean():.3g}, standard error {noise:.2g}). Were they trained under these ids? Give the "
            "data, and the id= or groups= column, that the model was trained with.",
            TurnOverWarning,
            stacklevel=3,
        )


def warn_of_failed(failed: int, pairs: int) -> None:
    """Warn of pairs that a top list leaves out because their scores are not finite."""
    if failed:
        warnings.warn(
            f"{failed:,} of {pairs:,} scores are not finite and are left out of the lists; `pairwise` names them.",
            TurnOverWarning,
            stacklevel=4,
        )
