"""A finished run: rows, model, curves and scores, opened from its folder."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.influence import Ridge
from turnover.runs import rows_kept
from turnover.scores import OutOfSample
from turnover.wrapping import only_at, top_sites

from .finished import FinishedRun
from .inputs.features import all_inputs
from .inputs.inputs import Inputs, read_inputs
from .kept_scores import keep_scores, keep_unseen, open_scores, open_unseen
from .networks import plain_network
from .rows import SPLITS, Rows, Split

# Mean influence is asked of at most so many validation rows.
MOST_VALIDATION = 500
# What masks say by themselves is measured on so many rows, in runs of at most so many training rows.
_REFERENCES, _MOST_WITH_REFERENCES = 32, 20_000


class Run(FinishedRun):
    r"""A finished run, opened from its folder. Everything is loaded when it is needed first.

    Args:
        folder: of the run.

    Example:
        >>> import tempfile
        >>> from .config import RunConfig
        >>> from .starting import start_run
        >>> file = Path(tempfile.mkdtemp()) / "fruit.csv"
        >>> rows = [f"sweet red apple {n},good\nrotten brown pear {n},bad\n" for n in range(20)]
        >>> _ = file.write_text("text,label\n" + "".join(rows))
        >>> config = RunConfig(str(file), text="text", label="label", hidden=16, replicas=1, epochs=1)
        >>> run = start_run(config, file.with_name("run"))
        >>> run.predict(["a sweet apple"]).shape
        (1, 2)
    """

    @property
    def kind(self) -> str:
        """Return "text", "image" or "table"."""
        return self.rows.kind

    @property
    def label_names(self) -> tuple[str, ...]:
        """Return the classes."""
        return self.rows.label_names

    @cached_property
    def rows(self) -> Rows:
        """Return all rows, in the order of their file."""
        return rows_kept.open_rows(self.folder.path)

    @cached_property
    def splits(self) -> np.ndarray:
        """Return which split each row is in, as index into SPLITS."""
        with self.reading(self.folder.splits):
            return np.load(self.folder.splits)

    def places(self, split: Split) -> np.ndarray:
        """Return the numbers of the rows of a split."""
        return np.flatnonzero(self.splits == SPLITS.index(split))

    @cached_property
    def ids(self) -> np.ndarray:
        """Return the instance id of each row: its number, or that of its group."""
        if not self.rows.groups:
            return np.arange(len(self.rows))
        numbers = {group: number for number, group in enumerate(sorted(set(self.rows.groups)))}
        return np.array([numbers[group] for group in self.rows.groups])

    @cached_property
    def preparation(self) -> Inputs:
        """Return how raw values become inputs."""
        return read_inputs(self.folder.inputs)

    @cached_property
    def x(self) -> Tensor:
        """Return the inputs of all rows."""
        return all_inputs(self.preparation, self.rows, self.folder)

    @cached_property
    def y(self) -> Tensor:
        """Return the class numbers of all rows."""
        return torch.from_numpy(self.rows.labels)

    def data(self, split: Split, *, most: int | None = None) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of a split.

        Args:
            split: which.
            most: at most so many rows, spread evenly; None: all.
        """
        places = self.places(split)
        if most is not None and len(places) > most:
            places = places[np.linspace(0, len(places) - 1, most).astype(int)]
        return self.x[places], self.y[places]

    @cached_property
    def train_data(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs, labels and instance ids of the training rows."""
        places = self.places("train")
        return self.x[places], self.y[places], torch.from_numpy(self.ids[places])

    @cached_property
    def model(self) -> nn.Module:
        """Return the trained model."""
        plain = plain_network(self.config, self.preparation, len(self.label_names))
        return self.load_model(self.folder.model, plain)

    @cached_property
    def influence(self) -> turnover.Influence:
        """Return the engine for questions about single predictions: scores denoised, in units of the loss.

        In a network with adapters only the masks before the output layer count: all pairs are one matrix product
        then, and not one pass through the encoder each.
        """
        return self._engine(Ridge())

    @cached_property
    def influence_on_sets(self) -> turnover.Influence:
        """Return the engine for questions about sets of predictions, each of which counts alike.

        Influence functions of the last layer stand beside the scores: means over many predictions gain from them, while
        single scores would stand out from noise less often.
        """
        return self._engine(Ridge(gradients=1, scale="query"))

    def _engine(self, ridge: Ridge) -> turnover.Influence:
        model = self.model if self.preparation.kind != "tokens" else only_at(self.model, top_sites(self.model, 0))
        return turnover.Influence(model, train=self.train_data, denoise=ridge if self.about.denoised else None)

    @cached_property
    def raw_influence(self) -> turnover.Influence:
        """Return the engine as it is, for questions about training rows themselves."""
        return turnover.Influence(self.model, train=self.train_data)

    def inputs(self, values: Any) -> Tensor:
        """Return the inputs of new values: texts, uint8 images [n, height, width, channels], or lines of a table."""
        return self.preparation(values)

    @torch.no_grad()
    def predict(self, values: Any) -> np.ndarray:
        """Return the probabilities [values, classes] that the whole network gives new values."""
        return self.probabilities(self.inputs(values))

    @torch.no_grad()
    def probabilities(self, x: Tensor) -> np.ndarray:
        """Return the probabilities [rows, classes] that the whole network gives inputs."""
        parts = [functional.softmax(self.model(part), dim=1) for part in x.split(1024)]
        return torch.cat(parts).numpy() if parts else np.empty((0, len(self.label_names)), np.float32)

    @cached_property
    def self_influence(self) -> turnover.Scores:
        """Return what each training row does to its own prediction."""
        file = self.folder.scores / "self.npz"
        if not file.exists():
            keep_scores(file, self.raw_influence.self_influence(progress=False))
        with self.reading(file):
            return open_scores(file)

    def unseen(self, rows: Any = None) -> OutOfSample:
        """Return what parts that never saw some rows say of them, without what their masks say of all rows alike.

        That is taken off where it is cheap and where there is much of it: not in passes through an encoder, and not on
        so many rows that masks cannot tell their labels.

        Args:
            rows: inputs, labels and ids; None: the training rows.
        """
        return self.raw_influence.out_of_sample(rows, references=self._references, progress=False)

    @property
    def _references(self) -> int:
        trained = len(self.places("train"))
        return _REFERENCES if self.preparation.kind != "tokens" and 1 < trained <= _MOST_WITH_REFERENCES else 0

    @cached_property
    def out_of_sample(self) -> OutOfSample:
        """Return what the part that never saw a training row says of it."""
        # Two names: what another version kept without references is not taken for what was asked for.
        file = self.folder.scores / ("unseen_beside_references.npz" if self._references else "unseen.npz")
        if not file.exists():
            keep_unseen(file, self.unseen())
        with self.reading(file):
            return open_unseen(file)

    @cached_property
    def mean_influence(self) -> turnover.Scores:
        """Return the mean influence of each training row on the validation rows."""
        file = self.folder.scores / "mean.npz"
        if not file.exists():
            queries = self.data("validation", most=MOST_VALIDATION)
            keep_scores(file, self.influence_on_sets.mean(queries, progress=False))
        with self.reading(file):
            return open_scores(file)


def open_run(folder: str | os.PathLike[str]) -> Run:
    """Return a finished run.

    Raises:
        RunError: there is none, or it did not come to its end.
    """
    run = Run(Path(folder))
    run.refuse_unfinished()
    return run
