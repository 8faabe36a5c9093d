"""Features of training rows: the gradient of their loss with respect to Linear layers, by forward passes.

The gradient of a row with respect to the weight of a Linear layer is e ⊗ h, summed over positions: h is the layer's
input and e the gradient of the loss with respect to its output. At the last layer of a classifier e is probability
minus label. Only what lies behind the first of these layers is differentiated.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from turnover.batches import Batch, default_loss, logits_of
from turnover.errors import InfluenceError, TurnOverError
from turnover.influence.members import precision
from turnover.influence.paths.chunk import Chunk
from turnover.influence.paths.forward import Pass

from .ridge import Ridge

_OR_FEATURES = (
    "Or give features of your own, [rows, d]: denoise=turnover.influence.Ridge(features=lambda model, inputs, "
    "targets: ...)."
)


@dataclass(frozen=True)
class Outer:
    """Rows as sums over positions of hidden ⊗ error.

    Attributes:
        hidden: [rows, positions, d].
        error: [rows, positions, c]; the negative gradient of the loss.
    """

    hidden: Tensor
    error: Tensor


Run = tuple[Tensor, Tensor]  # input and output of a layer


def layers_of(work: Pass, ridge: Ridge, batch: Batch) -> list[nn.Linear]:
    """Return the layers whose gradients are the features; none where a function of the user's makes them.

    Args:
        work: the model.
        ridge: names layers, or none.
        batch: some training rows; without named layers, the last Linear that ran on them and matters to their loss.
    """
    if ridge.features is not None:
        return []
    known = {name: module for name, module in work.member.root.named_modules() if isinstance(module, nn.Linear)}
    if ridge.layers is not None:
        unknown = [name for name in ridge.layers if name not in known]
        if unknown or not ridge.layers:
            raise InfluenceError(
                f"layers={list(ridge.layers)!r}: {', '.join(map(repr, unknown)) or 'nothing'} is no Linear layer of "
                f"this model. It has {', '.join(map(repr, known)) or 'none'}. {_OR_FEATURES}"
            )
        return [known[name] for name in ridge.layers]
    runs, gradients = _run(work, ridge, batch, list(known.values()))
    reached = [run[0] for run, gradient in zip(runs, gradients, strict=True) if gradient is not None]
    if not reached:
        raise InfluenceError(
            "denoising needs the input of the last Linear layer, but no nn.Linear that makes the outputs was found in "
            f"this model. {_OR_FEATURES}"
        )
    return [reached[-1]]


def features_of(work: Pass, ridge: Ridge, batch: Batch, layers: Sequence[nn.Linear]) -> list[Outer]:
    """Return the features of some training rows in one model, layer by layer, on the CPU."""
    if ridge.features is not None:
        return [_given(work, ridge.features, batch)]
    runs, gradients = _run(work, ridge, batch, layers)
    found = {module: ([], []) for module in layers}
    for (module, hidden, _), gradient in zip(runs, gradients, strict=True):
        if gradient is None or hidden.shape[0] != batch.rows or gradient.shape[0] != batch.rows:
            shape = list(hidden.shape)
            raise InfluenceError(
                f"a Linear layer took an input of shape {shape} for {batch.rows} training rows, so it is not known "
                f"which part belongs to which row. {_OR_FEATURES}"
                if gradient is not None
                else f"the loss does not depend on a Linear layer whose input has shape {shape}. {_OR_FEATURES}"
            )
        found[module][0].append(hidden.float().reshape(batch.rows, -1, hidden.shape[-1]).cpu())
        found[module][1].append(-gradient.float().reshape(batch.rows, -1, gradient.shape[-1]).cpu())
    if any(not hidden for hidden, _ in found.values()):
        raise InfluenceError(f"a layer of layers={ridge.layers!r} did not run. Leave it out. {_OR_FEATURES}")
    return [Outer(torch.cat(hidden, 1), torch.cat(error, 1)) for hidden, error in found.values()]


def _given(work: Pass, function: Callable[..., Any], batch: Batch) -> Outer:
    inputs = batch.kwargs or (batch.args[0] if len(batch.args) == 1 else batch.args)
    found = function(work.member.model, inputs, batch.target)
    if not isinstance(found, Tensor) or found.dim() != 2 or len(found) != batch.rows:
        shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InfluenceError(f"Ridge(features=...) returned {shape} for {batch.rows} rows. Return a tensor [rows, d].")
    return Outer(found.detach().float().cpu()[:, None], torch.ones(batch.rows, 1, 1))


def _run(
    work: Pass, ridge: Ridge, batch: Batch, layers: Sequence[nn.Linear]
) -> tuple[list[tuple[nn.Linear, Tensor, Tensor]], Sequence[Tensor | None]]:
    """Return every run of the layers (module, input, output) and the gradient of the loss at each output."""
    if batch.target is None or batch.ids is None:
        raise InfluenceError(
            "denoising needs the labels and ids of the training rows. Give train=turnover.with_instance_ids(dataset) "
            f"of a data set with (x, y), or dicts with 'labels'. {_OR_FEATURES}"
        )
    runs: list[tuple[nn.Linear, Tensor, Tensor]] = []
    view = Chunk(batch.ids, ["flip"]) if ridge.view == "flip" else nullcontext()
    with _noting(layers, runs), view, precision(work.member.device, work.dtype):
        outputs = logits_of(work.member.model(*batch.args, **batch.kwargs))
        if not runs:
            return [], []
        losses = _losses(work, outputs, batch.target)
        gradients = torch.autograd.grad(losses.sum(), [output for *_, output in runs], allow_unused=True)
    return runs, gradients


@contextmanager
def _noting(layers: Sequence[nn.Linear], runs: list[tuple[nn.Linear, Tensor, Tensor]]) -> Iterator[None]:
    """Note every run of the layers; gradients are on from the first one's output."""

    def note(module: nn.Linear, args: tuple[Any, ...], output: Tensor) -> Tensor:
        torch.set_grad_enabled(True)
        if not output.requires_grad:
            output = output.detach().requires_grad_()
        runs.append((module, args[0].detach(), output))
        return output.clone()  # a model may write into what it gets, but not into what is differentiated

    before = torch.is_grad_enabled()
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield
    finally:
        torch.set_grad_enabled(before)
        for hook in hooks:
            hook.remove()


def _losses(work: Pass, outputs: Any, target: Any) -> Tensor:
    """Return the loss that training made smaller, one value a row."""
    try:
        if isinstance(outputs, Tensor) and outputs.dtype in (torch.float16, torch.bfloat16):
            outputs = outputs.float()
        losses = (work.goodness.loss or default_loss(target))(outputs, target)
        if not losses.requires_grad:
            raise InfluenceError("it has no gradient with respect to the outputs")
    except Exception as error:
        if isinstance(error, TurnOverError) and not isinstance(error, InfluenceError):
            raise
        raise InfluenceError(
            f"denoising needs the gradient of the loss on training rows, but the loss failed there ({error}). Give "
            f"loss=..., (outputs, targets) -> [rows], made of torch operations. {_OR_FEATURES}"
        ) from error
    return losses.flatten(1).mean(1) if losses.dim() > 1 else losses
