"""Trainings that several methods share, each run once per task and seed, with what it cost; what methods say."""

import ctypes
import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from turnover.evaluation import mislabel_detection
from turnover.training import TrainingRecipe
from turnover_bench.baselines import State, training_weights

from .tasks import Prepared

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Cost:
    """Measures the processor seconds of a `with` block and how far the resident memory of this process grows in it.

    Blocks may be nested: an inner one starts anew, and the outer one then knows no more than what the inner one saw
    and what came after it.

    Attributes:
        seconds: of the processor, of all threads together.
        peak_bytes: the growth; None where it cannot be read (it needs Linux's /proc).
    """

    seconds: float = 0.0
    peak_bytes: int | None = None

    def __enter__(self) -> Self:
        gc.collect()
        _give_back()
        self._start = _status("VmRSS")
        try:
            _CLEAR.write_text("5")
        except OSError:
            self._start = None
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self._began
        most = _status("VmHWM")
        if self._start is not None and most is not None:
            self.peak_bytes = max(0, most - self._start)


def _status(name: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


def _give_back() -> None:
    """Let the C library return freed memory, where it can: glibc keeps it otherwise, and its next use is not seen."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return


@dataclass(frozen=True)
class Trained:
    """A trained model and what it cost.

    Attributes:
        model: in eval mode; or what else was prepared.
        states: weights during the training, the last at its end.
        seconds: of the processor, for the training.
        peak_bytes: growth of the process in that time; None where it cannot be read.
    """

    model: Any
    states: tuple[State, ...]
    seconds: float
    peak_bytes: int | None


class Trainings:
    """All trainings of a task from one seed; what was trained is kept."""

    def __init__(self, ready: Prepared, *, seed: int, checkpoints: int) -> None:
        self.ready, self.seed, self.checkpoints = ready, seed, checkpoints
        self._kept: dict[object, Trained] = {}

    @property
    def seconds(self) -> float:
        return sum(one.seconds for one in self._kept.values())

    def plain(self, number: int = 0) -> Trained:
        return self.once(("plain", number), lambda: self._train_plain(self.seed + 1000 * number))

    def plain_by_epoch(self) -> Trained:
        """Return the plain model with its weights after every epoch."""
        epochs = self.ready.plain.epochs
        return self.once(("plain by epoch",), lambda: _with_states(self.ready.plain, self.seed, epochs))

    def masked(self, replicas: int, *, checkpoints: int = 0) -> Trained:
        """Return the masked model; with checkpoints, also its weights so many times during the training."""
        recipe = self.ready.masked(self.seed, replicas)
        if not checkpoints:
            return self.once(replicas, lambda: (recipe.fit(seed=self.seed), ()))
        return self.once((replicas, checkpoints), lambda: _with_states(recipe, self.seed, checkpoints))

    def _train_plain(self, seed: int) -> tuple[nn.Module, tuple[State, ...]]:
        return _with_states(self.ready.plain, seed, self.checkpoints)

    def once(self, key: object, train: Callable[[], tuple[Any, tuple[State, ...]]]) -> Trained:
        """Return what was trained under a key, or train it; also for other preparations that methods share."""
        if key not in self._kept:
            with Cost() as cost:
                model, states = train()
            self._kept[key] = Trained(model, states, cost.seconds, cost.peak_bytes)
        return self._kept[key]


def _with_states(recipe: TrainingRecipe, seed: int, checkpoints: int) -> tuple[nn.Module, tuple[State, ...]]:
    """Train; return the model and its weights at so many equal parts of the training, the last at its end."""
    states = training_weights(recipe, seed=seed, checkpoints=checkpoints)
    with torch.random.fork_rng(devices=[]):
        model = recipe.build().eval()
    model.load_state_dict(states[-1])
    return model, states


def margins_of(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return by how much the output of a row's label is above the largest other one."""
    given = outputs.gather(1, labels[:, None])
    return (given - outputs.scatter(1, labels[:, None], -float("inf")).amax(1, keepdim=True))[:, 0]


SHARE = 0.1


@dataclass(frozen=True)
class Answers:
    """The scores of a method on a task.

    Attributes:
        pairs: [rows, validation rows], positive where a row helps; None: it has none.
        own: [rows] each, larger for rows with more suspicious labels, without any validation row; "self":
            self-influence, "held_out": from held-out predictions.
        trained: trainings that it needed.
        own_seconds: of the processor, for row scores; None: not measured apart.
        mean: mean influence on the validation rows [rows], where it is estimated apart; None: the mean of the pairs.
    """

    pairs: np.ndarray | None
    own: Mapping[str, np.ndarray]
    trained: tuple[Trained, ...]
    own_seconds: float | None = None
    mean: np.ndarray | None = None

    @property
    def mean_influence(self) -> np.ndarray | None:
        return self.mean if self.mean is not None or self.pairs is None else self.pairs.mean(1)


def detection(answers: Answers, wrong: np.ndarray) -> dict[str, float]:
    """Return how well wrong labels are found: AUC and share of them among the worst 10 % of the rows."""
    suspicions = dict(answers.own)
    if answers.mean_influence is not None:
        suspicions["mean"] = -answers.mean_influence
    found: dict[str, float] = {}
    for name, suspicion in suspicions.items():
        detected = mislabel_detection(np.asarray(suspicion), wrong, share=SHARE)
        found |= {f"{name}_auc": detected.auc, f"{name}_found": detected.found}
    return found
