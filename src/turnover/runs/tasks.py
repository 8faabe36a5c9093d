"""What a run learns: a task reads and keeps its data, builds its networks and says how good they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from torch import Tensor, nn

from turnover.scores import Scores

from .config import RunConfig, Watch
from .folder import RunFolder
from .inputs import Inputs
from .rows import Rows

ScoreName = Literal["self_influence", "out_of_sample", "mean_influence"]


class Task(Protocol):
    """A task of a run, made of its settings and its folder.

    Data is what `read` read, or is opened from the folder when it is first used.

    Attributes:
        name: "classification" or "lm".
        score_names: what `Run.score` computes.
        denoised: whether questions about predictions are answered by denoised scores.
    """

    name: ClassVar[str]
    score_names: ClassVar[tuple[ScoreName, ...]]
    denoised: ClassVar[bool]

    def __init__(self, config: RunConfig, folder: RunFolder) -> None: ...

    def read(self, watch: Watch) -> tuple[str, ...]:
        """Read the data and return notes on it; nothing is written.

        Raises:
            DataFileError: the data cannot be used.
        """
        ...

    def keep(self) -> None:
        """Write the data that was read into the folder."""
        ...

    def prepare(self, watch: Watch) -> None:
        """Fit what turns values into inputs and write it, unless the folder has it."""
        ...

    @property
    def settings(self) -> RunConfig:
        """Return the settings with the defaults in place of what was left open."""
        ...

    @property
    def kind(self) -> str:
        """Return the kind of data: "text", "image", "table" or "lm"."""
        ...

    @property
    def rows(self) -> Rows:
        """Return all rows, in the order of their file."""
        ...

    @property
    def preparation(self) -> Inputs:
        """Return how values become inputs."""
        ...

    @property
    def label_names(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        ...

    @property
    def splits(self) -> np.ndarray:
        """Return the split of each instance, as index into SPLITS."""
        ...

    @property
    def ids(self) -> np.ndarray:
        """Return the instance ids."""
        ...

    @property
    def x(self) -> Tensor:
        """Return the inputs of all instances."""
        ...

    @property
    def y(self) -> Tensor:
        """Return the class numbers of all instances."""
        ...

    @property
    def references(self) -> int:
        """Return how many reference examples the mask-bias correction of held-out predictions takes; 0: none."""
        ...

    def inputs(self, values: Any) -> Tensor:
        """Return the inputs of new values."""
        ...

    @property
    def loss_weights(self) -> Tensor | None:
        """Return the weights of the classes in the loss; None: all equal."""
        ...

    @property
    def model_folders(self) -> list[Path]:
        """Return where each of the trained models is kept."""
        ...

    def seed_of(self, number: int) -> int:
        """Return the seed of a model's weights and batches."""
        ...

    def plain_network(self) -> nn.Module:
        """Return an untrained network without masks."""
        ...

    def masked_network(self, number: int) -> nn.Module:
        """Return an untrained network with the masks of one of the models."""
        ...

    def asked_model(self, model: nn.Module) -> nn.Module:
        """Return a trained model as it is asked about predictions."""
        ...

    def results(self, models: Sequence[nn.Module], self_influence: Scores) -> dict[str, float]:
        """Return how good the trained models are."""
        ...
