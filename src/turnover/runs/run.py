"""A run: from settings to rows, inputs, a trained network and its scores, in memory and in a folder, and resumed."""

import os
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.applications import (
    FEWEST_VALIDATION,
    Examples,
    RowRecord,
    TrainingRecord,
    WrongLabels,
    chance_p_value,
    wrong_labels,
)
from turnover.errors import RunError, SavedModelError, StoreError, TurnOverWarning, WeakSignalWarning
from turnover.influence import Executor, Influence
from turnover.integrations import TextEncoder
from turnover.layers import find_root, masking_of, preferred_device
from turnover.scores import OutOfSample, Scores
from turnover.wrapping import load, save

from ._reading import read_rows
from ._splits import split_rows
from .config import RunConfig, Watch, unusable_path, unwatched
from .folder import About, RunFolder, changed_data, check_apart, digests_of
from .inputs import Inputs, fit_inputs, inputs_of_rows, read_inputs, settings_for
from .table import SPLITS, Rows, Split
from .tasks import Task, task_of
from .training import Curves, fit

_ENOUGH_FOR_CHANCE = 20  # rows; of fewer, good predictions cannot be told from lucky ones
# The mask bias is measured on so many reference examples, in runs of at most so many training rows: with more, masks
# cannot tell their labels.
_REFERENCES, _MOST_WITH_REFERENCES = 32, 20_000
_SCORES: dict[str, tuple[type[Scores] | type[OutOfSample], str]] = {
    "self_influence": (Scores, "self.npz"),
    "out_of_sample": (OutOfSample, "held_out.npz"),
    "mean_influence": (Scores, "mean.npz"),
}


