"""A training recipe: model, rows, loss, optimizer and batches, so that `fit(rows, seed)` is a function.

What its results depend on can be told in plain data, the same in every process: `description` and the digests.

A row that is left out leaves its place in the batch empty (the paper's footnote to Eq. 1): the other rows meet in the
same batches from the same initial parameters, the row is not fed to the model, and the divisor of the mean stays the
size of the full batch. A batch that loses all its rows is still a step, with gradients of zero, so that momentum,
weight decay and schedules go on as they would.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from turnover.batches import Loss, default_loss, logits_of, per_row
from turnover.errors import TrainingError
from turnover.layers import as_ids, device_of, find_root, instances, map_tensors, tensor_bytes, tensors_in

from .checkpoint import Checkpoint

Inputs = Tensor | tuple[Tensor, ...] | Mapping[str, Tensor]

_SGD = partial(torch.optim.SGD, lr=0.1)
_GROUP = 50  # batches that are drawn together and sorted by length
_LEAST = 1e-30  # squares of smaller numbers are 0 in float32, and those of its inverse beyond it


@dataclass(frozen=True)
class Step:
    """What happens in one step, for those who record a training; model and optimizer are as before the step."""

    number: int
    batch: Tensor  # rows of the batch, including those that are left out of the training
    present: Tensor  # rows that were fed to the model
    model: nn.Module  # its gradients are those of the step
    optimizer: torch.optim.Optimizer


@dataclass(frozen=True)
class TrainingRecipe:
    """One way to train a model.

    Args:
        build: makes the untrained model; called under the seed. A wrapped model is trained in keep view.
        inputs: all rows, as a tensor, a tuple of tensors or a dict of tensors for keywords.
        targets: of all rows.
        loss: `loss(outputs, targets) -> [rows]`; None: cross-entropy for integer targets, squared error for floats.
        optimizer: makes the optimizer of the parameters.
        schedule: makes a learning-rate schedule of the optimizer, stepped after every batch; None: constant.
        epochs: passes over the rows.
        batch_size: rows of a batch; the last of an epoch may be smaller.
        ids: instance ids of the rows for a wrapped model; None: row numbers.
        lengths: of the rows, in tokens for example: a batch has rows of about one length, so that little padding is
            computed where the model drops it; None: batches are drawn from all rows.
        bfloat16: train under autocast in this type, about twice as fast where the processor knows it; parameters and
            losses stay in float32, and so does a model in eval mode.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(20, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
        >>> one, same = recipe.fit(seed=1), recipe.fit(seed=1)
        >>> torch.equal(one.weight, same.weight)
        True
    """

    build: Callable[[], nn.Module]
    inputs: Inputs
    targets: Tensor
    loss: Loss | None = None
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = _SGD
    schedule: Callable[[torch.optim.Optimizer], Any] | None = None
    epochs: int = 10
    batch_size: int = 32
    ids: Tensor | None = None
    lengths: Tensor | None = None
    bfloat16: bool = False

    def __post_init__(self) -> None:
        """Reject rows and numbers that do not fit together, all problems at once."""
        count, rows = len(self.targets), sorted({len(tensor) for tensor in tensors_in(self.inputs)})
        problems = [] if rows == [count] else [f"inputs have {rows} rows and targets {count}: give one target per row"]
        for name, given in (("ids", self.ids), ("lengths", self.lengths)):
            if given is not None and given.shape != (count,):
                problems.append(f"{name} have shape {list(given.shape)} for {count} rows: give one per row")
        if self.epochs < 1 or self.batch_size < 1:
            problems.append(f"`epochs` and `batch_size` must be integers >= 1, got {self.epochs} and {self.batch_size}")
        if problems:
            raise TrainingError(f"{'; '.join(problems)}.")

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def row_ids(self) -> NDArray[np.int64]:
        """The instance id of every row: `ids`, else row numbers."""
        return np.arange(len(self)) if self.ids is None else as_ids(self.ids).cpu().numpy()

    def over(self, queries: Any) -> "TrainingRecipe":
        """Return the recipe with queries as its rows, for their losses and outputs.

        Args:
            queries: a tuple (inputs, targets), inputs in the form of the recipe's.
        """
        if not isinstance(queries, tuple | list) or len(queries) != 2 or not isinstance(queries[1], Tensor):
            raise TrainingError(
                f"`queries` must be a tuple (inputs, targets), got a {type(queries).__name__}. Give inputs in the form "
                "of the recipe's, and targets as a tensor."
            )
        inputs, targets = queries
        if not len(targets):
            raise TrainingError("there are no queries: the targets are empty. Give one or more.")
        return replace(self, inputs=inputs, targets=targets, ids=None, lengths=None)

    def data_digest(self) -> str:
        """Return a checksum of the rows."""
        return digest_of(self.inputs, self.targets, self.ids)

    def description(self) -> dict[str, Any]:
        """Return what can be told of the recipe, the same in every process; functions by name only."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # initial parameters count: a model may start from one checkpoint or another
            model = self.build()
            optimizer = self.optimizer(model.parameters())
        return {
            "model": hashlib.sha256(f"{plain_text(model)}\n{weights_digest(model)}".encode()).hexdigest(),
            "optimizer": plain_text(optimizer),
            "schedule": plain_text(self.schedule),
            "loss": plain_text(self.loss),
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "data": self.data_digest(),
            **({} if self.lengths is None else {"lengths": digest_of(self.lengths)}),
            **({"bfloat16": True} if self.bfloat16 else {}),
        }

    def batches(self, seed: int) -> list[Tensor]:
        """Return the rows of every batch of a training, in order; a function of the seed alone."""
        generator = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(len(self), generator=generator) for _ in range(self.epochs)]
        if self.lengths is None:
            return [batch for order in orders for batch in order.split(self.batch_size)]
        batches: list[Tensor] = []
        for order in orders:
            # Sorted within large groups, so that rows still meet others in every epoch.
            groups = order.split(_GROUP * self.batch_size)
            by_length = [group[self.lengths[group].argsort(stable=True)].split(self.batch_size) for group in groups]
            parts = [batch for group in by_length for batch in group]
            batches += [parts[place] for place in torch.randperm(len(parts), generator=generator).tolist()]
        return batches

    def fit(
        self,
        rows: Any = None,
        *,
        seed: int = 0,
        weights: Tensor | None = None,
        on_step: Callable[[Step], None] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> nn.Module:
        """Return a model trained from a seed; the caller's random state is left alone.

        Args:
            rows: which rows to train on, as indices or as a bool for each; None: all.
            seed: of initial parameters, batches and dropout.
            weights: of the rows' losses; None: 1 each.
            on_step: called before every optimizer step.
            checkpoint: where the state is kept and resumed from, to the same weights; steps that are done are not told
                to `on_step` again.
        """
        kept = self._row_mask(rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.build().train()
            optimizer = self.optimizer(model.parameters())
            schedule = None if self.schedule is None else self.schedule(optimizer)
            done = 0
            if checkpoint is not None:
                done = checkpoint.resume(model=model, optimizer=optimizer, schedule=schedule)
            batches = self.batches(seed)
            for number, batch in enumerate(batches[done:], done):
                present = batch[kept[batch]]
                seed_step(seed, number)
                optimizer.zero_grad()
                self.gradients(model, present, len(batch), weights)
                if on_step is not None:
                    on_step(Step(number, batch, present, model, optimizer))
                optimizer.step()
                if schedule is not None:
                    schedule.step()
                if checkpoint is not None:
                    checkpoint.keep(number + 1, now=number + 1 == len(batches))
        return model.eval()

    def gradients(self, model: nn.Module, present: Tensor, divisor: int, weights: Tensor | None = None) -> None:
        """Add the gradients of a batch's mean loss to a model, its divisor being that of the full batch."""
        if len(present):
            (self.losses(model, present, weights).sum() / divisor).backward()
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def losses(self, model: nn.Module, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return the losses of rows; a wrapped model that trains sees them in keep view."""
        outputs, targets = self.outputs(model, rows), self.targets[rows].to(device_of(model))
        # In keep view the rows of all replicas come one after the other; a row's loss is their mean.
        replicas = len(outputs) // max(1, len(rows))
        if replicas > 1:
            targets = targets.repeat(replicas, *[1] * (targets.dim() - 1))
        values = per_row((self.loss or default_loss(targets))(outputs, targets), outputs, targets)
        values = values.view(replicas, -1).mean(0) if replicas > 1 else values
        return values if weights is None else values * weights[rows].to(values.device)

    def outputs(self, model: nn.Module, rows: Tensor) -> Tensor:
        """Return the outputs for rows; a wrapped model that trains sees them in keep view."""
        device = device_of(model)
        inputs = map_tensors(self.inputs, lambda tensor: tensor[rows].to(device))
        args, named = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
        args = (args,) if isinstance(args, Tensor) else args
        if not model.training:
            return logits_of(model(*args, **named))
        is_masked = find_root(model) is not None
        active = instances(rows if self.ids is None else self.ids[rows]) if is_masked else nullcontext()
        lower = torch.autocast(device.type, torch.bfloat16) if self.bfloat16 else nullcontext()
        with active, lower:
            outputs = logits_of(model(*args, **named))
        return outputs.float() if self.bfloat16 else outputs

    def _row_mask(self, rows: Any) -> Tensor:
        """Return a bool for every row: whether it is trained on."""
        if rows is None:
            return torch.ones(len(self), dtype=torch.bool)
        rows = torch.as_tensor(rows)
        if rows.dtype == torch.bool:
            if rows.shape != (len(self),):
                raise TrainingError(f"rows have shape {list(rows.shape)}; give a bool for each of {len(self)} rows.")
            return rows
        if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= len(self)):
            raise TrainingError(f"rows go from {int(rows.min())} to {int(rows.max())}; there are {len(self)} rows.")
        mask = torch.zeros(len(self), dtype=torch.bool)
        mask[rows.long()] = True
        return mask


def seed_step(seed: int, number: int) -> None:
    """Seed torch for one step of a training: dropout must not change because an earlier batch was smaller."""
    step_seed = seed * 1_000_003 + number + 1
    if torch.accelerator.is_available():
        torch.manual_seed(step_seed)
    else:  # the same without asking every absent device, which costs as much as a small network's step
        torch.default_generator.manual_seed(step_seed)


def digest_of(*values: Any) -> str:
    """Return a checksum of tensors, nested in tuples and dicts."""
    digest = hashlib.sha256()
    for name, tensor in _named_tensors(values):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()


def weights_digest(model: nn.Module) -> str:
    """Return a checksum of a model's parameters and buffers."""
    return digest_of(dict(model.named_parameters()), dict(model.named_buffers()))


def plain_text(value: Any) -> str:
    """Return the repr without addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _named_tensors(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield from _named_tensors(value[key], f"{name}.{key}")
    elif isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from _named_tensors(item, f"{name}.{place}")


def scale_problem(numbers: np.ndarray) -> str:
    """Return why numbers [rows] cannot be learned at their scale, and what to do; "" where they can.

    Squared errors, and scores, which are float32, would be infinite or 0.
    """
    largest = float(np.abs(numbers).max(initial=0))
    extent = 0.0 if largest > 1 / _LEAST or not len(numbers) else float(np.ptp(numbers))
    if largest > 1 / _LEAST:
        return f"reach {largest:.3g}, and squares of numbers beyond {1 / _LEAST:g} overflow. Use a larger unit"
    if 0 < extent < _LEAST:
        return f"differ by {extent:.3g} at most, and squares of less than {_LEAST:g} vanish. Use a smaller unit"
    return ""
