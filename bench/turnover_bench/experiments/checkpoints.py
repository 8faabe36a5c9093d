"""Trainings that resume: within a part of a run (see `runner.kept`), each keeps its state beside the part's file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from turnover.training import Checkpoint

EVERY = 120.0
"""Seconds between two states that are written."""


class _Part:
    def __init__(self, file: Path) -> None:
        self.file, self.count = file, 0


_part: ContextVar[_Part | None] = ContextVar("experiments_part", default=None)


@contextmanager
def trainings_of(file: Path) -> Iterator[None]:
    """Let trainings keep their states beside a part's file; when the part is measured, none is needed any more."""
    token = _part.set(_Part(file))
    try:
        yield
    finally:
        _part.reset(token)
    for state in file.parent.glob(f"{file.stem}.training-*.pt"):
        state.unlink()


def next_checkpoint() -> Checkpoint | None:
    """Return where the next training of the present part keeps its state; None outside of a part.

    Trainings are told apart by their order, which a part must not change. A finished one keeps its last state until its
    part is measured, and is not trained again.
    """
    part = _part.get()
    if part is None:
        return None
    part.count += 1
    return Checkpoint(part.file.with_name(f"{part.file.stem}.training-{part.count}.pt"), every=EVERY)


@dataclass(frozen=True)
class Step:
    """One step of a training.

    Attributes:
        batch: what to train on.
        last: whether it ends an epoch.
    """

    batch: Any
    last: bool


class _Progress:
    """Where a training is, and the random numbers from there on."""

    def __init__(self, order: torch.Generator) -> None:
        self.order, self.epoch, self.done = order, 0, 0
        self.start, self.loaded = order.get_state(), None

    def state_dict(self) -> dict[str, Any]:
        places = {"epoch": self.epoch, "done": self.done}
        return {**places, "start": self.start, "order": self.order.get_state(), "torch": torch.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.done, self.start, self.loaded = state["epoch"], state["done"], state["start"], state


def resumable(
    parts: dict[str, Any], *, epochs: int, draw: Callable[[torch.Generator], Sequence[Any]], order: torch.Generator
) -> Iterator[Step]:
    """Yield the steps of all epochs that are not done yet, with `parts` as they were then.

    Args:
        parts: by name, all that the steps change; whatever has `state_dict` and `load_state_dict`.
        epochs: how often `draw` is asked for batches.
        draw: the batches of an epoch by a generator.
        order: this generator; torch's default one will do.
    """
    checkpoint, progress = next_checkpoint(), _Progress(order)
    if checkpoint is not None:
        checkpoint.resume(**parts, progress=progress)
    count = 0
    for epoch in range(progress.epoch, epochs):
        resumed, progress.loaded = progress.loaded, None
        if resumed is not None:
            order.set_state(progress.start)
        progress.start = order.get_state()
        batches = draw(order)
        if resumed is not None:  # random numbers go on as they would, for order and dropout
            order.set_state(resumed["order"])
            torch.set_rng_state(resumed["torch"])
        for number in range(progress.done, len(batches)):
            yield Step(batches[number], last=number == len(batches) - 1)
            count += 1
            progress.epoch, progress.done = epoch, number + 1
            if checkpoint is not None:
                checkpoint.keep(count)
        progress.done = 0
    if checkpoint is not None and count:
        progress.epoch = epochs
        checkpoint.keep(count, now=True)
