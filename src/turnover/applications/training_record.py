"""What a training says of its rows: full-view predictions after every epoch, and heads on the untrained network.

Both are by-products of one training. The full view of a row was trained on the row; averaged over epochs, the later
ones weighted more, it still predicts most wrong labels to be another one. A linear head on the features of the network
*before* training, fitted without the row, has never met the row's label in any way.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.batches import Batch, batches_of
from turnover.errors import ApplicationError
from turnover.layers import Replicated, device_of, eval_mode, no_instances
from turnover.storage import atomic_file, open_arrays

from ._mixture import centered, fit_weights

_AT_ONCE = 256
# Heads are fitted on at most so many rows, replicas and features; further ones cost time and memory and change little.
_MOST_FITTED, _MOST_REPLICAS, _MOST_FEATURES = 20_000, 4, 2048
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
        with open_arrays(path) as kept:
            values = {name: kept[name] for name in kept.files}
        return cls(**{"left_out": None, "validation_left_out": None, **values})


class TrainingRecord:
    """Records a training for the list of likely label errors: made before it begins, called after every epoch.

    A call costs one forward pass over the rows in full view. Nothing of the training is changed: no random number is
    drawn, and every module keeps its mode. Callbacks for Lightning and Hugging Face are
    `LightningAfterEpoch(record)` and `HFAfterEpoch(record)` of `turnover.integrations`.

    Args:
        model: the classifier before its first step, wrapped or not. One that was trained before on the same rows
            would know their labels.
        train: the training rows in a fixed order, as `memorized` gets them: (x, y, ids), a dict, a Dataset, a
            DataLoader that does not shuffle.
        validation: rows that are not trained, (x, y) or as above. Their labels weigh what the two predictions are
            worth; they should be about as good as those of the training rows, or better.
        targets: name of the target in a dict; None: "labels", else "label".
        most_fitted: rows that heads are fitted on at most, evenly spread, though a batch at least; they predict the
            others as well.

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

    def __init__(
        self,
        model: nn.Module,
        *,
        train: Any,
        validation: Any,
        targets: str | None = None,
        most_fitted: int = _MOST_FITTED,
    ) -> None:
        if isinstance(most_fitted, bool) or not isinstance(most_fitted, int) or most_fitted < 1:
            raise ApplicationError(
                f"most_fitted must be an integer >= 1, got {most_fitted!r}. Give most_fitted=20_000."
            )
        self._train, self._validation, self._targets = train, validation, targets
        labels, validation_labels = self._labels(train), self._labels(validation)
        classes = _log_probabilities(model, next(_batches(train, targets))).shape[1]
        self.labels, self.validation_labels = np.concatenate(labels), np.concatenate(validation_labels)
        self.epochs = 0
        self.full = np.zeros((len(self.labels), classes))
        self.validation_full = np.zeros((len(self.validation_labels), classes))
        self.left_out: NDArray[np.float32] | None = None
        self.validation_left_out: NDArray[np.float32] | None = None
        fitted = _spread([len(part) for part in labels], most_fitted)
        features = _all_last_inputs(model, compress(_batches(train, targets), fitted))
        if features is None:
            return
        heads, of_fitted = fit_heads(features, np.concatenate(list(compress(labels, fitted))), classes=classes)
        del features
        places = np.repeat(fitted, [len(part) for part in labels])
        self.left_out = np.empty((len(places), classes), np.float32)
        self.left_out[places] = of_fitted
        if not fitted.all():  # other rows are left out anyway
            self.left_out[~places] = heads.of_batches(model, compress(_batches(train, targets), ~fitted))
        self.validation_left_out = heads.of_batches(model, _batches(validation, targets))

    def __call__(self, model: nn.Module) -> None:
        """Add what the model says of all rows after an epoch."""
        self.epochs += 1
        self.full += self.epochs * self._predicted(model, self._train)
        self.validation_full += self.epochs * self._predicted(model, self._validation)

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

    def state_dict(self) -> dict[str, Any]:
        """Return what a later `load_state_dict` needs, as tensors."""
        return {"epochs": self.epochs, "full": _tensor(self.full), "validation_full": _tensor(self.validation_full)} | {
            name: None if (value := getattr(self, name)) is None else _tensor(value) for name in _HEADS
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` returned."""
        self.epochs = int(state["epochs"])
        for name in ("full", "validation_full", *_HEADS):
            value = state[name]
            setattr(self, name, None if value is None else value.numpy())

    def _predicted(self, model: nn.Module, data: Any) -> NDArray[np.float64]:
        """Return the log-probabilities that the full view gives all rows [rows, classes]."""
        return np.concatenate([_log_probabilities(model, batch) for batch in _batches(data, self._targets)])

    def _labels(self, data: Any) -> list[NDArray[np.int64]]:
        """Return the labels of all rows, batch by batch."""
        targets = [batch.target for batch in _batches(data, self._targets)]
        if not targets:
            raise ApplicationError("there are no rows to record. Give train= and validation= at least one each.")
        if not all(isinstance(one, Tensor) and not one.is_floating_point() and one.dim() == 1 for one in targets):
            raise ApplicationError(_NO_CLASSES)
        return [one.cpu().numpy().astype(np.int64) for one in targets]


_HEADS = ("left_out", "validation_left_out")
_NO_CLASSES = (
    "a record is made of classes: outputs [rows, classes] and one class number per row. Give train=(x, y, ids) with "
    "integer y."
)


def _spread(sizes: Sequence[int], most: int) -> NDArray[np.bool_]:
    """Return which batches to take so that their rows are at most so many, evenly spread; one at least."""
    count = len(sizes) if sum(sizes) <= most else max(1, most // max(sizes))
    chosen = np.zeros(len(sizes), bool)
    chosen[np.linspace(0, len(sizes) - 1, min(count, len(sizes))).astype(int)] = True
    return chosen


def _batches(data: Any, targets: str | None) -> Iterator[Batch]:
    with_ids = isinstance(data, tuple) and len(data) > 2  # a pair is (x, y)
    for batch in batches_of(data, targets=targets, training_rows=with_ids, batch_size=_AT_ONCE):
        step = _AT_ONCE if batch.can_be_split else max(1, batch.rows)
        for start in range(0, batch.rows, step):
            yield batch.part(start, start + step)


def _log_probabilities(model: nn.Module, batch: Batch) -> NDArray[np.float64]:
    outputs = _run(model, batch)
    if outputs.dim() != 2:
        raise ApplicationError(f"{_NO_CLASSES} Got outputs {list(outputs.shape)}.")
    return torch.log_softmax(outputs.cpu().double(), 1).numpy()  # not every device has float64


def _run(model: nn.Module, batch: Batch) -> Tensor:
    with no_instances(), eval_mode(model), torch.no_grad():
        return batch.to(device_of(model)).logits(model)


def _is_linear(module: nn.Module) -> bool:
    return isinstance(module.template if isinstance(module, Replicated) else module, nn.Linear)


def _last_inputs(model: nn.Module, batch: Batch) -> NDArray[np.float32] | None:
    """Return the inputs of the last linear layer that runs, by replica; None: they are no vectors, or too long."""
    inputs: list[Tensor] = []
    last = [module for module in model.modules() if _is_linear(module)]
    hooks = [module.register_forward_pre_hook(lambda _, given: inputs.append(given[0])) for module in last]
    try:
        _run(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    rows = batch.rows
    if not inputs or inputs[-1].dim() != 2 or inputs[-1].shape[1] > _MOST_FEATURES or len(inputs[-1]) % rows:
        return None
    return inputs[-1].unflatten(0, (-1, rows))[:_MOST_REPLICAS].float().cpu().numpy()


def _all_last_inputs(model: nn.Module, batches: Iterable[Batch]) -> NDArray[np.float32] | None:
    """Return `_last_inputs` of all batches; None: one of them has none."""
    parts = []
    for batch in batches:
        inputs = _last_inputs(model, batch)
        if inputs is None:
            return None
        parts.append(inputs)
    return np.concatenate(parts, 1)


def _tensor(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(values)


@dataclass(frozen=True)
class Heads:
    """Linear heads on the features of each replica, whose predictions are averaged.

    Attributes:
        weights: [replicas, features, classes].
        constant: the mean of the replicas' constants [classes].
    """

    weights: NDArray[np.float64]
    constant: NDArray[np.float64]

    def of_batches(self, model: nn.Module, batches: Iterable[Batch]) -> NDArray[np.float32]:
        """Return the predictions of rows [rows, classes] from the inputs of the model's last layer."""
        parts = [(np.asarray(_last_inputs(model, batch)) @ self.weights).mean(0) + self.constant for batch in batches]
        return np.concatenate(parts).astype(np.float32)


def fit_heads(
    features: NDArray[np.float32], labels: NDArray[np.int64], *, classes: int
) -> tuple[Heads, NDArray[np.float32]]:
    """Return ridge regressions of the labels, and what they predict for each row when fitted without it.

    The strength is the one at which the left-out predictions, as probabilities, predict the given labels best.

    Args:
        features: [replicas, rows, features].
        labels: [rows].
        classes: how many.
    """
    one_hot = np.eye(classes)[labels]
    left_out, weights, constants = 0.0, [], 0.0
    for mine in features:
        without, slopes, means = ridge_heads(mine.astype(np.float64), one_hot, STRENGTHS)
        left_out, constants = left_out + without / len(features), constants + means / len(features)
        weights.append(slopes)
    losses = [fit_weights([centered(one)], labels).loss for one in np.asarray(left_out)]
    best = int(np.argmin(losses))
    heads = Heads(np.stack([slopes[best] for slopes in weights]), np.asarray(constants)[best])
    return heads, np.asarray(left_out)[best].astype(np.float32)


def ridge_heads(
    features: NDArray[np.float64], targets: NDArray[np.float64], strengths: Any
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return ridge regressions with a constant: what they predict for every row when fitted without it, and themselves.

    Args:
        features: [rows, features].
        targets: [rows, targets].
        strengths: of ridge, as shares of the mean eigenvalue of all rows' features.

    Returns:
        Left-out predictions [strengths, rows, targets], weights [strengths, features, targets] and constants
        [strengths, targets].
    """
    center, mean = features.mean(0), targets.mean(0)
    centered_rows = features - center
    values, vectors = np.linalg.eigh(centered_rows.T @ centered_rows)
    rotated = centered_rows @ vectors
    del centered_rows
    products, squares = rotated.T @ (targets - mean), np.square(rotated)
    left_out, weights = [], []
    for strength in strengths:
        shrunk = 1 / (np.maximum(values, 0.0) + strength * values.mean())
        leverage = squares @ shrunk + 1 / len(features)
        residuals = targets - mean - rotated @ (shrunk[:, None] * products)
        left_out.append(targets - residuals / (1 - leverage)[:, None])
        weights.append(vectors @ (shrunk[:, None] * products))
    slopes = np.stack(weights)
    return np.stack(left_out), slopes, mean - center @ slopes
