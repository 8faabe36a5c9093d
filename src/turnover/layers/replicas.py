"""Replicas on the root of a model: outputs as [replicas * batch, ...], or their mean where the full network answers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo

from .growth import begin_pass, end_pass, grown, note_rows, scaled_gradient
from .instances import active_instances
from .root import remove_hooks
from .tensors import map_tensors, tensors_in

_ATTRIBUTE = "_turnover_replicas"
_TARGETS = ("labels", "label")


def replicas_of(root: nn.Module) -> int:
    """Return how many replicas a root has; 1 for a model without."""
    return root.__dict__.get(_ATTRIBUTE, 1)


def attach_replicas(root: nn.Module, replicas: int, *, grow_inputs: bool = False) -> None:
    """Make a module the root of a model with replicas; its growth points are in place, or its inputs are one."""
    root.__dict__[_ATTRIBUTE] = replicas
    root.register_forward_pre_hook(_begin)
    if grow_inputs:
        root.register_forward_pre_hook(_grow_inputs, with_kwargs=True)
    root.register_forward_hook(_finish)


def detach_replicas(root: nn.Module) -> None:
    """Undo `attach_replicas`."""
    root.__dict__.pop(_ATTRIBUTE, None)
    for hooks in (root._forward_pre_hooks, root._forward_hooks):
        remove_hooks(hooks, lambda hook: hook in (_begin, _grow_inputs, _finish))


def _begin(root: nn.Module, args: tuple[Any, ...]) -> None:
    if not torch.compiler.is_dynamo_compiling():
        begin_pass(root)


def _grow_inputs(
    root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the inputs with rows for every replica, targets excepted: those are repeated outside of the model."""
    inputs = {name: value for name, value in kwargs.items() if name not in _TARGETS}
    first = next((x for x in tensors_in((args, inputs)) if x.dim() > 0), None)
    if first is None:
        return args, kwargs
    rows, replicas, now = len(first), replicas_of(root), active_instances()
    note_rows(rows)
    # In eval mode one row grows to all instances. Here at once: masks of attention would not grow on the way.
    each = len(now) if now is not None and rows == 1 and not root.training else 1

    def grow(x: Tensor) -> Tensor:
        return grown(x, replicas).repeat_interleave(each, 0) if x.dim() > 0 and len(x) == rows else x

    return map_tensors(args, grow), {**kwargs, **map_tensors(inputs, grow)}


def _finish(root: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    replicas = replicas_of(root)
    if not torch.compiler.is_dynamo_compiling():
        return _joined(output, replicas, end_pass())
    if root.training:  # compiled training is in keep view; asking for the view would break the graph
        return map_tensors(output, lambda x: scaled_gradient(x, replicas))
    return _joined_untraced(output, replicas, None)


def _joined(output: Any, replicas: int, trunk_rows: int | None) -> Any:
    now = active_instances()
    rows = trunk_rows if now is None else len(now)

    def join(x: Tensor) -> Tensor:
        if x.dim() == 0 or (x.shape[0] % replicas if rows is None else x.shape[0] != replicas * rows):
            return x  # made by the trunk
        if now is None or now.all_full:
            return x.unflatten(0, (replicas, -1)).mean(0)
        return scaled_gradient(x, replicas)

    return map_tensors(output, join)


_joined_untraced = _disable_dynamo(_joined)
