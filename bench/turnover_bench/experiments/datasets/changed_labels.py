"""Labels of which a known share is wrong."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ChangedLabels:
    """Labels after some were changed.

    Attributes:
        given: [rows]; what a training sees.
        changed: bool [rows]; whose label is wrong now.
    """

    given: NDArray[np.int64]
    changed: NDArray[np.bool_]


def change_labels(labels: NDArray[np.int64], *, share: float, classes: int, seed: int = 0) -> ChangedLabels:
    """Return labels of which a share, rounded to whole rows, was changed, each to one of the other classes at random.

    Example:
        >>> some = change_labels(np.zeros(10, np.int64), share=0.2, classes=3)
        >>> int(some.changed.sum()), bool((some.given[some.changed] > 0).all())
        (2, True)
    """
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(labels), size=round(share * len(labels)), replace=False)
    given = labels.copy()
    # Shifted by 1 to classes − 1, so that no label stays as it was.
    given[rows] = (given[rows] + rng.integers(1, classes, size=len(rows))) % classes
    return ChangedLabels(given, given != labels)
