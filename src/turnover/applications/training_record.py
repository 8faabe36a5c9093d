"""What a training says of its rows: full-view predictions after every epoch, and heads on the untrained network.

Both are by-products of one training. The full view of a row was trained on the row; averaged over epochs, the later
ones weighted more, it still predicts most wrong labels to be another one. A linear head on the features of the network
*before* training, fitted without the row, has never met the row's label in any way.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.batches import Batch
from turnover.errors import ApplicationError
from turnover.layers import Replicated, device_of, eval_mode, no_instances

from .predictions import small_batches
from .results import checked_count
from .wrong_labels import Doubles, RowRecord, centered, fit_weights

# Heads are fitted on at most so many rows, replicas and features; further ones cost time and memory and change little.
_MOST_FITTED, _MOST_REPLICAS, _MOST_FEATURES = 20_000, 4, 2048
# Strengths of ridge that are tried, as shares of the mean eigenvalue of the features.
_STRENGTHS = np.geomspace(1e-3, 1e3, 7)
_NO_CLASSES = (
    "a record is made of classes: outputs [rows, classes] and one class number per row. Give train=(x, y, ids) with "
    "integer y."
)


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
        >>> import torch, turnover
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
        most_fitted = checked_count(most_fitted, "most_fitted", such_as="20_000")
        self._train, self._validation, self._targets = train, validation, targets
        labels, validation_labels = self._labels(train), self._labels(validation)
        classes = _log_probabilities(model, next(self._batches(train))).shape[1]
        self.labels, self.validation_labels = np.concatenate(labels), np.concatenate(validation_labels)
        self.epochs = 0
        self.full = np.zeros((len(self.labels), classes))
        self.validation_full = np.zeros((len(self.validation_labels), classes))
        self.left_out: NDArray[np.float32] | None = None
        self.validation_left_out: NDArray[np.float32] | None = None
        self._fit_heads(model, [len(part) for part in labels], most_fitted)

    def __call__(self, model: nn.Module) -> None:
        """Add what the model says of all rows after an epoch."""
        self.epochs += 1
        for total, data in ((self.full, self._train), (self.validation_full, self._validation)):
            total += self.epochs * np.concatenate([_log_probabilities(model, batch) for batch in self._batches(data)])

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
        names = ("full", "validation_full", "left_out", "validation_left_out")
        arrays = {name: getattr(self, name) for name in names}
        tensors = {name: None if array is None else torch.from_numpy(array) for name, array in arrays.items()}
        return {"epochs": self.epochs, **tensors}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take what `state_dict` returned."""
        for name, value in state.items():
            setattr(self, name, value.numpy() if isinstance(value, Tensor) else value)

    def _labels(self, data: Any) -> list[NDArray[np.int64]]:
        targets = [batch.target for batch in self._batches(data)]
        if not targets:
            raise ApplicationError("there are no rows to record. Give train= and validation= at least one each.")
        if not all(isinstance(one, Tensor) and not one.is_floating_point() and one.dim() == 1 for one in targets):
            raise ApplicationError(_NO_CLASSES)
        return [one.cpu().numpy().astype(np.int64) for one in targets]

    def _batches(self, data: Any) -> Iterator[Batch]:
        with_ids = isinstance(data, tuple) and len(data) > 2  # a pair is (x, y)
        return small_batches(data, targets=self._targets, with_ids=with_ids)

    def _fit_heads(self, model: nn.Module, sizes: list[int], most: int) -> None:
        """Keep what linear heads on the untrained network predict: for the rows that they are fitted on without each.

        The strength of ridge is the one at which these predictions, as probabilities, predict the given labels best.
        """
        count = len(sizes) if sum(sizes) <= most else max(1, most // max(sizes))
        fitted = np.zeros(len(sizes), bool)  # whole batches, evenly spread
        fitted[np.linspace(0, len(sizes) - 1, min(count, len(sizes))).astype(int)] = True
        places, parts = np.repeat(fitted, sizes), []
        for batch, chosen in zip(self._batches(self._train), fitted, strict=True):
            inputs = _last_inputs(model, batch) if chosen else None
            if chosen and inputs is None:
                return
            parts += [] if inputs is None else [inputs]
        features = np.concatenate(parts, 1)  # [replicas, rows, features]
        del parts
        one_hot, left_out, constants, slopes = np.eye(self.full.shape[1])[self.labels[places]], 0.0, 0.0, []
        for mine in features:
            without, weights, means = ridge_heads(mine.astype(np.float64), one_hot, _STRENGTHS)
            left_out, constants = left_out + without / len(features), constants + means / len(features)
            slopes.append(weights)
        left_out, constants = np.asarray(left_out), np.asarray(constants)
        best = int(np.argmin([fit_weights([centered(one)], self.labels[places]).loss for one in left_out]))
        weights = np.stack([one[best] for one in slopes])

        def predicted(batch: Batch) -> Doubles:
            return (np.asarray(_last_inputs(model, batch)) @ weights).mean(0) + constants[best]

        self.left_out = np.empty((len(places), self.full.shape[1]), np.float32)
        self.left_out[places] = left_out[best]
        if not fitted.all():  # other rows are left out anyway
            pairs = zip(self._batches(self._train), fitted, strict=True)
            self.left_out[~places] = np.concatenate([predicted(batch) for batch, chosen in pairs if not chosen])
        others = [predicted(batch) for batch in self._batches(self._validation)]
        self.validation_left_out = np.concatenate(others).astype(np.float32)


def _log_probabilities(model: nn.Module, batch: Batch) -> Doubles:
    outputs = _run(model, batch)
    if outputs.dim() != 2:
        raise ApplicationError(f"{_NO_CLASSES} Got outputs {list(outputs.shape)}.")
    return torch.log_softmax(outputs.cpu().double(), 1).numpy()  # not every device has float64


def _run(model: nn.Module, batch: Batch) -> Tensor:
    with no_instances(), eval_mode(model), torch.no_grad():
        return batch.to(device_of(model)).logits(model)


def _last_inputs(model: nn.Module, batch: Batch) -> NDArray[np.float32] | None:
    """Return the inputs of the last linear layer that runs, by replica; None: they are no vectors, or too long."""
    inputs: list[Tensor] = []
    hooks = [
        module.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
        for module in model.modules()
        if isinstance(module.template if isinstance(module, Replicated) else module, nn.Linear)
    ]
    try:
        _run(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    rows = batch.rows
    if not inputs or inputs[-1].dim() != 2 or inputs[-1].shape[1] > _MOST_FEATURES or len(inputs[-1]) % rows:
        return None
    return inputs[-1].unflatten(0, (-1, rows))[:_MOST_REPLICAS].float().cpu().numpy()


def ridge_heads(features: Doubles, targets: Doubles, strengths: Any) -> tuple[Doubles, Doubles, Doubles]:
    """Return ridge regressions with a constant: what they predict for every row when fitted without it, and themselves.

    Of features [rows, features] and targets [rows, targets], with strengths as shares of the mean eigenvalue, these are
    left-out predictions [strengths, rows, targets], weights [strengths, features, targets] and constants [strengths,
    targets].
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
