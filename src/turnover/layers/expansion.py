"""Where rows are expanded to replicas: the points at which a batch of b rows becomes replicas x b.

A model with replicas computes its trunk once. At an expansion point the rows are repeated, one replica after the other;
everything behind it sees replicas x b rows. Whether a module or a site is such a point is a property of the model, not
of a batch: it is detected the first time it runs, from the rows that reach it, and kept.

The gradient: a loss averaged over replicas x b rows gives each replica 1/replicas of the gradient it would have alone.
The outputs multiply it by the number of replicas (see `replicas.py`), and an expansion point divides what flows into
the trunk by it, so that the trunk gets the mean.
"""

from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from turnover.errors import InstancesError


class _RunningModel:
    """A model with replicas in its forward pass, and how many rows its first expansion point saw."""

    def __init__(self, root: object, outer: "_RunningModel | None") -> None:
        self.root = root
        self.outer = outer
        self.trunk_rows: int | None = None


_running: ContextVar[_RunningModel | None] = ContextVar("turnover_running_model", default=None)


def begin_model(root: object) -> None:
    """Note that a forward pass of a model with replicas begins."""
    outer = _running.get()
    if outer is not None and outer.root is root:  # it failed and did not end
        outer = outer.outer
    _running.set(_RunningModel(root, outer))


def note_trunk_rows(rows: int) -> None:
    """Note how many rows the trunk of the running model has, unless that is known."""
    running = _running.get()
    if running is not None and running.trunk_rows is None:
        running.trunk_rows = rows


def end_model() -> int | None:
    """Note that it ends, and return how many rows its trunk had; None if no expansion point ran."""
    ended = _running.get()
    if ended is None:
        return None
    _running.set(ended.outer)
    return ended.trunk_rows


class Expansion:
    """One place where rows may have to be expanded; `expands` None: detected when it first runs."""

    def __init__(self, replicas: int, path: str, expands: bool | None = None) -> None:
        self.replicas = replicas
        self.path = path
        self.expands = expands

    def expands_at(self, x: Tensor, *, training: bool, ids: int | None) -> bool:
        """Tell whether the rows of `x` have to be expanded here, and check that they can.

        In training mode there is one id per row; `ids` is the number of active instances, if any.
        """
        if self.expands is None:
            self._learn(len(x), training, ids)
        if not torch.compiler.is_dynamo_compiling():
            self._check(x, training, ids)
        return bool(self.expands)

    @_disable_dynamo
    def _learn(self, rows: int, training: bool, ids: int | None) -> None:
        running = _running.get()
        before = None if running is None else running.trunk_rows
        known = ids if training and ids is not None else before
        self.expands = known is None or rows == known

    def _check(self, x: Tensor, training: bool, ids: int | None) -> None:
        rows = len(x)
        if self.expands:
            note_trunk_rows(rows)
        elif rows % self.replicas or (training and ids is not None and rows != self.replicas * ids):
            raise InstancesError(
                f"{self.path!r} got a batch of {rows} rows (shape {list(x.shape)}), which are not {self.replicas} "
                "replicas one after the other: the model changes or mixes its rows behind the split, or the batch is "
                "not dimension 0. Split it elsewhere: turnover.wrap(model, replicas=..., split='module')."
            )


class _ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, None]:
        return gradients[0] * ctx.factor, None


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """Return `x`; what flows back through it is multiplied by the factor."""
    return _ScaledGradient.apply(x, factor) if x.requires_grad else x  # pyright: ignore[reportReturnType]


def expanded(x: Tensor, replicas: int) -> Tensor:
    """Return the rows of `x` once for each replica, one replica after the other; the trunk gets the mean gradient."""
    return scaled_gradient(x, 1 / replicas).repeat(replicas, *[1] * (x.dim() - 1))
