"""What a training says of its rows: full-view predictions after every epoch, and heads on the untrained network.

Both are by-products of one training. The full view of a row was trained on the row; averaged over epochs, the later
ones weighted more, it still predicts most wrong labels to be another one. A linear head on the features of the network
*before* training, fitted without the row, has never met the row's label in any way.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.batches import Batch, batches_of
from turnover.errors import ApplicationError
from turnover.layers import Replicated, eval_mode, no_instances
from turnover.storage import atomic_file

from ._noise import centered, fit_weights

_AT_ONCE = 256
# Heads are fitted on at most so many replicas and features; further ones cost time and change little.
_MOST_REPLICAS, _MOST_FEATURES = 4, 2048
STRENGTHS = np.geomspace(1e-3, 1e3, 7)
"""Strengths of ridge that are tried, as shares of the mean eigenvalue of the features."""


@dataclass(frozen=True)
class RowRecord:
    """What one training says of its training rows, and of validation rows, which it was not trained on.

    Attributes:
        labels: given labels of the training rows [n].
        full: mean log-probabilities of the full view over epochs [n, classes], each weighted by its number.
        left_out: predictions by heads that were fitted without the row [n, classes]; None: the network has no last
            linear layer over vectors.
        validation_labels: given labels of the validation rows [m].
        validation_full: as `full`, of the validation rows.
        validation_left_out: predictions of the validation rows by the same heads; None: as for `left_out`.
    """

    labels: NDArray[np.int64]
    full: NDArray[np.float32]
    left_out: NDArray[np.float32] | None
    validation_labels: NDArray[np.int64]
    validation_full: NDArray[np.float32]
    validation_left_out: NDArray[np.float32] | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz file."""
        with atomic_file(path) as file:
            np.savez(file, **{name: value for name, value in vars(self).items() if value is not None})

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RowRecord":
        """Return what `save` wrote."""
        with np.load(path) as kept:
            values = {name: kept[name] for name in kept.files}
        return cls(**{"left_out": None, "validation_left_out": None, **values})


