"""What retraining on random halves says, of the plain and of the masked model; trained once a task."""

import os
from pathlib import Path

from turnover.evaluation import SubsetOutcomes, subset_outcomes

from .tasks import Prepared

# No method has masks or trainings of this seed.
_MASKS = 777_777
VIEWS = ("plain", "full")


def ground_truth(ready: Prepared, folder: Path, *, processes: int = 1) -> dict[str, SubsetOutcomes]:
    """Return the query losses after retraining on random halves, by view: "plain" and "full".

    Args:
        ready: the task.
        folder: finished trainings are kept there.
        processes: worker processes.
    """
    config = ready.config
    return {
        view: subset_outcomes(
            ready.plain if view == "plain" else ready.masked(_MASKS),
            ready.queries,
            subsets=config.halves,
            seeds=config.retrainings,
            processes=min(processes, os.cpu_count() or 1),
            cache=folder / f"truth-{view}",
            progress=True,
        )
        for view in VIEWS
    }
