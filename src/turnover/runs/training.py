"""The training of a run: AdamW over shuffled batches, with the three curves, resumed where it was interrupted."""

import json
import shutil
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from turnover.applications import TrainingRecord
from turnover.errors import RunError, TrainingError, TurnOverWarning
from turnover.integrations import measure_curves
from turnover.layers import device_of, instances
from turnover.storage import readable, wrong_types
from turnover.training import read_state, write_state
from turnover.wrapping import has_batch_statistics, recalibrate

from .config import RunConfig, Watch, unwatched

# Curves are measured on at most so many training rows.
_CURVE_ROWS = 2000
# An interrupted training loses at most so many seconds; writing the state costs time too.
_SAVE_EVERY = 20.0


@dataclass
class Curves:
    """Mean losses after each epoch, and the accuracy or R² on validation rows."""

    keep: list[float] = field(default_factory=list)  # training rows by their kept subnetworks
    flip: list[float] = field(default_factory=list)  # training rows by their flipped subnetworks
    validation: list[float] = field(default_factory=list)  # validation rows by the full network
    accuracy: list[float] = field(default_factory=list)
    r2: list[float] = field(default_factory=list)  # in its place, of a regression

    def as_dict(self) -> dict[str, list[float]]:
        """Return them ready for JSON."""
        return asdict(self)

    @classmethod
    def read(cls, file: Path) -> "Curves":
        """Return the curves of a JSON file; TypeError or ValueError where it holds something else."""
        curves = cls(**json.loads(file.read_text(encoding="utf-8")))
        if wrong := wrong_types(curves):
            raise TypeError(f"values of the wrong type: {', '.join(wrong)}")
        return curves

    @classmethod
    def mean(cls, members: "Sequence[Curves]") -> "Curves":
        """Return the mean curves of several trainings."""
        names = [part.name for part in fields(cls)]
        return cls(**{name: np.mean([vars(one)[name] for one in members], axis=0).tolist() for name in names})


@dataclass(frozen=True)
class TrainingRows:
    """Rows to train on, and to validate with."""

    x: Tensor
    y: Tensor
    ids: Tensor
    validation_x: Tensor
    validation_y: Tensor
    weights: Tensor | None = None  # of the classes in the loss; None: all equal


