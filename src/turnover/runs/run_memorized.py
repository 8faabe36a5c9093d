"""What the network of a run memorized, with near-duplicates looked for."""

import numpy as np

from turnover.applications import Duplicates, Memorized, memorized, near_duplicates

from .run import Run

# Pixels and cells of different rows are alike by nature: only what is practically the same counts.
_SAME_FEATURES = 0.999
# All pairs of features are compared, so that time grows with the square of the rows; of more, only the same count.
_MOST_COMPARED = 20_000


def run_memorized(run: Run) -> Memorized:
    """Return how far each training row of a run was memorized; places are those of `run.places("train")`."""
    return memorized(
        run.raw_influence,
        self_influence=run.self_influence,
        unseen=run.out_of_sample,
        duplicates=run_duplicates(run, run.places("train")),
    )


def run_duplicates(run: Run, places: np.ndarray) -> Duplicates:
    """Return which rows of a run are nearly the same.

    Args:
        run: a finished run.
        places: numbers of the rows to compare; the result counts them from 0.
    """
    if run.kind == "text":
        return near_duplicates([run.rows.values[place] for place in places])
    threshold = _SAME_FEATURES if len(places) <= _MOST_COMPARED else 1.0
    return near_duplicates(features=run.x[places].flatten(1), threshold=threshold)
