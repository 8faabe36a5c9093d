"""The compared methods on generated rows, each split into what the paper counts: training, storage, estimation."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import turnover
from turnover.training import TrainingRecipe
from turnover_bench.baselines import FeldmanZhang, InfluenceFunctions, Lissa, SgdInfluence
from turnover_bench.experiments.networks import masked_mlp, mlp

from .config import Table1Config

FEATURES, CLASSES = 32, 4


@dataclass(frozen=True)
class Task:
    """One cell of the measurement: a plain recipe, the same with turn-over dropout, one query and the settings."""

    plain: TrainingRecipe
    masked: TrainingRecipe
    query: tuple[Tensor, Tensor]
    config: Table1Config


def make_task(config: Table1Config, rows: int, width: int) -> Task:
    """Return the task for a size of the data and a width of the network; the smaller data are part of the larger."""
    inputs, targets = generated(rows + 1, config.seed)
    # The query comes first, so that it is the same for every size.
    data = {"inputs": inputs[1:], "targets": targets[1:], "epochs": config.epochs, "batch_size": config.batch_size}
    return Task(
        plain=TrainingRecipe(partial(mlp, FEATURES, (width, width), CLASSES), **data),
        masked=TrainingRecipe(partial(masked_mlp, FEATURES, (width, width), CLASSES, seed=config.seed), **data),
        query=(inputs[:1], targets[:1]),
        config=config,
    )


def generated(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return rows around one center a class, drawn one after the other."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(CLASSES, FEATURES, generator=generator)
    targets = torch.randint(CLASSES, (rows,), generator=torch.Generator().manual_seed(seed + 1))
    # A second draw for the noise: torch draws in another order for other sizes, hence blocks of a fixed size.
    blocks = [torch.randn(64, FEATURES, generator=generator) for _ in range(-(-rows // 64))]
    return centers[targets] + 2 * torch.cat(blocks)[:rows], targets


_DAMPING = 1.0
_SCALE = 20.0


class Method(ABC):
    """One method on one task.

    Attributes:
        share: of its trainings that are really run; times and bytes of all are extrapolated from them.
        reads_rows: whether estimation reads the training rows; otherwise it can score more than were trained.
    """

    share = 1.0
    reads_rows = True

    def __init__(self, task: Task, folder: Path) -> None:
        self.task = task
        self.folder = folder

    @abstractmethod
    def train(self) -> None:
        """Do all that needs no query."""

    @abstractmethod
    def stored(self) -> int:
        """Return the bytes on disk of what must be kept for queries, without the training data."""

    @abstractmethod
    def estimate(self, rows: int) -> np.ndarray:
        """Return the influence of so many rows on the query."""


class Retrain(Method):
    """A model without each row, and one with all; some of them are really trained."""

    def train(self) -> None:
        """Train the model with all rows and those without some rows, spread over the data."""
        recipe = self.task.plain
        rows = len(recipe)
        left_out = np.linspace(0, rows - 1, min(self.task.config.retrained, rows)).round().astype(int)
        self.share = (1 + len(left_out)) / (1 + rows)
        self.whole = recipe.fit(seed=self.task.config.seed)
        self.without = [
            recipe.fit(torch.arange(rows) != int(row), seed=self.task.config.seed) for row in left_out.tolist()
        ]

    def stored(self) -> int:
        """Return the bytes of one file for each model that was trained."""
        return sum(_saved(model, self.folder / f"{n}.pt") for n, model in enumerate([self.whole, *self.without]))

    def estimate(self, rows: int) -> np.ndarray:
        """Ask as many models as there are rows: those that were trained, in turn."""
        losses = [_loss(self.task, self.without[row % len(self.without)]) for row in range(rows)]
        return np.array(losses) - _loss(self.task, self.whole)


class Hara(Method):
    """SGD-influence: all steps on disk, walked back for the query."""

    def train(self) -> None:
        """Train and record."""
        self.influence = SgdInfluence.train(self.task.plain, seed=self.task.config.seed, folder=self.folder / "steps")

    def stored(self) -> int:
        """Return the bytes of the recording's folder."""
        return _bytes(self.folder / "steps")

    def estimate(self, rows: int) -> np.ndarray:
        """Walk back."""
        return self.influence.pairwise(self.task.query, progress=False).values[:, 0]


