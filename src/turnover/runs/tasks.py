"""What a run learns: classes or numbers. Targets, losses, predictions, results, and what findings need of them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from turnover.applications import ClassLabels, NumberFit, NumberLabels, prediction
from turnover.influence import MeasureOption
from turnover.layers import device_of
from turnover.scores import OutOfSample

from .config import RunConfig
from .table import Rows

_AT_ONCE = 1024  # rows of a forward pass


@dataclass(frozen=True)
class Classification:
    """Labels are classes.

    Attributes:
        labels: of all rows, as findings speak of them.
        weights: of the classes in the loss; None: all equal.
        measure: what questions about single predictions ask of them.
        recorded: whether a record of the training says which labels are wrong.
    """

    labels: ClassLabels
    weights: Tensor | None
    name: ClassVar[str] = "classification"
    measure: ClassVar[MeasureOption] = "loss"
    most_epochs: ClassVar[int | None] = None
    recorded: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        """Return the number of classes."""
        return len(self.labels.names)

    def targets(self, labels: np.ndarray) -> Tensor:
        """Return class numbers."""
        return torch.from_numpy(labels)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return cross-entropy, rare classes weighted as in the training."""
        return functional.cross_entropy(outputs, targets, weight=self._weights(outputs), reduction="none")

    def batch_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the weighted mean of cross-entropy."""
        return functional.cross_entropy(outputs, targets, weight=self._weights(outputs))

    def _weights(self, outputs: Tensor) -> Tensor | None:
        return None if self.weights is None else self.weights.to(outputs.device)

    def measured(self, model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
        """Return the mean loss and the accuracy."""
        outputs = _outputs(model, x)
        accuracy = float((outputs.argmax(1) == y).float().mean())
        return {"validation": float(functional.cross_entropy(outputs, y)), "accuracy": accuracy}

    def predicted(self, model: nn.Module, x: Tensor) -> np.ndarray:
        """Return probabilities [rows, classes]."""
        return functional.softmax(_outputs(model, x), dim=1).numpy() if len(x) else np.empty((0, self.outputs))

    def held_out(self, predictions: OutOfSample) -> OutOfSample:
        """Return probabilities as they are."""
        return predictions

    def results(self, model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
        """Return accuracy and loss."""
        found = self.measured(model, x, y)
        return {"accuracy": found["accuracy"], "loss": found["validation"]}

    def baseline(self, y: Tensor) -> dict[str, float]:
        """Return the share of the most frequent class."""
        return {"most_frequent_share": float(torch.bincount(y).max() / len(y))}

    def wrong(self, rows: Rows, places: np.ndarray, truth: list[Any]) -> np.ndarray:
        """Compare names of classes."""
        given = [rows.label_names[number] for number in rows.labels[places]]
        return np.array([str(true).strip() != label for true, label in zip(truth, given, strict=True)])


@dataclass(frozen=True)
class Regression:
    """Labels are numbers, which the network learns standardized."""

    labels: NumberLabels  # with their scale, by the training rows
    name: ClassVar[str] = "regression"
    measure: ClassVar[MeasureOption] = staticmethod(prediction)
    # Noise of numbers is memorized sooner than wrong classes: with 30 epochs held-out predictions of noisy ones were
    # worse than their mean.
    most_epochs: ClassVar[int | None] = 10
    recorded: ClassVar[bool] = False  # the record speaks of classes
    outputs: ClassVar[int] = 1

    def targets(self, labels: np.ndarray) -> Tensor:
        """Return standardized numbers."""
        return torch.from_numpy(self.labels.standardized(labels))

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return squared errors."""
        return (outputs.squeeze(-1) - targets).square()

    def batch_loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error."""
        return functional.mse_loss(outputs.squeeze(-1), targets)

    def measured(self, model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
        """Return the mean squared error and R²."""
        squared = (_outputs(model, x).squeeze(-1) - y).square().mean()
        # One validation row has no variance to explain.
        r2 = float(1 - squared / y.var(correction=0).clamp(min=1e-12))
        return {"validation": float(squared), "r2": r2}

    def predicted(self, model: nn.Module, x: Tensor) -> np.ndarray:
        """Return numbers [rows]."""
        return self.labels.restored(_outputs(model, x).squeeze(-1).numpy()) if len(x) else np.empty(0)

    def held_out(self, predictions: OutOfSample) -> OutOfSample:
        """Return numbers in units of the labels."""
        restored = self.labels.restored(predictions.replicas)
        return OutOfSample(restored, ids=predictions.ids, path=predictions.path)

    def results(self, model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
        """Return RMSE, MAE, R², and the RMSE of the mean."""
        labels = self.labels.restored(y.numpy())
        found = NumberFit.of(self.predicted(model, x), labels, baseline=self.labels.mean).as_dict()
        return {name: value for name, value in found.items() if name != "rows" and value is not None}

    def baseline(self, y: Tensor) -> dict[str, float]:
        """Return mean and standard deviation of the training labels."""
        return {"label_mean": self.labels.mean, "label_deviation": self.labels.deviation}

    def wrong(self, rows: Rows, places: np.ndarray, truth: list[Any]) -> np.ndarray:
        """Compare numbers; ValueError or TypeError where a true one is none."""
        return np.array([float(true) for true in truth]) != rows.labels[places]


Task = Classification | Regression
"""What a run learns: `targets` of labels, `losses` of rows, `predicted` values, `results`, and what findings need."""


def task_of(rows: Rows, config: RunConfig) -> Task:
    """Return what the labels of rows are, by the training rows."""
    train = rows.splits == 0
    if rows.numeric:
        return Regression(NumberLabels.of(rows.labels, train))
    weights = _class_weights(rows.labels[train], len(rows.label_names)) if config.balance else None
    return Classification(ClassLabels(rows.labels, rows.label_names), weights)


def _class_weights(labels: np.ndarray, classes: int) -> Tensor | None:
    """Return weights by which every class counts equally; None where class sizes are within a factor of 1.5."""
    counts = torch.from_numpy(np.bincount(labels, minlength=classes)).clamp(min=1).float()
    if float(counts.max() / counts.min()) <= 1.5:
        return None
    return counts.sum() / classes / counts


@torch.no_grad()
def _outputs(model: nn.Module, x: Tensor) -> Tensor:
    device = device_of(model)
    return torch.cat([model(part.to(device)).cpu() for part in x.split(_AT_ONCE)])
