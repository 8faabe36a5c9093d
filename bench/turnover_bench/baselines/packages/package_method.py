"""What all methods of other packages share: rows, weights, losses; the scores of a question from those of all rows."""

import contextlib
import importlib.metadata
import importlib.util
import io
import shutil
import tempfile
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from turnover.batches import default_loss
from turnover.errors import BaselineError, MissingExtraError
from turnover.scores import Scores
from turnover.storage import check_memory
from turnover.training import Step, TrainingRecipe

from .._questions import Baseline, Question

State = dict[str, Tensor]
_GRADIENT_BYTES = 4e8  # of rows whose gradients are held at once
_MOST_ROWS = 500


def is_installed(package: str) -> bool:
    """Tell whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def check_installed(package: str, distribution: str, *, who: str) -> None:
    """Raise where a package is missing; its distribution may have another name.

    Raises:
        MissingExtraError: it is not installed.
    """
    if not is_installed(package):
        raise MissingExtraError(f"{who} needs the package {distribution}: pip install {distribution}.")


class PackageMethod(Baseline):
    """A method of another package, on trained weights of the recipe's model.

    Positive: the row lowers the query's loss, or is more similar. Units are the package's own. Inputs must be one
    tensor and targets class numbers.

    Args:
        recipe: rows, loss and model.
        weights: state dicts: checkpoints of one training, the last at its end (see `training_weights`), or ends of
            several trainings, where a method takes them.
        seed: of what the method draws.

    Attributes:
        weights: as given.
        has_self_influence: whether it scores rows on themselves.
    """

    package: ClassVar[str]
    distribution: ClassVar[str]
    title: ClassVar[str]
    has_self_influence: ClassVar[bool] = True

    def __init__(self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0) -> None:
        check_installed(self.package, self.distribution, who=type(self).__name__)
        super().__init__(recipe, None, None)
        if not isinstance(recipe.inputs, Tensor) or recipe.targets.is_floating_point():
            raise BaselineError(
                f"{type(self).__name__} takes inputs as one tensor and class numbers as targets. For other rows there "
                "are turnover_bench.baselines.TracIn and InfluenceFunctions."
            )
        if not weights:
            raise BaselineError("`weights` must be one state dict or more, got none. Give training_weights(recipe).")
        self.weights, self._seed = tuple(weights), seed
        self._rows = TensorDataset(recipe.inputs, recipe.targets)
        self._model = self._untrained()
        self._model.load_state_dict(self.weights[-1])

    @cached_property
    def scratch(self) -> str:
        """Return a folder that lasts as long as this object."""
        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    @property
    def storage_bytes(self) -> int:
        """Return the bytes of the weights, and of what the package keeps in files or in memory to answer questions."""
        weights = sum(value.nbytes for state in self.weights for value in state.values())
        files = sum(file.stat().st_size for file in Path(self.scratch).rglob("*") if file.is_file())
        return weights + files + self._held_bytes

    _held_bytes: int = 0

    @property
    def _at_once(self) -> int:
        """The number of rows whose gradients are held at once."""
        return max(1, min(_MOST_ROWS, int(_GRADIENT_BYTES / 4 / self._parameters)))

    @property
    def _parameters(self) -> int:
        return sum(value.numel() for value in self._model.parameters())

    def _untrained(self) -> nn.Module:
        """Return a model for weights to be loaded into, drawn without touching the random generator."""
        with torch.random.fork_rng(devices=[]):
            return self._recipe.build().cpu().eval()

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the losses of rows."""
        return (self._recipe.loss or default_loss(targets))(outputs, targets)

    def _check_memory(self, size: float, what: str) -> None:
        """Raise where a package would need more memory than is free, which would end the process."""
        check_memory(int(size), f"{type(self).__name__} {what}", cure="Give a smaller model, or another method.")

    def _score(self, question: Question, progress: bool | None) -> Scores:
        """Return the scores of a question; the packages score all rows."""
        if question.kind == "self" and not self.has_self_influence:
            raise BaselineError(f"{self.title} of {self.distribution} has no self-influence. Ask for pairs.")
        with self._working():
            if question.queries is None:
                values = self._own()[question.rows.numpy()][None]
            else:
                values = self._pairs(question.queries)[question.rows.numpy()]
        if question.kind == "mean":
            values = values.mean(1, keepdims=True)
        version = importlib.metadata.version(self.distribution)
        provenance = {"method": self.title, "package": f"{self.distribution} {version}"}
        return question.scores(values, path=f"{self.title} ({self.distribution} {version})", provenance=provenance)

    @abstractmethod
    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        """Return scores [all rows, queries]."""

    def _own(self) -> np.ndarray:
        """Return the self-influence of all rows, where `has_self_influence`."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Hide the bars of packages that have no option not to show them, and warnings about their own use of torch.

        What they draw comes from the seed; the caller's random state is left alone.
        """
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            torch.manual_seed(self._seed)
            yield


def training_weights(recipe: TrainingRecipe, *, seed: int = 0, checkpoints: int = 1) -> tuple[State, ...]:
    """Train; return the weights at so many equal parts of the training, the last at its end.

    Args:
        recipe: how to train.
        seed: of the training.
        checkpoints: how many.
    """
    total = len(recipe.batches(seed))
    steps = {(place + 1) * total // checkpoints for place in range(checkpoints - 1)}
    states: list[State] = []

    def note(step: Step) -> None:
        if step.number in steps:
            states.append(_copied(step.model))

    final = recipe.fit(seed=seed, on_step=note)
    return (*states, _copied(final))


def _copied(model: nn.Module) -> State:
    # On the CPU, where all of these packages run here.
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def tensors_of(queries: TrainingRecipe) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of queries."""
    assert isinstance(queries.inputs, Tensor)
    return queries.inputs, queries.targets