class TrainingRecord:
    """Records a training for the list of likely label errors: made before it begins, called after every epoch.

    A call costs one forward pass over the rows in full view. Nothing of the training is changed: no random number is
    drawn, and every module keeps its mode. Lightning and Hugging Face: call it at the end of an epoch.

    Args:
        model: the classifier before its first step, wrapped or not. One that was trained before on the same rows
            would know their labels.
        train: the training rows in a fixed order, as `memorized` gets them: (x, y, ids), a dict, a Dataset, a
            DataLoader that does not shuffle.
        validation: rows that are not trained, (x, y) or as above. Their labels weigh what the two predictions are
            worth; they should be about as good as those of the training rows, or better.
        targets: name of the target in a dict; None: "labels", else "label".

    Example:
        >>> import turnover
        >>> x, y = torch.randn(60, 4), torch.arange(60) % 2
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> record = TrainingRecord(net, train=(x[:40], y[:40], torch.arange(40)), validation=(x[40:], y[40:]))
        >>> for epoch in range(2):
        ...     record(net)  # after the batches of the epoch
        >>> record.finish().full.shape
        (40, 2)
    """

    def __init__(self, model: nn.Module, *, train: Any, validation: Any, targets: str | None = None) -> None:
        self._train, self._validation, self._targets = train, validation, targets
        rows, held = self._predicted(model, train, heads=True), self._predicted(model, validation, heads=True)
        self.labels, self.validation_labels = rows.labels, held.labels
        self.epochs = 0
        self.full, self.validation_full = np.zeros_like(rows.logs), np.zeros_like(held.logs)
        self.left_out: NDArray[np.float32] | None = None
        self.validation_left_out: NDArray[np.float32] | None = None
        if rows.features is not None and held.features is not None:
            self.left_out, self.validation_left_out = left_out_heads(
                rows.features, self.labels, held.features, classes=rows.logs.shape[1]
            )

    def __call__(self, model: nn.Module) -> None:
        """Add what the model says of all rows after an epoch."""
        self.epochs += 1
        self.full += self.epochs * self._predicted(model, self._train).logs
        self.validation_full += self.epochs * self._predicted(model, self._validation).logs

    def finish(self) -> RowRecord:
        """Return the record of all epochs so far."""
        if not self.epochs:
            raise ApplicationError("no epoch is recorded. Call the record after every epoch: record(model).")
        total = self.epochs * (self.epochs + 1) / 2
        return RowRecord(
            labels=self.labels,
            full=(self.full / total).astype(np.float32),
            left_out=self.left_out,
            validation_labels=self.validation_labels,
            validation_full=(self.validation_full / total).astype(np.float32),
            validation_left_out=self.validation_left_out,
        )

    def state(self) -> dict[str, Any]:
        """Return what a later `resume` needs, as tensors."""
        return {"epochs": self.epochs, "full": _tensor(self.full), "validation_full": _tensor(self.validation_full)} | {
            name: None if (value := getattr(self, name)) is None else _tensor(value) for name in _HEADS
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take what `state` returned."""
        self.epochs = int(state["epochs"])
        for name in ("full", "validation_full", *_HEADS):
            value = state[name]
            setattr(self, name, None if value is None else value.numpy())

    def _predicted(self, model: nn.Module, data: Any, *, heads: bool = False) -> "_Predicted":
        parts = [_of_batch(model, batch, heads) for batch in _batches(data, self._targets)]
        if not parts:
            raise ApplicationError("there are no rows to record. Give train= and validation= at least one each.")
        with_features = [one.features for one in parts if one.features is not None]
        return _Predicted(
            np.concatenate([one.labels for one in parts]),
            np.concatenate([one.logs for one in parts]),
            np.concatenate(with_features, 1) if len(with_features) == len(parts) else None,
        )


_HEADS = ("left_out", "validation_left_out")


@dataclass(frozen=True)
class _Predicted:
    labels: NDArray[np.int64]
    logs: NDArray[np.float64]  # log-probabilities [rows, classes]
    features: NDArray[np.float32] | None  # inputs of the last layer [replicas, rows, features]


def _batches(data: Any, targets: str | None) -> Iterator[Batch]:
    with_ids = isinstance(data, tuple) and len(data) > 2  # a pair is (x, y)
    for batch in batches_of(data, targets=targets, training_rows=with_ids):
        step = _AT_ONCE if batch.can_be_split else max(1, batch.rows)
        for start in range(0, batch.rows, step):
            yield batch.part(start, start + step)


def _of_batch(model: nn.Module, batch: Batch, heads: bool) -> _Predicted:
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    inputs: list[Tensor] = []
    last = [module for module in model.modules() if _is_linear(module)] if heads else []
    hooks = [module.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for module in last]
    try:
        with no_instances(), eval_mode(model), torch.no_grad():
            outputs = batch.to(device).logits(model)
    finally:
        for hook in hooks:
            hook.remove()
    target = batch.target
    if not isinstance(target, Tensor) or target.is_floating_point() or outputs.dim() != 2 or target.dim() != 1:
        raise ApplicationError(
            f"a record is made of classes: outputs [rows, classes] and one class number per row. Got outputs "
            f"{list(outputs.shape)}. Give train=(x, y, ids) with integer y."
        )
    logs = torch.log_softmax(outputs.double(), 1).cpu().numpy()
    return _Predicted(target.cpu().numpy().astype(np.int64), logs, _features(inputs, batch.rows) if heads else None)


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module.template if isinstance(module, Replicated) else module, nn.Linear)


def _features(inputs: list[Tensor], rows: int) -> NDArray[np.float32] | None:
    """Return the inputs of the last linear layer that ran, by replica; None: they are no vectors, or too long."""
    if not inputs or inputs[-1].dim() != 2 or inputs[-1].shape[1] > _MOST_FEATURES or len(inputs[-1]) % rows:
        return None
    return inputs[-1].unflatten(0, (-1, rows))[:_MOST_REPLICAS].float().cpu().numpy()


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(values)


def left_out_heads(
    features: NDArray[np.float32], labels: NDArray[np.int64], others: NDArray[np.float32], *, classes: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return predictions of rows by ridge regressions of the labels that are fitted without the row, and of others.

    The strength is the one at which the left-out predictions, as probabilities, predict the given labels best.

    Args:
        features: [replicas, rows, features]; predictions are averaged over replicas.
        labels: [rows].
        others: features of other rows.
        classes: how many.
    """
    one_hot = np.eye(classes)[labels]
    rows, held = 0.0, 0.0
    for mine, theirs in zip(features.astype(np.float64), others.astype(np.float64), strict=True):
        left_out, predicted = ridge_heads(mine, one_hot, theirs, STRENGTHS)
        rows, held = rows + left_out / len(features), held + predicted / len(features)
    losses = [fit_weights([centered(one)], labels).loss for one in np.asarray(rows)]
    best = int(np.argmin(losses))
    return np.asarray(rows)[best].astype(np.float32), np.asarray(held)[best].astype(np.float32)


def ridge_heads(
    features: NDArray[np.float64], targets: NDArray[np.float64], others: NDArray[np.float64], strengths: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what ridge regression with a constant predicts for every row when fitted without it, and for other rows.

    Args:
        features: [rows, features].
        targets: [rows, targets].
        others: [other rows, features].
        strengths: of ridge, as shares of the mean eigenvalue of all rows' features.

    Returns:
        [strengths, rows, targets] and [strengths, other rows, targets].
    """
    center, mean = features.mean(0), targets.mean(0)
    centered_rows = features - center
    values, vectors = np.linalg.eigh(centered_rows.T @ centered_rows)
    rotated, rotated_others = centered_rows @ vectors, (others - center) @ vectors
    products, squares = rotated.T @ (targets - mean), np.square(rotated)
    left_out, predicted = [], []
    for strength in strengths:
        shrunk = 1 / (np.maximum(values, 0.0) + strength * values.mean())
        weights = shrunk[:, None] * products
        leverage = squares @ shrunk + 1 / len(features)
        left_out.append(targets - (targets - mean - rotated @ weights) / (1 - leverage)[:, None])
        predicted.append(mean + rotated_others @ weights)
    return np.stack(left_out), np.stack(predicted)
