"""Predictions with one group of training rows switched off."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import turnover
from turnover.batches import Batch, batches_of, logits_of
from turnover.errors import ApplicationError
from turnover.influence import Member, evaluating, null_ids

from .plain_data import plain
from .predictions import class_probabilities, predictions
from .train_instances import TrainInstances


@dataclass(frozen=True)
class WithoutGroup:
    """Predictions with one group switched off.

    Attributes:
        full: probabilities of the whole network [rows, classes].
        without: those of the part that never saw the group.
        usual: the mean of those of parts of the same size that belong to no group: what being smaller alone changes.
        spread: how much these parts differ from each other [rows, classes].
    """

    full: NDArray[np.float32]
    without: NDArray[np.float32]
    usual: NDArray[np.float32]
    spread: NDArray[np.float32]

    @property
    def changed(self) -> NDArray[np.bool_]:
        """Tell for each row whether the most probable class is another one without the group."""
        return self.without.argmax(1) != self.full.argmax(1)

    @property
    def distance(self) -> NDArray[np.float32]:
        """Return how far the full network's class moved from `usual` without the group, in spreads [rows]."""
        rows, label = np.arange(len(self.full)), self.full.argmax(1)
        moved = self.without[rows, label] - self.usual[rows, label]
        return (moved / np.maximum(self.spread[rows, label], 1e-6)).astype(np.float32)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON could hold it."""
        return {**plain(self), "changed": self.changed.tolist(), "distance": plain(self.distance)}


def without_group(influence: turnover.Influence, group: int, inputs: Any, *, others: int = 32) -> WithoutGroup:
    """Return predictions by the part of the network that never saw a group, beside those of the whole.

    Half of a network predicts a little differently from the whole of it, whatever the half. So the same is done with
    ids that were never trained: only what goes beyond them is due to the group.

    Args:
        influence: of a classifier whose instances are groups.
        group: the group's instance id; `turnover.batches.instance_id_of("Ann")` for a name.
        inputs: rows, as for `Influence.pairwise`.
        others: how many never-trained ids to compare with.

    Raises:
        ApplicationError: the group was never trained, or others is less than 2.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances([7] * 20):
        ...     _ = net(torch.randn(20, 4))  # training goes here
        >>> without_group(turnover.Influence(net), 7, torch.randn(3, 4)).changed.shape
        (3,)
    """
    if isinstance(others, bool) or not isinstance(others, int) or others < 2:
        raise ApplicationError(f"others={others!r}: a spread needs 2 never-trained ids or more. Give others=32.")
    _check_trained(influence, group)
    full = predictions(influence, inputs).probs
    ids = [int(group), *null_ids(others).tolist()]
    flipped = np.stack([_flipped(influence, inputs, id) for id in ids])
    return WithoutGroup(full, flipped[0], flipped[1:].mean(0), flipped[1:].std(0, ddof=1))


def _check_trained(influence: turnover.Influence, group: int) -> None:
    if isinstance(group, bool) or not isinstance(group, int | np.integer) or group < 0:
        raise ApplicationError(
            f"group must be an instance id, an integer >= 0, got {group!r}. The id of a name: "
            "turnover.batches.instance_id_of('Ann')."
        )
    try:
        ids = influence.train_ids
    except turnover.TurnOverError:
        return  # without training data any id may be meant
    if TrainInstances(ids, None).places([group])[0] < 0:
        raise ApplicationError(
            f"no training instance has the id {group}. Give ids to groups: turnover.with_instance_ids(data, "
            "groups='column')."
        )


def _flipped(influence: turnover.Influence, inputs: Any, id: int) -> NDArray[np.float32]:
    models = influence.models
    with evaluating([Member(model) for model in models]):
        batches = batches_of(inputs, targets=influence.targets, training_rows=False)
        return np.concatenate([_flipped_batch(models, batch, id) for batch in batches])


def _flipped_batch(models: Sequence[nn.Module], batch: Batch, id: int) -> NDArray[np.float32]:
    outputs = []
    for model in models:
        moved = batch.to(next(iter(model.parameters())).device)
        with turnover.instances([id] * batch.rows, view="flip"):
            rows = logits_of(model(*moved.args, **moved.kwargs)).float().cpu()
        outputs.append(rows.unflatten(0, (-1, batch.rows)))  # one replica after the other
    return class_probabilities(torch.cat(outputs).mean(0)).numpy()
