"""Features of training rows: the gradient of their loss with respect to Linear layers, by forward passes.

The gradient of a row with respect to the weight of a Linear layer is e ⊗ h, summed over positions: h is the layer's
input and e the gradient of the loss with respect to its output. At the last layer of a classifier e is probability
minus label. Only what lies behind the first of these layers is differentiated. Training rows are read batch by batch,
as often as needed; none of them is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.batches import Batch, default_loss
from turnover.errors import InfluenceError, TurnOverError
from turnover.influence._data import Segment, TrainRows
from turnover.influence.execution import Executor, LocalExecutor
from turnover.influence.paths import Chunk, Forward

from ._ridge_options import RidgeOptions

_ROWS_AT_ONCE = 64
_OR_FEATURES = (
    "Or give features of your own, [rows, d]: estimator=turnover.influence.Ridge(features=lambda model, inputs, "
    "targets: ...)."
)


@dataclass(frozen=True)
class Outer:
    """Rows as sums over positions of hidden ⊗ error."""

    hidden: Tensor  # [rows, positions, d]
    error: Tensor  # [rows, positions, c]; the negative gradient of the loss


def _layers_of(forward: Forward, ridge: RidgeOptions, batch: Batch) -> list[nn.Linear]:
    """Return the layers whose gradients are the features; none where a function of the user's makes them.

    Without named layers: the last Linear that ran on these training rows and matters to their loss.
    """
    if ridge.features is not None:
        return []
    known = {name: module for name, module in forward.member.root.named_modules() if isinstance(module, nn.Linear)}
    if ridge.layers is not None:
        unknown = [name for name in ridge.layers if name not in known]
        if unknown or not ridge.layers:
            raise InfluenceError(
                f"layers={list(ridge.layers)!r}: must be Linear layers of this model, got "
                f"{', '.join(map(repr, unknown)) or 'none'}. It has {', '.join(map(repr, known)) or 'none'}. "
                f"{_OR_FEATURES}"
            )
        return [known[name] for name in ridge.layers]
    runs, gradients = _run(forward, ridge, batch, list(known.values()))
    reached = [run[0] for run, gradient in zip(runs, gradients, strict=True) if gradient is not None]
    if not reached:
        raise InfluenceError(
            "denoising needs the input of the last Linear layer, but no nn.Linear that makes the outputs was found in "
            f"this model. {_OR_FEATURES}"
        )
    return [reached[-1]]


def _features_of(forward: Forward, ridge: RidgeOptions, batch: Batch, layers: Sequence[nn.Linear]) -> list[Outer]:
    """Return the features of some training rows in one model, layer by layer, on the CPU."""
    if ridge.features is not None:
        return [_given(forward, ridge.features, batch)]
    runs, gradients = _run(forward, ridge, batch, layers)
    by_layer = {module: ([], []) for module in layers}
    for (module, hidden, _), gradient in zip(runs, gradients, strict=True):
        if gradient is None or hidden.shape[0] != batch.rows or gradient.shape[0] != batch.rows:
            shape = list(hidden.shape)
            raise InfluenceError(
                f"a Linear layer took an input of shape {shape} for {batch.rows} training rows, so it is not known "
                f"which part belongs to which row. {_OR_FEATURES}"
                if gradient is not None
                else f"the loss does not depend on a Linear layer whose input has shape {shape}. {_OR_FEATURES}"
            )
        by_layer[module][0].append(hidden.float().reshape(batch.rows, -1, hidden.shape[-1]).cpu())
        by_layer[module][1].append(-gradient.float().reshape(batch.rows, -1, gradient.shape[-1]).cpu())
    if any(not hidden for hidden, _ in by_layer.values()):
        raise InfluenceError(f"a layer of layers={ridge.layers!r} did not run. Leave it out. {_OR_FEATURES}")
    return [Outer(torch.cat(hidden, 1), torch.cat(error, 1)) for hidden, error in by_layer.values()]


def _given(forward: Forward, function: Callable[..., Any], batch: Batch) -> Outer:
    inputs = batch.kwargs or (batch.args[0] if len(batch.args) == 1 else batch.args)
    features = function(forward.member.model, inputs, batch.target)
    if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != batch.rows:
        shape = list(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise InfluenceError(f"Ridge(features=...) returned {shape} for {batch.rows} rows. Return a tensor [rows, d].")
    return Outer(features.detach().float().cpu()[:, None], torch.ones(batch.rows, 1, 1))


def _run(
    forward: Forward, ridge: RidgeOptions, batch: Batch, layers: Sequence[nn.Linear]
) -> tuple[list[tuple[nn.Linear, Tensor, Tensor]], Sequence[Tensor | None]]:
    """Return every run of the layers (module, input, output) and the gradient of the loss at each output."""
    if batch.target is None or batch.ids is None:
        raise InfluenceError(
            "denoising needs the labels and ids of the training rows. Give train=turnover.with_instance_ids(dataset) "
            f"of a data set with (x, y), or dicts with 'labels'. {_OR_FEATURES}"
        )
    runs: list[tuple[nn.Linear, Tensor, Tensor]] = []
    view = Chunk(batch.ids, ["flip"]) if ridge.view == "flip" else nullcontext()
    with _noting(layers, runs), view, forward.precision():
        outputs = batch.logits(forward.member.model)
        if not runs:
            return [], []
        losses = _losses(forward, outputs, batch.target)
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


def _losses(forward: Forward, outputs: Any, target: Any) -> Tensor:
    """Return the loss that training made smaller, one value per row."""
    try:
        if isinstance(outputs, Tensor) and outputs.dtype in (torch.float16, torch.bfloat16):
            outputs = outputs.float()
        losses = (forward.measure.loss or default_loss(target))(outputs, target)
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


FeatureBatch = tuple[np.ndarray, list[Outer]]


@dataclass(frozen=True)
class _RowFeatures:
    """The places of some rows and their features, for each model and layer."""

    forwards: Sequence[Forward]
    layers: Sequence[Sequence[nn.Linear]]  # of each model
    train: TrainRows
    ridge: RidgeOptions

    def __call__(self, segment: Segment) -> list[FeatureBatch]:
        """Return places and features of a segment, batch after batch."""
        return [self.of_batch(batch) for batch in self.train.batches_of(segment, _ROWS_AT_ONCE)]

    def of_batch(self, batch: Batch) -> FeatureBatch:
        """Return places and features of one batch."""
        places, ids = self.train.places(batch), self.train.ids
        outers = [
            outer
            for forward, layers in zip(self.forwards, self.layers, strict=True)
            for outer in _features_of(forward, self.ridge, _moved(forward, batch), layers)
        ]
        if not all(bool(outer.hidden.isfinite().all() & outer.error.isfinite().all()) for outer in outers):
            raise InfluenceError(
                f"features of training rows among ids {int(ids[places[0]])} to {int(ids[places[-1]])} are "
                "not finite, so nothing can be fitted on them. Look at these rows and at the model's outputs for them."
            )
        return places, outers


class FeatureStream:
    """Reads the training data as often as it is asked to; nothing of it is kept."""

    def __init__(
        self, forwards: Sequence[Forward], train: TrainRows, ridge: RidgeOptions, executor: Executor | None = None
    ) -> None:
        """Find the layers on the first batch; features are tasks of the executor, None: of this process."""
        self._forwards, self._train, self._ridge = forwards, train, ridge
        self._executor = executor or LocalExecutor()
        first = next(iter(train.batches()), None)
        if first is None:
            raise InfluenceError(
                "denoising needs the training rows, but train is empty, or can be read only once. Give train= a data "
                "set: turnover.with_instance_ids(dataset)."
            )
        if first.can_be_split:  # the search for the last layer differentiates the whole model
            first = first.part(0, 2)
        self._layers: list[list[nn.Linear]] = [
            _layers_of(forward, ridge, _moved(forward, first)) for forward in forwards
        ]
        self._features = _RowFeatures(forwards, self._layers, train, ridge)
        _, outers = self._features.of_batch(first)
        self.sizes = [(outer.hidden.shape[-1], outer.error.shape[-1]) for outer in outers]
        self.members = len(forwards)

    @property
    def count(self) -> int:
        """Return how many instances there are."""
        return len(self._train.ids)

    @property
    def ids(self) -> Tensor:
        """Return the instances, in the order of the data."""
        return self._train.ids

    def positions(self, ids: Tensor) -> np.ndarray:
        """Return the place of each instance among all; -1 for one that is not in the training data."""
        return self._train.positions(ids)

    def check_complete(self, rows_of: np.ndarray) -> None:
        """Raise where the training data did not show some of its instances; `rows_of` counts the rows of each."""
        self._train.check_complete(rows_of)

    def __iter__(self) -> Iterator[FeatureBatch]:
        """Yield the places of some rows and their features, for each model and layer."""
        streamed = isinstance(self._executor, LocalExecutor)
        segments = self._train.segments(_ROWS_AT_ONCE, _ROWS_AT_ONCE, streamed=streamed)
        for batches in self._executor.map(self._features, segments):
            yield from batches

    def of_queries(self, queries: Sequence[Batch]) -> list[Outer]:
        """Return the gradients of queries in full view, scaled to length one, for each model and layer.

        Positions that only other queries have are zero.
        """
        full = replace(self._ridge, view="full")
        by_query: list[list[Outer]] = []
        for query in queries:
            asked = replace(query, ids=torch.zeros(query.rows, dtype=torch.int64))
            by_model = [
                _scaled(_features_of(forward, full, _moved(forward, asked), layers))
                for forward, layers in zip(self._forwards, self._layers, strict=True)
            ]
            by_query.append([outer for outers in by_model for outer in outers])
        return [_padded(slot) for slot in zip(*by_query, strict=True)]


def _moved(forward: Forward, batch: Batch) -> Batch:
    return batch.to(forward.member.device)


def _scaled(outers: Sequence[Outer]) -> list[Outer]:
    """Return the gradient of one query in all layers of a model, its error scaled to length one."""
    length = torch.stack([outer.error.square().sum() for outer in outers]).sum().sqrt()
    factor = 1 / length if length > 0 else 0.0
    return [Outer(outer.hidden, outer.error * factor) for outer in outers]


def _padded(outers: Sequence[Outer]) -> Outer:
    """Return the rows of several as one, with as many positions as the longest has."""
    hidden, error = ([part[0] for part in parts] for parts in zip(*((o.hidden, o.error) for o in outers), strict=True))
    pad = torch.nn.utils.rnn.pad_sequence
    return Outer(pad(hidden, batch_first=True), pad(error, batch_first=True))


def one_position(outers: Sequence[Outer]) -> bool:
    """Tell whether every row is a single h ⊗ e, so that a kernel needs no products of them."""
    return all(outer.hidden.shape[1] == 1 for outer in outers)


def stacked(batches: Sequence[FeatureBatch], count: int) -> list[tuple[Tensor, Tensor]]:
    """Return h [instances, d] and e [instances, c] of all rows, for each model and layer."""
    order = np.concatenate([places for places, _ in batches])
    pairs = []
    for slot in range(len(batches[0][1])):
        hidden = torch.cat([outers[slot].hidden[:, 0] for _, outers in batches])
        error = torch.cat([outers[slot].error[:, 0] for _, outers in batches])
        whole = torch.empty(count, hidden.shape[1]), torch.empty(count, error.shape[1])
        whole[0][order], whole[1][order] = hidden, error
        pairs.append(whole)
    return pairs
