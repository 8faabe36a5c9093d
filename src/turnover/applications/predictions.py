"""Predictions of the full network, averaged over replicas and models, and the most confident errors among them."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.batches import Batch, batches_of
from turnover.errors import ApplicationError
from turnover.influence import Influence, evaluating
from turnover.layers import Instances, as_ids, device_of, replicas_of
from turnover.wrapping import wrapped_root

from .labels import ClassLabels

_AT_ONCE = 256
_SHUFFLES = 199


@dataclass(frozen=True)
class Predictions:
    """Class probabilities of rows in full view [rows, classes], and their labels where they have some.

    Outputs are averaged over replicas and models before the softmax. `one_output`: the model has one number for two
    classes.
    """

    probs: NDArray[np.float32]
    labels: NDArray[np.int64] | None
    one_output: bool = False

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Return the most probable class of each row."""
        return self.probs.argmax(1)

    @property
    def errors(self) -> NDArray[np.int64]:
        """Return the places of the rows whose prediction is not their label, the most confident errors first."""
        if self.labels is None:
            raise ApplicationError("the rows have no labels, so no prediction is an error. Give (x, y).")
        return ClassLabels(self.labels).errors(self.probs)


def predictions(influence: Influence, rows: Any, *, flipped: int | None = None) -> Predictions:
    """Return the predictions of the full network for rows, with the labels that they have.

    Args:
        influence: of a classifier.
        rows: tensors, a tuple (x, y), a dict, a Dataset or a DataLoader.
        flipped: those of the flipped subnetwork of this mask id instead.

    Example:
        >>> import turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances(range(6)):
        ...     _ = net(torch.randn(6, 4))  # training goes here
        >>> predictions(turnover.Influence(net), torch.randn(3, 4)).probs.shape
        (3, 2)
    """
    outputs, labels = _outputs(influence, rows, flipped=flipped)
    if outputs.dim() != 2:
        raise ApplicationError(
            f"the model returns outputs of shape {list(outputs.shape)}. Classes are needed, [rows, classes]; for other "
            "models ask influence.pairwise(queries) or influence.top(queries)."
        )
    one_output = outputs.shape[1] == 1
    yes = outputs.sigmoid()
    probs = torch.cat([1 - yes, yes], 1) if one_output else outputs.softmax(1)
    if labels is None or labels.dim() != 1 or labels.is_floating_point():
        return Predictions(probs.numpy(), None, one_output)
    return Predictions(probs.numpy(), labels.numpy().astype(np.int64), one_output)


def number_predictions(influence: Influence, rows: Any) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the numbers that the full network predicts for rows, as it was trained to, with the labels they have."""
    outputs, labels = _outputs(influence, rows)
    if outputs.dim() > 2 or outputs[0].numel() != 1:
        raise ApplicationError(
            f"the model returns outputs of shape {list(outputs.shape)}. One number per row is needed."
        )
    given = None if labels is None or not labels.is_floating_point() else labels.flatten().double().numpy()
    return outputs.flatten().double().numpy(), given


def prediction(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the number that a network of one output predicts: a measure for `Influence`, whatever the targets are."""
    return outputs.squeeze(-1)


def chance_p_value(predicted: NDArray[np.floating], labels: NDArray[Any]) -> float:
    """Return how often predictions fit shuffled labels as well as the given ones: 1 where nothing was learned.

    Not by accuracy: where one class is rare, a network that predicts the other for every row may still know in which
    rows it is likelier.

    Args:
        predicted: probabilities [rows, classes], or numbers [rows].
        labels: classes or numbers [rows].

    Example:
        >>> labels = np.arange(40) % 2
        >>> chance_p_value(np.eye(2)[labels], labels), chance_p_value(np.full((40, 2), 0.5), labels)
        (0.005, 1.0)
    """
    predicted, rows, rng = predicted.astype(np.float64), np.arange(len(labels)), np.random.default_rng(0)

    def fit(given: NDArray[Any]) -> float:
        return float((predicted[rows, given] if predicted.ndim == 2 else -np.square(predicted - given)).mean())

    to_beat = fit(labels)
    to_beat -= 1e-9 * abs(to_beat)  # the same numbers in another order have another sum
    return (1 + sum(fit(rng.permutation(labels)) >= to_beat for _ in range(_SHUFFLES))) / (1 + _SHUFFLES)


def small_batches(data: Any, *, targets: str | None, with_ids: bool = False) -> Iterator[Batch]:
    """Yield batches of as many rows as a forward pass takes at once, also of a loader that gives larger ones."""
    for batch in batches_of(data, targets=targets, training_rows=with_ids, batch_size=_AT_ONCE):
        step = _AT_ONCE if batch.can_be_split else max(1, batch.rows)
        for start in range(0, batch.rows, step):
            yield batch.part(start, start + step)


def _outputs(influence: Influence, rows: Any, *, flipped: int | None = None) -> tuple[Tensor, Tensor | None]:
    """Return outputs as floats, and the targets where all of them are tensors."""
    outputs: list[Tensor] = []
    targets: list[Any] = []
    with evaluating(influence.models):
        for batch in small_batches(rows, targets=influence.targets):
            outputs.append(_mean_outputs(influence.models, batch, flipped))
            targets.append(batch.target)
    if not outputs:
        raise ApplicationError("there are no rows to predict: the data is empty. Give at least one row.")
    known = all(isinstance(one, Tensor) for one in targets) and len({one.shape[1:] for one in targets}) == 1
    return torch.cat(outputs), torch.cat([one.cpu() for one in targets]) if known else None


def _mean_outputs(models: Sequence[nn.Module], batch: Batch, flipped: int | None) -> Tensor:
    """Return outputs averaged over all replicas: a model with more of them weighs more, as in its scores."""
    outputs: list[Tensor] = []
    for model in models:
        moved = batch.to(device_of(model))
        with nullcontext() if flipped is None else Instances(as_ids([flipped] * batch.rows), "flip"):
            rows = moved.logits(model).float().cpu()
        if flipped is None:
            outputs.append(rows.expand(replicas_of(wrapped_root(model)), *rows.shape))
        else:
            outputs.append(rows.unflatten(0, (-1, batch.rows)))  # one replica after the other
    return torch.cat(outputs).mean(0)
