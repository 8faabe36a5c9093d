"""The training instances that an `Influence` scores: ids, labels and places, checked against what the caller gives."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import turnover
from turnover.errors import ApplicationError, InfluenceError


@dataclass(frozen=True)
class TrainInstances:
    """Training instances in the order of the data.

    Attributes:
        ids: [n], each once.
        labels: [n]; None: not known.
    """

    ids: NDArray[np.int64]
    labels: NDArray[Any] | None

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ids)

    def label(self, place: int) -> Any:
        """Return the label at a place as a plain Python value, None where labels are not known."""
        return None if self.labels is None else self.labels[place].item()

    def places(self, ids: Any) -> NDArray[np.int64]:
        """Return the places of ids; −1 for those that are not among the instances."""
        wanted = np.asarray(ids, np.int64)
        found = np.searchsorted(self.ids, wanted, sorter=self._order)
        place = self._order[np.minimum(found, len(self) - 1)]
        return np.where(self.ids[place] == wanted, place, -1)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.ids, kind="stable")


def train_instances(influence: turnover.Influence, labels: Any, *, needed: bool) -> TrainInstances:
    """Return the training instances with their labels.

    Args:
        influence: knows the training data.
        labels: one an instance, in the order of the data; None: those of the data.
        needed: raise where labels are not known.
    """
    ids = influence.train_ids
    if labels is not None:
        return TrainInstances(ids, checked_labels(labels, len(ids)))
    try:
        return TrainInstances(ids, influence.train_labels)
    except InfluenceError:
        if needed:
            raise
        return TrainInstances(ids, None)


def checked_labels(labels: Any, count: int) -> NDArray[Any]:
    """Return labels as an array [count], or raise."""
    found = np.asarray(labels.cpu() if isinstance(labels, Tensor) else labels)
    if found.shape != (count,):
        raise ApplicationError(
            f"labels have shape {list(found.shape)} for {count} training instances. Give one label for each, in the "
            "order of the training data."
        )
    return found


def checked_count(k: Any, name: str) -> int:
    """Return a number of at least 1, or raise."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ApplicationError(f"{name}={k!r} is no number of rows. Give an integer of at least 1: {name}=10.")
    return int(k)
