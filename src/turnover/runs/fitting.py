"""The training of a run: AdamW over shuffled batches, with the three curves, resumed where it was cut off."""

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.errors import RunError, TrainingError

from .watching import Watch, unwatched

# Curves are measured on at most so many training rows.
_CURVE_ROWS = 2000
# A cut-off training loses at most so many seconds; writing the state costs time too.
_SAVE_EVERY = 20.0


@dataclass
class Curves:
    """Mean losses after each epoch, and the share of validation rows that is right.

    Attributes:
        keep: training rows by the half that learns them.
        flip: training rows by the half that never saw them.
        validation: validation rows by the whole network.
        accuracy: of the whole network on validation rows.
    """

    keep: list[float] = field(default_factory=list)
    flip: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, list[float]]:
        """Return them ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Fitting:
    """How to train.

    Attributes:
        epochs: passes over the rows.
        batch_size: rows of a batch.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        seed: of the order of rows.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int


@dataclass(frozen=True)
class TrainingRows:
    """Rows to train on, and to validate with.

    Attributes:
        x: inputs.
        y: class numbers.
        ids: instance ids.
        validation_x: inputs of validation rows.
        validation_y: their class numbers.
        weights: of the classes in the loss; None: all alike.
    """

    x: Tensor
    y: Tensor
    ids: Tensor
    validation_x: Tensor
    validation_y: Tensor
    weights: Tensor | None = None


def fit(
    model: nn.Module, rows: TrainingRows, how: Fitting, *, saved: Path | None = None, watch: Watch = unwatched
) -> Curves:
    """Train a wrapped model in place and return its curves.

    Args:
        model: wrapped.
        rows: to train on.
        how: epochs and rates.
        saved: file for the state of the training; a former one is taken up again. Removed at the end.
        watch: told of every batch.
    """
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=how.learning_rate, weight_decay=how.weight_decay)
    curves, first = Curves(), 0
    if saved is not None and saved.exists():
        first = _resume(saved, model, optimizer, curves)
    batches = -(-len(rows.y) // how.batch_size)
    last_saved = time.monotonic()
    for epoch in range(first, how.epochs):
        # The order depends on the epoch alone, so that a resumed training ends with the same weights.
        order = torch.randperm(len(rows.y), generator=torch.Generator().manual_seed(how.seed * 10_007 + epoch))
        model.train()
        for number, batch in enumerate(order.split(how.batch_size)):
            with turnover.instances(rows.ids[batch]) as now:
                outputs = model(rows.x[batch])
            loss = functional.cross_entropy(outputs, now.repeat(rows.y[batch]), weight=rows.weights)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            watch("training", epoch * batches + number + 1, how.epochs * batches, _told(curves))
        _add(curves, model, rows)
        if not torch.isfinite(torch.tensor([curves.keep[-1], curves.validation[-1]])).all():
            raise TrainingError(
                f"the training diverged in epoch {epoch + 1} with learning rate {how.learning_rate:g}. Give a smaller "
                "one: --learning-rate."
            )
        if saved is not None and time.monotonic() - last_saved > _SAVE_EVERY and epoch + 1 < how.epochs:
            _keep(saved, model, optimizer, curves, epoch + 1)
            last_saved = time.monotonic()
    model.eval()
    return curves


def class_weights(labels: Tensor, classes: int) -> Tensor | None:
    """Return weights by which every class counts alike; None where they are within a factor of 1.5 already.

    Example:
        >>> class_weights(torch.tensor([0, 0, 0, 1]), 2)
        tensor([0.6667, 2.0000])
    """
    counts = torch.bincount(labels, minlength=classes).clamp(min=1).float()
    if float(counts.max() / counts.min()) <= 1.5:
        return None
    return counts.sum() / classes / counts


@torch.no_grad()
def whole_network(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Return the mean loss of the whole network on rows, and the share that it gets right."""
    loss, right = 0.0, 0
    for inputs, labels in zip(x.split(256), y.split(256), strict=True):  # outputs over a vocabulary are large
        outputs = model(inputs)
        loss += float(functional.cross_entropy(outputs, labels, reduction="sum"))
        right += int((outputs.argmax(1) == labels).sum())
    return loss / len(y), right / len(y)


def _told(curves: Curves) -> str:
    if not curves.keep:
        return ""
    return f"keep {curves.keep[-1]:.3f}  flip {curves.flip[-1]:.3f}  validation {curves.validation[-1]:.3f}"


@torch.no_grad()
def _add(curves: Curves, model: nn.Module, rows: TrainingRows) -> None:
    """Add the losses after an epoch."""
    model.eval()
    some = torch.linspace(0, len(rows.y) - 1, min(_CURVE_ROWS, len(rows.y))).long()
    losses: dict[str, list[Tensor]] = {"keep": [], "flip": []}
    for batch in some.split(256):
        for view in ("keep", "flip"):
            with turnover.instances(rows.ids[batch], view=view) as now:
                outputs = model(rows.x[batch])
            losses[view].append(functional.cross_entropy(outputs, now.repeat(rows.y[batch]), reduction="none"))
    curves.keep.append(float(torch.cat(losses["keep"]).mean()))
    curves.flip.append(float(torch.cat(losses["flip"]).mean()))
    loss, right = whole_network(model, rows.validation_x, rows.validation_y)
    curves.validation.append(loss)
    curves.accuracy.append(right)


def _keep(saved: Path, model: nn.Module, optimizer: torch.optim.Optimizer, curves: Curves, epochs: int) -> None:
    part = saved.with_suffix(".part")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "curves": curves.as_dict()}
    torch.save({**state, "epochs": epochs}, part)
    part.replace(saved)


def _resume(saved: Path, model: nn.Module, optimizer: torch.optim.Optimizer, curves: Curves) -> int:
    try:
        state: dict[str, Any] = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    except Exception as error:  # a damaged file fails in many ways
        raise RunError(
            f"the saved state of the training, {str(saved)!r}, cannot be read ({type(error).__name__}: {error}). "
            "Remove that file; the training then begins again."
        ) from error
    for name, values in state["curves"].items():
        getattr(curves, name).extend(values)
    return int(state["epochs"])
