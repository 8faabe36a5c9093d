"""The batch dimension of a site, detected from what reaches it, not guessed.

A module with `batch_first` settles it for all below. Elsewhere the rule is dimension 0, and a training
pass confirms or corrects it: a dimension can be the batch if it is as long as the list of ids. Unless
that leaves just the rule (a sequence may be as long as the batch), the model runs once more on the
first row of its inputs, and the dimension that shrinks to 1 is the batch. What was found is kept in the
recipe tensor.

A compiled pass can confirm the rule but has no second run; where the shapes leave a doubt it raises.
"""

from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from turnover.errors import BatchSizeError

from .instances import Instances, no_instances
from .masking import Site
from .tensors import map_tensors, tensors_in

_Shapes = dict[int, tuple[int, ...]]

_SEQUENCE_DIMS = 3
_probe: ContextVar[_Shapes | None] = ContextVar("turnover_probe", default=None)


def probed_shapes() -> _Shapes | None:
    """Return the record that sites write their shapes to during a dry run, else None."""
    return _probe.get()


def batch_dim_of(site: Site, x: Tensor, active: Instances, *, training: bool) -> int:
    """Return the batch dimension of an activation at a site; learn it in training mode."""
    rule = site.batch_dim(x.dim())
    if site.batch_known or x.dim() < _SEQUENCE_DIMS:
        return rule
    fitting = _fitting(x, active, training=training)
    if not fitting or _all_alike(x, active):
        return rule
    if fitting != [rule]:
        fitting = _after_dry_run(fitting, site, x, active)
    if len(fitting) > 1 and not training:
        return rule
    if len(fitting) != 1:
        raise _unclear(site, x, active, _SAY_SO)
    if training:
        site.masking.learn_batch_dim(site.index, fitting[0])
    return fitting[0]


def confirm_batch_dim(site: Site, x: Tensor, active: Instances, batch_dim: int, *, training: bool) -> None:
    """Check the batch dimension that a compiled pass was made for; learn it in training mode."""
    if site.batch_known or x.dim() < _SEQUENCE_DIMS:
        return
    fitting = _fitting(x, active, training=True)  # compiled passes do not expand
    if fitting == [batch_dim]:
        if training:
            site.masking.learn_batch_dim(site.index, batch_dim)
    elif fitting and not _all_alike(x, active):
        raise _unclear(site, x, active, f"{_RUN_ONCE}, or {_SAY_SO}")


def _fitting(x: Tensor, active: Instances, *, training: bool) -> list[int]:
    """Return which of the first two dimensions have the length of a batch."""
    lengths = (len(active),) if training else (len(active), 1)
    return [dim for dim in (0, 1) if x.shape[dim] in lengths]


def _all_alike(x: Tensor, active: Instances) -> bool:
    """Tell whether it makes no difference: one id, one row, one position."""
    return len(active) == x.shape[0] == x.shape[1] == 1


_SAY_SO = "set batch_first = True (or False) on the enclosing module before turnover.wrap"
_RUN_ONCE = "call the model once in training mode before torch.compile, so that it can be detected"


def _unclear(site: Site, x: Tensor, active: Instances, cure: str) -> BatchSizeError:
    return BatchSizeError(
        f"cannot tell which dimension is the batch at site {site}: {len(active)} instance ids, shape "
        f"{list(x.shape)}. Say so: {cure}."
    )


def _after_dry_run(fitting: list[int], site: Site, x: Tensor, active: Instances) -> list[int]:
    """Return the dimensions that shrink to 1 when the model sees one row; all where that cannot be detected."""
    call = active.calls.get(site.masking)
    shape = _shapes_for_one_row(*call, rows=len(active)).get(site.index) if call else None
    if shape is None or len(shape) != x.dim():
        return fitting
    return [dim for dim in fitting if shape[dim] == 1]


def _shapes_for_one_row(root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, rows: int) -> _Shapes:
    """Return the shape at each site when the model sees one row: the first of `rows`, or the only one.

    The rows of the inputs are dimension 0, unless none is as long, or a module inside that has `batch_first` got a
    sequence of one instead of a batch of one: then they are dimension 1.
    """
    if _lengths((args, kwargs), 0) == {1}:
        rows = 1
    for dim in (0, 1):
        if rows in _lengths((args, kwargs), dim):
            shapes, sequence_shrank = _dry_run(root, args, kwargs, rows, dim)
            if not sequence_shrank:
                return shapes
    return {}


def _lengths(inputs: Any, dim: int) -> set[int]:
    """Return how long the inputs are in a dimension; tensors of one dimension count where there are no others."""
    tensors = list(tensors_in(inputs))
    tensors = [tensor for tensor in tensors if tensor.dim() > 1] or tensors
    return {tensor.shape[dim] for tensor in tensors if tensor.dim() > dim}


def _dry_run(
    root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, dim: int
) -> tuple[_Shapes, bool]:
    """Return the shape at each site, and whether a sequence shrank to one in place of the batch.

    Runs in eval mode and leaves modes, random state and the active instances as they were.
    """
    shapes: _Shapes = {}
    sequence_shrank: list[bool] = []

    def watch(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and isinstance(inputs[0], Tensor) and inputs[0].dim() == _SEQUENCE_DIMS:
            first, second = inputs[0].shape[:2]
            batch, steps = (first, second) if module.batch_first else (second, first)
            sequence_shrank.append(batch != 1 and steps == 1)

    modes = [(module, module.training) for module in root.modules()]
    hooks = [
        module.register_forward_pre_hook(watch)
        for module in root.modules()
        if isinstance(getattr(module, "batch_first", None), bool)
    ]
    token = _probe.set(shapes)
    try:
        root.eval()
        # Gradients stay on: without them fused encoder paths would go around the sites.
        with no_instances(), torch.enable_grad(), torch.random.fork_rng(devices=[]):
            args, kwargs = map_tensors((args, kwargs), lambda x: _first_row(x, rows, dim))
            root.forward(*args, **kwargs)
    except Exception:  # noqa: BLE001 - a model may reject a single row
        shapes = {}
    finally:
        _probe.reset(token)
        for hook in hooks:
            hook.remove()
        for module, mode in modes:
            module.training = mode
    return shapes, any(sequence_shrank)


def _first_row(x: Tensor, rows: int, dim: int) -> Tensor:
    """Return a tensor of `rows` rows cut to its first row, any other as it is."""
    dim = min(dim, x.dim() - 1)
    return x.narrow(dim, 0, 1) if dim >= 0 and x.shape[dim] == rows else x
