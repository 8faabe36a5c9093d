"""What the network of a run memorised, with near-duplicates looked for."""

from turnover.applications.memorized import Memorized, memorized
from turnover.applications.near_duplicates import Duplicates, near_duplicates

from .runs import Run

# Pixels and cells of different rows are alike by nature: only what is practically the same counts.
_SAME_FEATURES = 0.999


def run_memorized(run: Run) -> Memorized:
    """Return how far each training row of a run was memorised; places are those of `run.places("train")`."""
    return memorized(
        run.raw_influence,
        self_influence=run.self_influence,
        unseen=run.out_of_sample,
        duplicates=run_duplicates(run),
    )


def run_duplicates(run: Run) -> Duplicates:
    """Return the training rows of a run that are nearly the same."""
    places = run.places("train")
    if run.kind == "text":
        return near_duplicates([run.rows.values[place] for place in places])
    return near_duplicates(features=run.x[places].flatten(1), threshold=_SAME_FEATURES)
