"""Trainings that several methods share, each run once a task and seed, with what it cost."""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from turnover.training import Step, TrainingRecipe

from .cost import Cost
from .tasks import Masks, Prepared

State = dict[str, Tensor]


@dataclass(frozen=True)
class Trained:
    """A trained model and what it cost.

    Attributes:
        model: in eval mode.
        states: weights during the training, the last at its end.
        seconds: of the processor, for the training.
        peak_bytes: growth of the process in that time; None where it cannot be read.
    """

    model: nn.Module
    states: tuple[State, ...]
    seconds: float
    peak_bytes: int | None


class Trainings:
    """All trainings of a task from one seed; what was trained is kept."""

    def __init__(self, ready: Prepared, *, seed: int, checkpoints: int) -> None:
        self.ready, self.seed, self.checkpoints = ready, seed, checkpoints
        self._kept: dict[object, Trained] = {}

    @cached_property
    def scratch(self) -> str:
        """Return a folder that lasts as long as these trainings."""
        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    @property
    def seconds(self) -> float:
        """Return what all trainings took together."""
        return sum(one.seconds for one in self._kept.values())

    def plain(self, number: int = 0) -> Trained:
        """Return the plain model, or further ones from other seeds."""
        return self.once(("plain", number), lambda: self._train_plain(self.seed + 1000 * number))

    def masked(self, masks: Masks, *, checkpoints: int = 0) -> Trained:
        """Return the masked model; with checkpoints, also its weights so many times during the training."""
        recipe = self.ready.masked(self.seed, masks)
        if not checkpoints:
            return self.once(masks, lambda: (recipe.fit(seed=self.seed), ()))
        return self.once((masks, checkpoints), lambda: _with_states(recipe, self.seed, checkpoints))

    def _train_plain(self, seed: int) -> tuple[nn.Module, tuple[State, ...]]:
        return _with_states(self.ready.plain, seed, self.checkpoints)

    def once(self, key: object, train: Callable[[], tuple[nn.Module, tuple[State, ...]]]) -> Trained:
        """Return what was trained under a key, or train it; also for other preparations that methods share."""
        if key not in self._kept:
            with Cost() as cost:
                model, states = train()
            self._kept[key] = Trained(model, states, cost.seconds, cost.peak_bytes)
        return self._kept[key]


def _with_states(recipe: TrainingRecipe, seed: int, checkpoints: int) -> tuple[nn.Module, tuple[State, ...]]:
    """Train; return the model and its weights at so many equal parts of the training, the last at its end."""
    total = len(recipe.batches(seed))
    wanted = {(place + 1) * total // checkpoints for place in range(checkpoints - 1)}
    states: list[State] = []

    def note(step: Step) -> None:
        if step.number in wanted:
            states.append(_copied(step.model))

    model = recipe.fit(seed=seed, on_step=note)
    return model, (*states, _copied(model))


def _copied(model: nn.Module) -> State:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
