"""What the part of the network that never saw a row says of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import turnover
from turnover.errors import ApplicationError, TurnOverError
from turnover.scores import OutOfSample


@dataclass(frozen=True)
class UnseenRow:
    """One row, as the part of the network that never saw it sees it.

    Attributes:
        label: the most probable class.
        probability: of that class.
        given_probability: of the row's own class.
    """

    label: int
    probability: float
    given_probability: float

    def sentence(self, given: Any) -> str:
        """Return it in words."""
        said = f"the part that never saw it says {self.label} ({self.probability:.0%})"
        if self.label == given:
            return f"{said}, as its label does"
        return f"{said}, its label is {given} ({self.given_probability:.0%})"


def unseen_rows(
    influence: turnover.Influence,
    unseen: OutOfSample | None,
    ids: NDArray[np.int64],
    *,
    progress: bool | None = False,
) -> dict[int, UnseenRow]:
    """Return what is said of each of these ids; nothing of groups (several rows) and where there are no classes.

    Args:
        influence: with its training data.
        unseen: its out-of-sample predictions, where they are known; None: they are computed.
        ids: of the rows.
        progress: show a bar.
    """
    if not len(ids):
        return {}
    if unseen is None:
        try:
            unseen = influence.out_of_sample(progress=progress)
        except TurnOverError:  # outputs that are no predictions of one thing: there is nothing to say
            return {}
    labels, probs = unseen.labels, unseen.probs
    if labels is None:
        return {}
    values, first, counts = np.unique(unseen.ids, return_index=True, return_counts=True)
    places = np.searchsorted(values, ids)
    if (values[np.minimum(places, len(values) - 1)] != ids).any():
        raise ApplicationError("unseen holds other rows than the training data. Give influence.out_of_sample().")
    told: dict[int, UnseenRow] = {}
    for place in places[counts[places] == 1]:
        row = first[place]
        said = int(probs[row].argmax())
        told[int(values[place])] = UnseenRow(said, float(probs[row, said]), float(probs[row, labels[row]]))
    return told