def fit(
    model: nn.Module,
    rows: TrainingRows,
    settings: RunConfig,
    *,
    record: TrainingRecord | None = None,
    saved: Path | None = None,
    watch: Watch = unwatched,
) -> Curves:
    """Train a wrapped model in place by settings without open values, and return its curves.

    The record is called after every epoch. The file `saved` keeps the state to resume from.
    """
    device = device_of(model)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # Fused: with many weights and small batches, the steps of AdamW one by one take as long as all products.
    optimizer = torch.optim.AdamW(learned, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
    curves, first = Curves(), 0
    if saved is not None and saved.exists():
        first = _resume(saved, model, optimizer, curves, record, settings)
    batches = -(-len(rows.y) // settings.batch_size)
    steps = batches + max(batches // 4, 1)  # of an epoch, with the look at all rows after it
    last_saved = time.monotonic()
    weights = None if rows.weights is None else rows.weights.to(device)
    for epoch in range(first, settings.epochs):
        # The order depends on the epoch alone, so that a resumed training ends with the same weights.
        order = torch.randperm(len(rows.y), generator=torch.Generator().manual_seed(settings.seed * 10_007 + epoch))
        model.train()
        for number, batch in enumerate(order.split(settings.batch_size)):
            with instances(rows.ids[batch]) as active:
                outputs = model(rows.x[batch].to(device))
            loss = batch_loss(outputs, active.repeat(rows.y[batch].to(device)), weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            watch("training", epoch * steps + number + 1, settings.epochs * steps, _progress_note(curves))
        _add(curves, model, rows)
        if record is not None:
            record(model)
        watch("training", (epoch + 1) * steps, settings.epochs * steps, _progress_note(curves))
        if not torch.isfinite(torch.tensor([curves.keep[-1], curves.validation[-1]])).all():
            raise TrainingError(
                f"the training diverged in epoch {epoch + 1} with learning rate {settings.learning_rate:g}. Give a "
                "smaller one: --learning-rate."
            )
        if saved is not None and time.monotonic() - last_saved > _SAVE_EVERY and epoch + 1 < settings.epochs:
            try:
                _keep(saved, model, optimizer, curves, record, epoch + 1, settings)
            except OSError as error:
                # The weights are in memory, so that the training needs the disk at its end only.
                warnings.warn(_not_kept(saved, error), TurnOverWarning, stacklevel=2)
            last_saved = time.monotonic()
    if has_batch_statistics(model.eval()):
        # A last batch of one row has no variance.
        whole = len(rows.y) > settings.batch_size
        recalibrate(model, DataLoader(TensorDataset(rows.x, rows.y), settings.batch_size, drop_last=whole))
    return curves


def class_weights(labels: Tensor, classes: int) -> Tensor | None:
    """Return weights by which every class counts equally; None where class sizes are within a factor of 1.5."""
    counts = torch.bincount(labels, minlength=classes).clamp(min=1).float()
    if float(counts.max() / counts.min()) <= 1.5:
        return None
    return counts.sum() / classes / counts


def batch_loss(outputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean loss of rows: cross-entropy of classes, weighted by theirs, or the squared error of numbers."""
    if targets.is_floating_point():
        return functional.mse_loss(outputs.squeeze(-1), targets)
    return functional.cross_entropy(outputs, targets, weight=weights)


@torch.no_grad()
def predicted_numbers(model: nn.Module, x: Tensor) -> Tensor:
    """Return what the full network of a regression predicts for rows [rows], as it was trained: standardized."""
    device = device_of(model)
    return torch.cat([model(part.to(device)).squeeze(-1).cpu() for part in x.split(1024)])


@torch.no_grad()
def loss_and_accuracy(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Return the mean loss and the accuracy of the full network on rows."""
    loss, correct, device = 0.0, 0, device_of(model)
    for inputs, labels in zip(x.split(256), y.split(256), strict=True):  # outputs over a vocabulary are large
        outputs, labels = model(inputs.to(device)), labels.to(device)
        loss += float(functional.cross_entropy(outputs, labels, reduction="sum"))
        correct += int((outputs.argmax(1) == labels).sum())
    return loss / len(y), correct / len(y)


def _progress_note(curves: Curves) -> str:
    if not curves.keep:
        return ""
    return f"keep {curves.keep[-1]:.3f}  flip {curves.flip[-1]:.3f}  validation {curves.validation[-1]:.3f}"


def _add(curves: Curves, model: nn.Module, rows: TrainingRows) -> None:
    """Add the losses after an epoch."""
    model.eval()
    sample = torch.linspace(0, len(rows.y) - 1, min(_CURVE_ROWS, len(rows.y))).long()
    measured = measure_curves(model, train=(rows.x[sample], rows.y[sample], rows.ids[sample]))
    curves.keep.append(measured["curve_keep"])
    curves.flip.append(measured["curve_flip"])
    if rows.y.is_floating_point():
        squared = (predicted_numbers(model, rows.validation_x) - rows.validation_y).square().mean()
        curves.validation.append(float(squared))
        # One validation row has no variance to explain.
        curves.r2.append(float(1 - squared / rows.validation_y.var(correction=0).clamp(min=1e-12)))
        return
    loss, accuracy = loss_and_accuracy(model, rows.validation_x, rows.validation_y)
    curves.validation.append(loss)
    curves.accuracy.append(accuracy)


def _keep(
    saved: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    curves: Curves,
    record: TrainingRecord | None,
    epochs: int,
    settings: RunConfig,
) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "curves": curves.as_dict()}
    if record is not None:
        state["record"] = record.state()
    write_state(saved, {**state, "epochs": epochs, "settings": settings.as_dict()})


def _not_kept(saved: Path, error: OSError) -> str:
    free = shutil.disk_usage(saved.parent).free
    return (
        f"the state of the training could not be kept in {str(saved)!r}: {error.strerror or error}. "
        f"{readable(free)} are free on that disk: make room. The training goes on; if it is stopped, it resumes at the "
        "state that was kept last, or begins anew."
    )


def _resume(
    saved: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    curves: Curves,
    record: TrainingRecord | None,
    settings: RunConfig,
) -> int:
    """Return after how many epochs the training is resumed, with all as it was then.

    0, so that it starts over, where the file is damaged or of another training.
    """
    try:
        state = read_state(saved)
        if state is None or state["settings"] != settings.as_dict():
            return 0
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        if record is not None:
            record.resume(state["record"])
    except Exception as error:  # a damaged file fails in many ways
        raise RunError(
            f"the saved state of the training, {str(saved)!r}, cannot be read ({type(error).__name__}: {error}). "
            "Remove that file; the training then starts over."
        ) from error
    for name, values in state["curves"].items():
        getattr(curves, name).extend(values)
    return int(state["epochs"])
