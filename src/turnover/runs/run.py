"""A run: its data, models, learning curves and scores, in memory and in a folder."""

import os
import warnings
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from turnover.applications import (
    Examples,
    RowRecord,
    WrongLabels,
    chance_p_value,
    prediction,
    wrong_labels,
)
from turnover.errors import RunError, SavedModelError, StoreError, TurnOverWarning, WeakSignalWarning
from turnover.influence import EstimatorOption, Executor, Influence, MeasureOption
from turnover.layers import device_of, find_root, masking_of, preferred_device
from turnover.scores import OutOfSample, Scores
from turnover.wrapping import load

from ._labeled_rows import LabeledRows
from .config import RunConfig, Watch, unwatched
from .folder import About, RunFolder, changed_data
from .inputs import Inputs
from .rows import SPLITS, Rows, Split
from .training import Curves, predicted_numbers

_MOST_VALIDATION = 500
_ENOUGH_FOR_CHANCE = 20  # rows; of fewer, good predictions cannot be told from lucky ones

_SCORE_TYPES: dict[str, type[Scores] | type[OutOfSample]] = {
    "self_influence": Scores,
    "mean_influence": Scores,
    "out_of_sample": OutOfSample,
}
Task = LabeledRows
"""What a run learns. A task reads and keeps data (`read`, `keep`, `prepare`), says what its instances are (`x`, `y`,
`ids`, `_splits`), builds networks (`plain_network`, `masked_network`, `model_folders`), and measures trained ones
(`results`); `score_names` is what `Run.score` computes."""

_TaskT = TypeVar("_TaskT", bound=Task)


