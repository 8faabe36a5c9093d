"""How good an output is for its target: the loss turned round, a probability, a margin, or a function of the user's.

Inside the engine larger is always better ("goodness"), so that a score is the same difference for all of them:
goodness with the instance minus goodness without. For the loss this is loss(flipped) - loss(kept), Eq. 2 of the
paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from turnover.errors import InfluenceError
from turnover.wrapping.rows import Loss, default_loss

MeasureName = Literal["loss", "probability", "margin"]
Measure = MeasureName | Callable[[Any, Any], Tensor]
NAMES: tuple[MeasureName, ...] = ("loss", "probability", "margin")


@dataclass(frozen=True)
class Goodness:
    """Turns outputs and targets of many rows into one number a row; larger is better."""

    measure: Measure
    loss: Loss | None

    def __post_init__(self) -> None:
        """Refuse what is no measure."""
        if not callable(self.measure) and self.measure not in NAMES:
            raise InfluenceError(
                f"measure={self.measure!r} is unknown. Give 'loss', 'probability', 'margin', or a function "
                "(outputs, targets) -> [rows], larger meaning better."
            )
        if self.loss is not None and not callable(self.loss):
            raise InfluenceError(f"loss={self.loss!r} is no function. Give loss(outputs, targets) -> [rows].")

    @property
    def unit(self) -> str:
        """Return the unit of scores."""
        return self.measure if isinstance(self.measure, str) else getattr(self.measure, "__name__", "measure")

    @property
    def is_cross_entropy(self) -> bool:
        """Tell whether integer targets are judged by plain cross-entropy, which has a fast form."""
        return self.measure == "loss" and self.loss is None

    def __call__(self, outputs: Tensor, targets: Any) -> Tensor:
        """Return float32 goodness [rows]."""
        if self.measure == "loss":
            values = -_per_row((self.loss or default_loss(targets))(outputs, targets), outputs, "the loss")
        elif self.measure == "probability":
            values = _picked(functional.log_softmax(_class_scores(outputs, targets), -1), targets).exp()
        elif self.measure == "margin":
            values = _margin(_class_scores(outputs, targets), targets)
        else:
            assert not isinstance(self.measure, str)
            values = _per_row(self.measure(outputs, targets), outputs, f"the measure {self.unit!r}")
        return values.detach().float()


def _per_row(values: Any, outputs: Tensor, name: str) -> Tensor:
    """Return one value a row, averaging tokens, or say what is wrong."""
    rows = len(outputs)
    shape = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
    if not isinstance(values, Tensor) or values.dim() == 0 or values.shape[0] != rows:
        raise InfluenceError(
            f"{name} returned {shape} for {rows} rows, but one value a row is needed. "
            "With a loss of torch use reduction='none': nn.CrossEntropyLoss(reduction='none')."
        )
    return values.flatten(1).mean(1) if values.dim() > 1 else values


def _class_scores(outputs: Tensor, targets: Any) -> Tensor:
    if not isinstance(targets, Tensor) or targets.is_floating_point() or outputs.dim() != targets.dim() + 1:
        raise InfluenceError(
            "measure='probability' and 'margin' need class scores [rows, classes] and integer targets [rows]. "
            "For other models give a function: measure=lambda outputs, targets: ..."
        )
    return outputs.float()


def _picked(values: Tensor, targets: Tensor) -> Tensor:
    picked = values.gather(-1, targets.long().unsqueeze(-1)).squeeze(-1)
    return picked.flatten(1).mean(1) if picked.dim() > 1 else picked


def _margin(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the log-odds of the target: its score minus the log-sum-exp of all others."""
    at_target = functional.one_hot(targets.long(), scores.shape[-1]).bool()
    others = scores.masked_fill(at_target, -torch.inf).logsumexp(-1)
    margins = scores.gather(-1, targets.long().unsqueeze(-1)).squeeze(-1) - others
    return margins.flatten(1).mean(1) if margins.dim() > 1 else margins
