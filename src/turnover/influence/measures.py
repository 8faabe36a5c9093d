"""The score of an output for its target, higher is better: minus the loss, a probability, a margin, or a function.

Influence is the same difference for all of them: the value with the instance minus the value without. For the loss this
is loss(flipped) - loss(kept), Eq. 2 of the paper.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from turnover.batches import IGNORED, Loss, default_loss, mean_over_tokens, per_row
from turnover.errors import InfluenceError

MeasureName = Literal["loss", "probability", "margin"]
MeasureOption = MeasureName | Callable[[Any, Any], Tensor]


@dataclass(frozen=True)
class Measure:
    """Turns outputs and targets of many rows into one value per row; higher is better."""

    kind: MeasureOption = "loss"  # "margin": log-odds of the target; a function takes outputs and targets
    loss: Loss | None = None  # None: cross-entropy for integer targets, squared error for floats

    def __post_init__(self) -> None:
        """Reject unknown measures."""
        if not callable(self.kind) and self.kind not in get_args(MeasureName):
            raise InfluenceError(
                f"measure={self.kind!r} is unknown. Give 'loss', 'probability', 'margin', or a function "
                "(outputs, targets) -> [rows], higher meaning better."
            )
        if self.loss is not None and not callable(self.loss):
            raise InfluenceError(f"loss= must be a function, got {self.loss!r}. Give loss(outputs, targets) -> [rows].")

    @property
    def unit(self) -> str:
        """Return the unit of scores."""
        return self.kind if isinstance(self.kind, str) else getattr(self.kind, "__name__", "measure")

    @property
    def is_cross_entropy(self) -> bool:
        """Tell whether integer targets are judged by plain cross-entropy, which has a fast form."""
        return self.kind == "loss" and self.loss is None

    def check_shifted(self, inputs: Any, targets: Any) -> None:
        """Reject tokens that are to be predicted from themselves: a causal model's labels before they are shifted.

        Hugging Face models shift labels within their own loss; outputs and targets are compared position by position
        here. A loss or measure of one's own may shift them itself.
        """
        if self.loss is not None or callable(self.kind) or not isinstance(targets, Tensor):
            return
        if not isinstance(inputs, Tensor) or inputs.shape != targets.shape or targets.is_floating_point():
            return
        counted = targets != IGNORED
        if int(counted.sum()) > 2 and bool((inputs == targets)[counted].all()):
            raise InfluenceError(
                "the labels are the input_ids themselves: a causal language model shifts them within its own loss, but "
                "scores compare outputs and labels position by position. Give each position the next token as its "
                "label, as Sequences and Documents of turnover.batches do, or a loss of your own that "
                "shifts: loss=lambda outputs, labels: ..."
            )

    def __call__(self, outputs: Tensor, targets: Any) -> Tensor:
        """Return float32 values [rows], without their gradient."""
        return self.values(outputs, targets).detach().float()

    def values(self, outputs: Tensor, targets: Any) -> Tensor:
        """Return values [rows] with their gradient; the mean of a row's tokens where it has several."""
        if outputs.dtype in (torch.float16, torch.bfloat16):  # a loss needs more digits than these have
            outputs = outputs.float()
        if not isinstance(self.kind, str):
            return per_row(self.kind(outputs, targets), outputs, targets, name=f"the measure {self.unit!r}")
        if self.kind == "loss" and self.loss is not None:
            return -per_row(self.loss(outputs, targets), outputs, targets)
        if self.kind == "loss":
            loss = default_loss(targets)
            return -loss(outputs if targets.is_floating_point() else _class_scores(outputs, targets), targets)
        by_name = _probability if self.kind == "probability" else _margin
        return by_name(_class_scores(outputs, targets), targets)

    def token_values(self, outputs: Tensor, targets: Any) -> Tensor | None:
        """Return the value of every token [rows, tokens]; None where a row has one value, or more dimensions."""
        function = self.loss if self.kind == "loss" else self.kind
        if callable(function):
            if outputs.dtype in (torch.float16, torch.bfloat16):
                outputs = outputs.float()
            values = function(outputs, targets).detach().float()
            return None if values.dim() != 2 else -values if self.kind == "loss" else values
        if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.dim() != 2 or outputs.dim() != 3:
            return None
        # Every token as a row of its own: what is said of rows holds for each.
        return self(outputs.flatten(0, 1), targets.flatten()).view(targets.shape)


def _class_scores(outputs: Tensor, targets: Any) -> Tensor:
    """Return outputs as scores of at least two classes, or say why they are not."""
    if not isinstance(targets, Tensor) or targets.is_floating_point() or outputs.dim() != targets.dim() + 1:
        shape = list(targets.shape) if isinstance(targets, Tensor) else type(targets).__name__
        raise InfluenceError(
            f"cross-entropy and the measures 'probability' and 'margin' need outputs [rows, classes] and integer "
            f"targets [rows], got outputs {list(outputs.shape)} and targets {shape}. For other models give a "
            "function: loss=lambda outputs, targets: ..., or measure=..."
        )
    classes = outputs.shape[-1]
    if classes == 1:
        raise InfluenceError(
            f"outputs have shape {list(outputs.shape)}: one class, so there is nothing to tell apart. For a single "
            "logit give a loss of your own: loss=lambda outputs, targets: ..."
        )
    outside = (targets.long() >= classes) | (targets.long() < 0) & (targets.long() != IGNORED)
    if bool(outside.any()):
        raise InfluenceError(
            f"targets must be classes from 0 to {classes - 1}, as outputs have shape {list(outputs.shape)}, got "
            f"{int(targets[outside][0])}."
        )
    return outputs.float()


def _at_targets(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the score of each target; of class 0 where the target is ignored."""
    return scores.gather(-1, targets.long().clamp(min=0).unsqueeze(-1)).squeeze(-1)


def _probability(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the target's probability; of several tokens, the geometric mean of theirs."""
    logs = _at_targets(functional.log_softmax(scores, -1), targets)
    return mean_over_tokens(logs.masked_fill(targets == IGNORED, 0), targets).exp()


def _margin(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the log-odds of the target: its score minus the log-sum-exp of all others."""
    at_target = functional.one_hot(targets.long().clamp(min=0), scores.shape[-1]).bool()
    others = scores.masked_fill(at_target, -torch.inf).logsumexp(-1)
    margins = (_at_targets(scores, targets) - others).masked_fill(targets == IGNORED, 0)
    return mean_over_tokens(margins, targets)
