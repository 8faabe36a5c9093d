"""A training recipe: model, rows, loss, optimizer and batches, so that `fit(rows, seed)` is a function.

A row that is left out leaves its place in the batch empty (the paper's footnote to Eq. 1): the other rows meet in the
same batches from the same initial parameters, the row is not fed to the model, and the divisor of the mean stays the
size of the full batch. A batch that loses all its rows is still a step, with gradients of zero, so that momentum,
weight decay and schedules go on as they would.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from turnover.batches import Loss, default_loss, logits_of
from turnover.errors import TrainingError
from turnover.layers import find_root, instances

Inputs = Tensor | tuple[Tensor, ...] | Mapping[str, Tensor]
OnStep = Callable[["Step"], None]


_SGD = partial(torch.optim.SGD, lr=0.1)


@dataclass(frozen=True)
class Step:
    """What happens in one step, for those who record a training.

    Attributes:
        number: from 0.
        batch: rows of the batch, those that were left out included.
        present: rows that were fed to the model.
        model: the model before the step; its gradients are those of the step.
        optimizer: the optimizer before the step.
    """

    number: int
    batch: Tensor
    present: Tensor
    model: nn.Module
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
    ids: Tensor | None = field(default=None)

    def __post_init__(self) -> None:
        """Refuse rows and numbers that do not fit together."""
        rows = {len(tensor) for tensor in _tensors(self.inputs)}
        if rows != {len(self.targets)}:
            raise TrainingError(
                f"inputs have {sorted(rows)} rows and targets {len(self.targets)}. Give one target a row."
            )
        if self.ids is not None and len(self.ids) != len(self.targets):
            raise TrainingError(f"{len(self.ids)} ids for {len(self.targets)} rows. Give one id a row.")
        if self.epochs < 1 or self.batch_size < 1:
            raise TrainingError(f"epochs={self.epochs}, batch_size={self.batch_size}: both must be at least 1.")

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.targets)

    def batches(self, seed: int) -> list[Tensor]:
        """Return the rows of every batch of a training, in order; a function of the seed alone."""
        generator = torch.Generator().manual_seed(seed)
        orders = [torch.randperm(len(self), generator=generator) for _ in range(self.epochs)]
        return [batch for order in orders for batch in order.split(self.batch_size)]

    def fit(
        self,
        rows: Any = None,
        *,
        seed: int = 0,
        weights: Tensor | None = None,
        on_step: OnStep | None = None,
    ) -> nn.Module:
        """Return a model trained from a seed; the caller's random state is left alone.

        Args:
            rows: which rows to train on, as indices or as a bool for each; None: all.
            seed: of initial parameters, batches and dropout.
            weights: of the rows' losses; None: 1 each.
            on_step: called before every optimizer step.
        """
        kept = self.mask_of(rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.build().train()
            optimizer = self.optimizer(model.parameters())
            schedule = None if self.schedule is None else self.schedule(optimizer)
            for number, batch in enumerate(self.batches(seed)):
                present = batch[kept[batch]]
                seed_step(seed, number)
                optimizer.zero_grad()
                self.gradients(model, present, len(batch), weights)
                if on_step is not None:
                    on_step(Step(number, batch, present, model, optimizer))
                optimizer.step()
                if schedule is not None:
                    schedule.step()
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
        outputs = self.outputs(model, rows)
        targets = self.targets[rows]
        # In keep view the rows of all replicas come one after the other; a row's loss is their mean.
        replicas = len(outputs) // max(1, len(rows))
        if replicas > 1:
            targets = targets.repeat(replicas, *[1] * (targets.dim() - 1))
        values = (self.loss or default_loss(targets))(outputs, targets)
        if not isinstance(values, Tensor) or values.shape[:1] != targets.shape[:1]:
            shape = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise TrainingError(
                f"the loss returned {shape} for {len(targets)} rows. Give one value a row: reduction='none'."
            )
        values = values.flatten(1).mean(1) if values.dim() > 1 else values
        values = values.view(replicas, -1).mean(0) if replicas > 1 else values
        return values if weights is None else values * weights[rows]

    def outputs(self, model: nn.Module, rows: Tensor) -> Tensor:
        """Return the outputs for rows."""
        args, kwargs = self.inputs_of(rows)
        if model.training and find_root(model) is not None:
            with instances(rows if self.ids is None else self.ids[rows]):
                return logits_of(model(*args, **kwargs))
        return logits_of(model(*args, **kwargs))

    def inputs_of(self, rows: Tensor) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
        """Return the inputs of rows as arguments and keywords."""
        if isinstance(self.inputs, Tensor):
            return (self.inputs[rows],), {}
        if isinstance(self.inputs, Mapping):
            return (), {name: value[rows] for name, value in self.inputs.items()}
        return tuple(value[rows] for value in self.inputs), {}

    def mask_of(self, rows: Any) -> Tensor:
        """Return a bool for every row: whether it is trained on."""
        if rows is None:
            return torch.ones(len(self), dtype=torch.bool)
        given = torch.as_tensor(rows)
        if given.dtype == torch.bool:
            if given.shape != (len(self),):
                raise TrainingError(f"rows have shape {list(given.shape)}; give a bool for each of {len(self)} rows.")
            return given
        if len(given) and (int(given.min()) < 0 or int(given.max()) >= len(self)):
            raise TrainingError(f"rows go from {int(given.min())} to {int(given.max())}; there are {len(self)} rows.")
        mask = torch.zeros(len(self), dtype=torch.bool)
        mask[given.long()] = True
        return mask


def seed_step(seed: int, number: int) -> None:
    """Seed torch for one step of a training: dropout must not change because an earlier batch was smaller."""
    step_seed = seed * 1_000_003 + number + 1
    if torch.accelerator.is_available():
        torch.manual_seed(step_seed)
    else:  # the same without asking every absent device, which costs as much as a small network's step
        torch.default_generator.manual_seed(step_seed)


def _tensors(inputs: Inputs) -> Iterator[Tensor]:
    if isinstance(inputs, Tensor):
        yield inputs
    elif isinstance(inputs, Mapping):
        yield from inputs.values()
    else:
        yield from inputs
