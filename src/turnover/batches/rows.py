"""A batch taken apart: inputs, target and ids; and one row of what a model gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from turnover.errors import MissingIdError, TargetError

from .batches import split_ids

Loss = Callable[[Any, Any], Tensor]
TARGETS = ("labels", "label")
IGNORED = -100
"""Tokens with this target do not count, as for torch and Hugging Face."""


@dataclass(frozen=True)
class OpenBatch:
    """A batch as a model call needs it."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Any
    ids: Tensor | None


def open_batch(batch: Any) -> OpenBatch:
    """Return inputs, target and ids of a batch: the last item before the id, or `labels` / `label`, is the target."""
    ids: Tensor | None
    try:
        rest, ids = split_ids(batch)
    except MissingIdError:
        rest, ids = batch, None
    if isinstance(rest, Mapping):
        fields = dict(cast("Mapping[str, Any]", rest))
        name = next((name for name in TARGETS if name in fields), None)
        target = fields.pop(name) if name else None
        return OpenBatch((), fields, target, ids)
    if isinstance(rest, tuple | list):
        items: list[Any] = [*rest]  # pyright: ignore[reportUnknownVariableType]
        target = items.pop() if len(items) > 1 else None
        return OpenBatch(tuple(items), {}, target, ids)
    return OpenBatch((rest,), {}, None, ids)


def logits_of(outputs: Any) -> Any:
    """Return the tensor that a loss is made of: `.logits`, "logits", the first of a tuple, or the output itself."""
    if hasattr(outputs, "logits"):
        return outputs.logits
    if isinstance(outputs, Mapping) and "logits" in outputs:
        return cast("Mapping[str, Any]", outputs)["logits"]
    if isinstance(outputs, tuple | list) and outputs:
        return cast("list[Any]", outputs)[0]
    return cast(Any, outputs)


def row_of(values: Any, row: int) -> Any:
    """Return one row, still as a batch."""
    return values[row : row + 1]


def default_loss(target: Any) -> Loss:
    """Return cross-entropy for integer targets and squared error for floats, one value an example."""
    if not isinstance(target, Tensor):
        raise TargetError(f"targets are a {type(target).__name__}. Give a tensor, or a loss of your own: loss=...")
    return squared_error if target.is_floating_point() else _cross_entropy


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared error of each row."""
    # [rows, 1] minus [rows] would be [rows, rows]: every row against every target.
    if outputs.dim() == targets.dim() + 1 and outputs.shape[-1] == 1:
        outputs = outputs.squeeze(-1)
    elif targets.dim() == outputs.dim() + 1 and targets.shape[-1] == 1:
        targets = targets.squeeze(-1)
    if outputs.shape != targets.shape:
        raise TargetError(
            f"outputs have shape {list(outputs.shape)} and targets {list(targets.shape)}; for the squared error both "
            "need the same. Give targets like the outputs, or a loss of your own: loss=..."
        )
    errors = (outputs - targets).square()
    return errors.flatten(1).mean(1) if errors.dim() > 1 else errors


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    # Classes are the last dimension here and dimension 1 for torch.
    losses = functional.cross_entropy(outputs.movedim(-1, 1), targets.to(torch.int64), reduction="none")
    if losses.dim() == 1:
        return losses
    counted = (targets != IGNORED).flatten(1).sum(1).clamp(min=1)  # the losses of ignored tokens are 0
    return losses.flatten(1).sum(1) / counted