class Koh(Method):
    """Influence functions with as many steps of the recursion as there are rows (rt = |D|)."""

    def train(self) -> None:
        """Train one model."""
        self.model = self.task.plain.fit(seed=self.task.config.seed)

    def stored(self) -> int:
        """Return the bytes of the model."""
        return _saved(self.model, self.folder / "model.pt")

    def estimate(self, rows: int) -> np.ndarray:
        """Solve for the query and multiply with the gradients of all rows."""
        # Scale and damping are given, not searched: a search would be a fixed cost that bends the growth.
        solver = Lissa(depth=rows, repeats=1, batch_size=self.task.config.lissa_batch, scale=_SCALE, seed=0)
        influence = InfluenceFunctions(self.task.plain, self.model, solver=solver, damping=_DAMPING)
        return influence.pairwise(self.task.query, progress=False).values[:, 0]


class Feldman(Method):
    """A fixed number of models on random subsets, all kept; the subsets are drawn again from their seed."""

    reads_rows = False

    def train(self) -> None:
        """Train the models."""
        subsets, seeds = self._plan(len(self.task.plain))
        self.models = [self.task.plain.fit(rows, seed=seed) for rows, seed in zip(subsets, seeds, strict=True)]

    def stored(self) -> int:
        """Return the bytes of all models."""
        return sum(_saved(model, self.folder / f"{n}.pt") for n, model in enumerate(self.models))

    def estimate(self, rows: int) -> np.ndarray:
        """Ask all models, and compare for each row those that had it with those that had not."""
        inside, _ = self._plan(rows)
        losses = np.array([_loss(self.task, model) for model in self.models])
        have = inside.sum(0)
        # With few models a row may be in all or in none: 0 / 0, which costs the same.
        with np.errstate(invalid="ignore", divide="ignore"):
            return losses @ ~inside / (len(losses) - have) - losses @ inside / have

    def _plan(self, rows: int) -> tuple[np.ndarray, list[int]]:
        # Subsets depend on the number of rows and not on what is in them.
        blank = replace(self.task.plain, inputs=torch.zeros(rows, 0), targets=torch.zeros(rows))
        return FeldmanZhang(blank, models=self.task.config.subset_models, seed=self.task.config.seed).plan()


class TurnOver(Method):
    """Turn-over dropout: one model, two forward passes per row, of which only the id is needed."""

    reads_rows = False

    def train(self) -> None:
        """Train one masked model."""
        self.model = self.task.masked.fit(seed=self.task.config.seed)

    def stored(self) -> int:
        """Return the bytes of the model and its recipe of masks."""
        return _bytes(turnover.save(self.model, self.folder / "model"))

    def estimate(self, rows: int) -> np.ndarray:
        """Compare both views of every row."""
        # The original estimator is not centered: null ids would be a fixed cost.
        influence = turnover.Influence(self.model, center=False)
        return influence.pairwise(self.task.query, ids=range(rows), progress=False).values[:, 0]


METHODS: dict[str, type[Method]] = {
    "retrain": Retrain,
    "hara": Hara,
    "koh": Koh,
    "feldman": Feldman,
    "turnover": TurnOver,
}


def _loss(task: Task, model: nn.Module) -> float:
    inputs, targets = task.query
    recipe = TrainingRecipe(task.plain.build, inputs, targets)
    with torch.no_grad():
        return float(recipe.losses(model, torch.zeros(1, dtype=torch.int64))[0])


def _saved(model: nn.Module, file: Path) -> int:
    torch.save(model.state_dict(), file)
    return file.stat().st_size


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
