"""How well each label is known, and which is taken for which."""

from typing import TYPE_CHECKING

import numpy as np

from .data_measures import Confusion, LabelSummary
from .mistakes import Unseen

if TYPE_CHECKING:
    from turnover.runs import Run

# With many labels nearly every row is a pair of its own.
_MOST_PAIRS = 500


def classes_of(run: "Run", unseen: Unseen, doubted: np.ndarray) -> tuple[LabelSummary, ...]:
    """Return a line for each label.

    Args:
        run: whose labels they are.
        unseen: validation and test rows with predictions.
        doubted: training rows whose label is firmly doubted.
    """
    labels = run.rows.labels[run.places("train")]
    return tuple(
        LabelSummary(
            label=name,
            train=int((labels == number).sum()),
            unseen=int((unseen.given == number).sum()),
            right=int(((unseen.given == number) & (unseen.predicted == number)).sum()),
            predicted=int((unseen.predicted == number).sum()),
            doubtful=int(doubted[labels == number].sum()),
        )
        for number, name in enumerate(run.label_names)
    )


def confusions_of(run: "Run", unseen: Unseen) -> tuple[Confusion, ...]:
    """Return which label was taken for which and how often, the most frequent first; right ones count too."""
    pairs, counts = np.unique(np.stack([unseen.given, unseen.predicted], 1), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_PAIRS]
    names = run.label_names
    return tuple(Confusion(names[pairs[at, 0]], names[pairs[at, 1]], int(counts[at])) for at in order)