class Run(Generic[_TaskT]):
    """A run: its data, models, learning curves and scores. What is not in memory is opened when it is first used."""

    executor: Executor | None = None
    """Who computes scores; None: this process."""

    def __init__(self, folder: RunFolder, config: RunConfig, about: About, task: _TaskT) -> None:
        self.folder, self.config, self.about, self.task = folder, config, about, task
        self._scores: dict[str, Any] = {}

    @property
    def complete(self) -> bool:
        """Tell whether the run is finished."""
        return self.about.state == "complete"

    def changed_data(self) -> list[str]:
        """Return the files and folders of the data that are there, with another content than the run read."""
        return changed_data(self.about)

    @property
    def data_digest(self) -> str | None:
        """Return the SHA-256 of the data as it was read; None: it was not known, or is on the hub."""
        return self.about.data.get(self.config.data)

    @property
    def settings(self) -> RunConfig:
        """Return the settings with the defaults in place of what was left open."""
        return self.task.settings

    @property
    def kind(self) -> str:
        """Return the kind of data: "text", "image" or "table"."""
        return self.task.kind

    @property
    def rows(self) -> Rows:
        """Return all rows, in the order of their file."""
        return self.task.rows

    @property
    def examples(self) -> Examples:
        """Return the rows as findings speak of them."""
        return self._examples

    @cached_property
    def _examples(self) -> Examples:
        return replace(self.task.examples, wrong_labels=self.wrong_labels)

    @cached_property
    def wrong_labels(self) -> WrongLabels:
        """Return how probably each training label is wrong: by the record of the training, or held-out predictions."""
        if not self.folder.record.exists():
            return self.task.examples.train_labels.beside(self.out_of_sample.probs)
        with self.folder.reading(self.folder.record):
            return wrong_labels(RowRecord.open(self.folder.record))

    @property
    def preparation(self) -> Inputs:
        """Return how values become inputs."""
        return self.task.preparation

    @property
    def label_names(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        return self.task.label_names

    @property
    def splits(self) -> np.ndarray:
        """Return the split of each row, as index into SPLITS."""
        return self.task.splits

    @property
    def ids(self) -> np.ndarray:
        """Return the instance id of each row: its number, or that of its group."""
        return self.task.ids

    @property
    def x(self) -> Tensor:
        """Return the inputs of all rows."""
        return self.task.x

    @property
    def y(self) -> Tensor:
        """Return the class numbers of all rows, or their standardized numbers."""
        return self.task.y

    def places(self, split: Split) -> np.ndarray:
        """Return the numbers of the rows of a split."""
        return np.flatnonzero(self.splits == SPLITS.index(split))

    def data(self, split: Split, *, most: int | None = None) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of a split, of at most so many rows, spread evenly."""
        places = self.places(split)
        if most is not None and len(places) > most:
            places = places[np.linspace(0, len(places) - 1, most).astype(int)]
        return self.x[places], self.y[places]

    @cached_property
    def train_data(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return inputs, labels and instance ids of the training rows."""
        return *self.data("train"), torch.from_numpy(self.ids[self.places("train")])

    @cached_property
    def curves(self) -> Curves:
        """Return the learning curves, of several models their mean."""
        with self.folder.reading(self.folder.curves):
            return Curves.read(self.folder.curves)

    @cached_property
    def models(self) -> list[nn.Module]:
        """Return the trained models: one, whose replicas have masks of their own."""
        return [self.load_model(kept) for kept in self.task.model_folders]

    @property
    def model(self) -> nn.Module:
        """Return the trained model, of several the first."""
        return self.models[0]

    @property
    def width(self) -> int:
        """Return the number of units of the last masked layer."""
        root = find_root(self.model)
        width = None if root is None else masking_of(root).learned.widths[-1]
        assert width is not None, "a trained model has masks, and knows their widths"
        return width

    def load_model(self, kept: Path) -> nn.Module:
        """Return a trained model from its folder."""
        try:
            return load(kept, model=self.task.plain_network()).eval().to(preferred_device())
        except SavedModelError as error:
            raise RunError(f"{error.problem.removesuffix('.')}. Run it again: {self.folder.again}") from error

    @cached_property
    def influence(self) -> Influence:
        """Return the engine for questions about predictions: about the loss at a label, or about a number itself."""
        return self._engine(self.task.estimator, "loss" if self.task.scale is None else prediction)

    @cached_property
    def influence_on_sets(self) -> Influence:
        """Return the engine for questions about sets of predictions, each of which counts equally."""
        same = self.task.estimator_of_means == self.task.estimator and self.task.scale is None
        return self.influence if same else self._engine(self.task.estimator_of_means, "loss")

    def _engine(self, estimator: EstimatorOption, measure: MeasureOption) -> Influence:
        models = [self.task.asked_model(model) for model in self.models]
        options = {"estimator": estimator, "measure": measure, "executor": self.executor}
        influence = Influence(models, train=self.train_data, **options)
        influence.take_fit(self.folder.scores)
        return influence

    @property
    def mean_queries(self) -> tuple[Tensor, Tensor]:
        """Return the validation rows that mean influence is on: all, where any number takes one pass, else some."""
        kept = self._scores.get("mean_influence")
        if kept is None and self._file("mean_influence").exists():
            kept = self.mean_influence
        in_one_pass = self.task.estimator_of_means == "auto" if kept is None else kept.method == "curvature"
        return self.data("validation", most=None if in_one_pass else _MOST_VALIDATION)

    @cached_property
    def raw_influence(self) -> Influence:
        """Return the engine of the original estimator, for questions about training rows themselves."""
        return Influence(self.models, train=self.train_data, estimator="tod", executor=self.executor)

    def inputs(self, values: Any) -> Tensor:
        """Return the inputs of new values: texts, uint8 images [n, height, width, channels], or rows of a table."""
        return self.task.inputs(values)

    def predict(self, values: Any) -> np.ndarray:
        """Return the probabilities [values, classes] that the full network gives new values, or numbers [values]."""
        return self.predicted(self.inputs(values))

    def predicted(self, x: Tensor) -> np.ndarray:
        """Return the probabilities [rows, classes] that the full network gives inputs, or numbers [rows]."""
        return self.probabilities(x) if self.task.scale is None else self.numbers(x)

    @torch.no_grad()
    def probabilities(self, x: Tensor) -> np.ndarray:
        """Return the probabilities [rows, classes] that the full network gives inputs; of several models the mean."""
        if not len(x):
            return np.empty((0, len(self.label_names)), np.float32)
        device = device_of(self.model)
        parts = [
            torch.stack([functional.softmax(model(part.to(device)), dim=1) for model in self.models]).mean(0).cpu()
            for part in x.split(1024)
        ]
        return torch.cat(parts).numpy()

    def numbers(self, x: Tensor) -> np.ndarray:
        """Return the numbers [rows] that the full network of a regression predicts for inputs."""
        assert self.task.scale is not None, "the run learned classes"
        return self.task.scale.restored(predicted_numbers(self.model, x).numpy()) if len(x) else np.empty(0)

    def held_out(self, rows: Any = None) -> OutOfSample:
        """Return held-out predictions of rows, by default the training rows, with the task's mask-bias correction."""
        predicted = self.raw_influence.out_of_sample(rows, references=self.task.references, progress=False)
        if self.task.scale is None:
            return predicted
        return OutOfSample(self.task.scale.restored(predicted.replicas), ids=predicted.ids, path=predicted.path)

    @property
    def self_influence(self) -> Scores:
        """Return the self-influence of each training row."""
        return self._kept("self_influence")

    @property
    def mean_influence(self) -> Scores:
        """Return the mean influence of each training row on the validation rows."""
        return self._kept("mean_influence")

    @property
    def out_of_sample(self) -> OutOfSample:
        """Return the held-out prediction of each training row."""
        return self._kept("out_of_sample")

    def score(self, *, watch: Watch = unwatched) -> None:
        """Compute all scores that are missing and keep them, then write the results: the run is finished."""
        with self.folder.lock():
            self.score_locked(watch=watch)

    def score_locked(self, *, watch: Watch = unwatched) -> None:
        """Do what `score` does, for a caller that has the lock of the folder."""
        names = self.task.score_names
        with self.about.timed("scoring"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TurnOverWarning)
            for done, name in enumerate(names):
                watch("scoring", done, len(names), name.replace("_", " "))
                if name not in self._scores and not self._file(name).exists():
                    self._scores[name] = self._computed(name)
                    with self.folder.writing(self._file(name)):
                        self._scores[name].save(self._file(name))
                    self.folder.write_about(self.about)
            with self.folder.writing(self.folder.scores):
                self.influence.keep_fit(self.folder.scores)
            self.about.files.pop("scores/factors.npz", None)  # its checksum, where it was written before
            watch("scoring", len(names), len(names))
        if any(isinstance(warning.message, WeakSignalWarning) for warning in caught):
            self.about.notes.append(
                "Self-influence cannot be told from noise: rows were hardly learned. Train longer, with more --epochs."
            )
        self.about.results = {**self.task.results(self.models, self.self_influence), **self._chance()}
        self.about.state = "complete"
        self.folder.write_about(self.about)

    def _chance(self) -> dict[str, float]:
        """Return how probably validation and test rows are predicted as well by chance, where they can tell."""
        places = np.concatenate([self.places("validation"), self.places("test")])
        if len(places) < _ENOUGH_FOR_CHANCE:
            return {}
        return {"chance_p_value": chance_p_value(self.predicted(self.x[places]), self.rows.labels[places])}

    def _computed(self, name: str) -> Any:
        if name == "self_influence":
            return self.raw_influence.self_influence(progress=False)
        if name == "out_of_sample":
            return self.held_out()
        return self.influence_on_sets.mean(self.mean_queries, progress=False)

    def _file(self, name: str) -> Path:
        names = {"self_influence": "self.npz", "mean_influence": "mean.npz", "out_of_sample": "held_out.npz"}
        return self.folder.scores / names[name]

    def _kept(self, name: str) -> Any:
        """Return scores that were computed before."""
        if name not in self._scores:
            if name not in self.task.score_names:
                raise RunError(f"a run with the task {self.task.name!r} has no {name.replace('_', ' ')}.")
            if not self._file(name).exists():
                raise RunError(
                    f"the run in {str(self.folder.path)!r} has no {name.replace('_', ' ')} yet. Compute it: "
                    f"run.score(), or {self.folder.resume}"
                )
            try:
                self._scores[name] = _SCORE_TYPES[name].open(self._file(name))
            except StoreError as error:
                raise RunError(f"{error} Run it again: {self.folder.again}") from error
        return self._scores[name]


def run_in(folder: RunFolder, config: RunConfig, about: About) -> Run[Any]:
    """Return the run of these settings."""
    return Run(folder, config, about, LabeledRows(config, folder))


def open_run(folder: str | os.PathLike[str], *, executor: Executor | None = None) -> Run[Any]:
    """Return a finished run; the executor computes further scores."""
    where = RunFolder(Path(folder))
    about = where.read_about()
    if about.state != "complete":
        raise RunError(
            f"the run in {str(folder)!r} is not finished (its state is {about.state!r}). Resume it: {where.resume}"
        )
    where.check(about)
    run = run_in(where, RunConfig.read(where.config), about)
    run.executor = executor
    return run