class Run:
    """A run: its data, model, learning curves and scores. What is not in memory is opened when it is first used."""

    executor: Executor | None = None
    """Who computes scores; None: this process."""

    def __init__(self, folder: RunFolder, config: RunConfig, about: About) -> None:
        self.folder, self.config, self.about = folder, config, about
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

    def check_apart(self, *files: Path) -> None:
        """Raise where a file to write is data of the run, lies within or contains it, or is a file of the run."""
        for path in (self.config.data, self.config.validation_data, self.config.test_data):
            if path is not None and Path(path).exists():
                for file in files:
                    check_apart(file, Path(path))
        kept = [self.folder.path / name for name in (*self.about.files, "run.json", "marks.json")]
        own = {file.resolve() for file in (self.folder.path, *kept)}
        if taken := [file for file in files if file.resolve() in own]:
            raise RunError(f"{str(taken[0])!r} belongs to the run itself. Give another file: --out FILE.")

    # Rows and inputs

    @cached_property
    def rows(self) -> Rows:
        """Return all rows, in the order of their file."""
        return Rows.open(self.folder)

    @property
    def kind(self) -> str:
        """Return the kind of data: "text", "image" or "table"."""
        return self.rows.kind

    @cached_property
    def task(self) -> Task:
        """Return what is learned: classes or numbers."""
        return task_of(self.rows, self.config)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Return the names of the classes; none where labels are numbers."""
        return self.rows.label_names

    @property
    def splits(self) -> np.ndarray:
        """Return the split of each row, as index into SPLITS."""
        return self.rows.splits

    @cached_property
    def ids(self) -> np.ndarray:
        """Return the instance id of each row: its number, or that of its group."""
        if not self.rows.groups:
            return np.arange(len(self.rows))
        return np.unique(np.array(list(self.rows.groups), dtype=object).astype(str), return_inverse=True)[1].reshape(-1)

    @cached_property
    def preparation(self) -> Inputs:
        """Return how values become inputs."""
        return read_inputs(self.folder)

    @cached_property
    def settings(self) -> RunConfig:
        """Return the settings with the defaults in place of what was left open."""
        return settings_for(self.config, self.preparation, len(self.places("train")), self.task.most_epochs)

    @cached_property
    def x(self) -> Tensor:
        """Return the inputs of all rows."""
        return inputs_of_rows(self.preparation, self.rows, self.folder)

    @cached_property
    def y(self) -> Tensor:
        """Return the class numbers of all rows, or their standardized numbers."""
        return self.task.targets(self.rows.labels)

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
    def examples(self) -> Examples:
        """Return the rows as findings speak of them."""
        rows = self.rows
        about = rows.kind, rows.values, rows.names, self.task.labels, np.array(SPLITS)[self.splits], self.ids
        return Examples(*about, rows.groups, wrong_labels=self.wrong_labels)

    @cached_property
    def wrong_labels(self) -> WrongLabels:
        """Return how probably each training label is wrong: by the record of the training, or held-out predictions."""
        if not self.folder.record.exists():
            return self.task.labels.among(self.places("train")).beside(self.out_of_sample.probs)
        with self.folder.reading(self.folder.record):
            return wrong_labels(RowRecord.open(self.folder.record))

    # The network

    @cached_property
    def model(self) -> nn.Module:
        """Return the trained network."""
        plain = self.preparation.plain(self.settings, self.task.outputs)
        try:
            return load(self.folder.model, model=plain).eval().to(preferred_device())
        except SavedModelError as error:
            raise RunError(f"{error.problem.removesuffix('.')}. Run it again: {self.folder.again}") from error

    @cached_property
    def curves(self) -> Curves:
        """Return the learning curves."""
        with self.folder.reading(self.folder.curves):
            return Curves.read(self.folder.curves)

    @property
    def width(self) -> int:
        """Return the number of units of the last masked layer."""
        root = find_root(self.model)
        width = None if root is None else masking_of(root).learned.widths[-1]
        assert width is not None, "a trained model has masks, and knows their widths"
        return width

    def inputs(self, values: Any) -> Tensor:
        """Return the inputs of new values, a list: texts, uint8 images [height, width, channels], or rows by column."""
        return self.preparation(values)

    def predict(self, values: Any) -> np.ndarray:
        """Return the probabilities [values, classes] that the full network gives new values, or numbers [values]."""
        return self.predicted(self.inputs(values))

    def predicted(self, x: Tensor) -> np.ndarray:
        """Return the probabilities [rows, classes] that the full network gives inputs, or numbers [rows]."""
        return self.task.predicted(self.model, x)

    # Scores

    @cached_property
    def influence(self) -> Influence:
        """Return the engine for questions about predictions: about the loss at a label, or about a number itself."""
        return self._engine(self.task.measure)

    @cached_property
    def influence_on_sets(self) -> Influence:
        """Return the engine for questions about sets of predictions, each of which counts equally."""
        return self.influence if self.task.measure == "loss" else self._engine("loss")

    def _engine(self, measure: Any) -> Influence:
        asked = self.preparation.asked(self.model)
        influence = Influence(asked, train=self.train_data, measure=measure, executor=self.executor)
        influence.take_fit(self.folder.scores)
        return influence

    @property
    def mean_queries(self) -> tuple[Tensor, Tensor]:
        """Return the validation rows that mean influence is on."""
        return self.data("validation")

    @cached_property
    def raw_influence(self) -> Influence:
        """Return the engine of the original estimator, for questions about training rows themselves."""
        return Influence(self.model, train=self.train_data, estimator="tod", executor=self.executor)

    def held_out(self, rows: Any = None) -> OutOfSample:
        """Return held-out predictions of rows, by default the training rows, with mask-bias correction where cheap."""
        train = len(self.train_data[1])
        cheap = self.preparation.references and 1 < train <= _MOST_WITH_REFERENCES
        references = _REFERENCES if cheap else 0
        return self.task.held_out(self.raw_influence.out_of_sample(rows, references=references, progress=False))

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

    def _kept(self, name: str) -> Any:
        """Return scores that were computed before."""
        if name not in self._scores:
            kind, file = _SCORES[name][0], self.folder.scores / _SCORES[name][1]
            if not file.exists():
                raise RunError(
                    f"the run in {str(self.folder.path)!r} has no {name.replace('_', ' ')} yet. Compute it: "
                    f"run.score(), or {self.folder.resume}"
                )
            try:
                self._scores[name] = kind.open(file)
            except StoreError as error:
                raise RunError(f"{error} Run it again: {self.folder.again}") from error
        return self._scores[name]

    def score(self, *, watch: Watch = unwatched) -> None:
        """Compute all scores that are missing and keep them, then write the results: the run is finished."""
        with self.folder.lock():
            self.score_locked(watch=watch)

    def score_locked(self, *, watch: Watch = unwatched) -> None:
        """Do what `score` does, for a caller that has the lock of the folder."""
        compute = {
            "self_influence": lambda: self.raw_influence.self_influence(progress=False),
            "out_of_sample": self.held_out,
            "mean_influence": lambda: self.influence_on_sets.mean(self.mean_queries, progress=False),
        }
        with self.about.timed("scoring"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TurnOverWarning)
            for done, (name, computed) in enumerate(compute.items()):
                watch("scoring", done, len(compute), name.replace("_", " "))
                file = self.folder.scores / _SCORES[name][1]
                if name not in self._scores and not file.exists():
                    self._scores[name] = computed()
                    with self.folder.writing(file):
                        self._scores[name].save(file)
                    self.folder.write_about(self.about)
            with self.folder.writing(self.folder.scores):
                self.influence.keep_fit(self.folder.scores)
            self.about.files.pop("scores/factors.npz", None)  # its checksum, where it was written before
            watch("scoring", len(compute), len(compute))
        if any(isinstance(warning.message, WeakSignalWarning) for warning in caught):
            self.about.notes.append(
                "Self-influence cannot be told from noise: rows were hardly learned. Train longer, with more --epochs."
            )
        self.about.results = self._results()
        self.about.state = "complete"
        self.folder.write_about(self.about)

    def _results(self) -> dict[str, float]:
        """Return how well rows of each split are predicted, and how probably as well by chance, where they can tell."""
        results = self.task.baseline(self.train_data[1])
        for split in SPLITS[1:]:
            if len(self.places(split)):
                found = self.task.results(self.model, *self.data(split))
                results |= {f"{split}_{name}": value for name, value in found.items()}
        places = np.concatenate([self.places("validation"), self.places("test")])
        if len(places) >= _ENOUGH_FOR_CHANCE:
            predicted = self.predicted(self.x[places])
            results["chance_p_value"] = chance_p_value(predicted, self.rows.labels[places])
        return results


def open_run(folder: str | os.PathLike[str], *, executor: Executor | None = None) -> Run:
    """Return a finished run; the executor computes further scores."""
    where = RunFolder(Path(folder))
    about = where.read_about()
    if about.state != "complete":
        raise RunError(
            f"the run in {str(folder)!r} is not finished (its state is {about.state!r}). Resume it: {where.resume}"
        )
    where.check(about)
    run = Run(where, RunConfig.read(where.config), about)
    run.executor = executor
    return run


def start_run(
    config: RunConfig, out: str | os.PathLike[str], *, watch: Watch = unwatched, executor: Executor | None = None
) -> Run:
    """Read, train and score; resume what an earlier call with the same settings left.

    `watch` is called as a stage makes progress. The executor computes scores.
    """
    if problem := unusable_path(os.fspath(out)):
        raise RunError(f"the folder {problem}. Give another: --out NEW.")
    folder = RunFolder(Path(out))
    run = _begun(config, folder)
    if run is not None and run.complete and not folder.damaged(run.about):
        run.executor = executor
        return run
    with folder.lock():
        run = _begun(config, folder)  # another process may have written to it meanwhile
        if run is None:
            run = Run(folder, config, About.of_new_run())
            with run.about.timed("reading"):
                _read(run, watch)
        else:
            folder.repair(run.about, settings=config.as_toml())
        run.executor = executor
        if not folder.inputs.exists():
            with run.about.timed("features"):
                run.preparation, run.x = fit_inputs(config, run.rows, folder, watch)
        if run.about.state == "begun":
            with run.about.timed("training"):
                _train(run, watch)
            run.about.state = "trained"
            folder.write_about(run.about)
        if not run.complete:
            run.score_locked(watch=watch)
    return run


def _begun(config: RunConfig, folder: RunFolder) -> Run | None:
    """Return the run that settings began in a folder; None: there is no such folder yet."""
    if not folder.about.exists():
        if folder.is_new():
            return None
        raise RunError(f"{str(folder.path)!r} exists and is not a run. Give a new or empty folder: --out NEW.")
    run = Run(folder, config, folder.read_about())
    former = config if folder.holds_settings(run.about, config.as_toml()) else RunConfig.read(folder.config)
    changed = [
        f"{name} {_setting(name, getattr(former, name))} there, {_setting(name, value)} here"
        for name, value in config.as_dict().items()
        if former.as_dict()[name] != value
    ]
    if changed:
        raise RunError(
            f"{str(folder.path)!r} holds a run with other settings ({'; '.join(changed)}). Give another folder: "
            "--out NEW."
        )
    if files := changed_data(run.about):
        raise RunError(
            f"{' and '.join(map(repr, files))} changed since the run in {str(folder.path)!r} was made, which knows the "
            "former content only. Run on the new one in another folder: --out NEW."
        )
    return run


def _setting(name: str, value: object) -> str:
    """Return a setting as a message shows it: None, and 0 where it means so, as the default that it stands for."""
    chosen_by_data = {"hidden", "replicas", "epochs", "learning_rate"}
    return "default" if value is None or (value == 0 and name in chosen_by_data) else repr(value)


def _read(run: Run, watch: Watch) -> None:
    """Read and split the rows of a new run, and keep them."""
    config, folder, about = run.config, run.folder, run.about
    watch("reading", 0, 1)
    about.data = digests_of((config.data, config.validation_data, config.test_data))
    rows = read_rows(config, watch=watch)
    config.check_kind(rows.kind)
    if config.group is not None and not rows.groups:
        raise RunError(f"{config.data!r} has no columns, and so no groups. Leave out: --group.")
    if config.model is not None:
        _ = TextEncoder(config.model).width  # one that does not open must not leave a folder behind
    rows = rows.with_splits(split_rows(rows, config))
    run.rows = rows.with_bytes(rows.splits == 0)
    about.notes = list(run.rows.notes)
    watch("reading", 1, 1)
    run.rows.save(folder)
    folder.write(folder.config, config.as_toml())
    folder.write_about(about)


def _train(run: Run, watch: Watch) -> None:
    """Train the network and keep it, with its curves and the record of its training."""
    folder, task, settings = run.folder, run.task, run.settings
    watch("preparing the training", 0, 1)
    validation, record = run.data("validation"), None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = run.preparation.masked(settings, task.outputs).to(preferred_device())
        if task.recorded and len(validation[1]) >= FEWEST_VALIDATION:
            record = TrainingRecord(model, train=run.train_data, validation=validation)
        train = run.train_data
        how: dict[str, Any] = {"record": record, "saved": folder.training, "watch": watch}
        run.curves = fit(model, task, train, validation, settings, **how)
    with folder.writing(folder.model):
        save(model, folder.model)
    if record is not None:
        with folder.writing(folder.record):
            record.finish().save(folder.record)
    folder.write(folder.curves, run.curves.as_json())
    folder.training.unlink(missing_ok=True)
    run.model = model
