"""Replicas on the root of a model: outputs as [replicas * batch, ...], or their mean where the full network answers."""

from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo

from .growth import begin_pass, end_pass, scaled_gradient
from .instances import active_instances
from .root import remove_hooks
from .tensors import map_tensors

_ATTRIBUTE = "_turnover_replicas"


def replicas_of(root: nn.Module) -> int:
    """Return how many replicas a root has; 1 for a model without."""
    return root.__dict__.get(_ATTRIBUTE, 1)


def attach_replicas(root: nn.Module, replicas: int) -> None:
    """Make a module the root of a model with replicas; its growth points are in place."""
    root.__dict__[_ATTRIBUTE] = replicas
    root.register_forward_pre_hook(_begin)
    root.register_forward_hook(_finish)


def detach_replicas(root: nn.Module) -> None:
    """Undo `attach_replicas`."""
    root.__dict__.pop(_ATTRIBUTE, None)
    for hooks in (root._forward_pre_hooks, root._forward_hooks):
        remove_hooks(hooks, lambda hook: hook in (_begin, _finish))


def _begin(root: nn.Module, args: tuple[Any, ...]) -> None:
    if not torch.compiler.is_dynamo_compiling():
        begin_pass(root)


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
