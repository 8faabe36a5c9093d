"""Learning the labels of rows, classes or numbers: texts, images or tables."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from turnover.applications import ClassLabels, Examples, NumberFit, NumberLabels
from turnover.errors import RunError
from turnover.influence import EstimatorOption
from turnover.integrations import TextEncoder
from turnover.scores import Scores
from turnover.storage import atomic_file, read_array

from ._splits import split_rows
from .config import RunConfig, Watch
from .folder import RunFolder
from .inputs import Inputs, fit_inputs, inputs_as_json, inputs_of_rows, read_inputs
from .networks import masked_network, plain_network, settings_for
from .reading import read_rows
from .rows import SPLITS, Rows
from .training import class_weights, loss_and_accuracy, predicted_numbers

# The mask bias is measured on so many reference examples, in runs of at most so many training rows.
_REFERENCES, _MOST_WITH_REFERENCES = 32, 20_000


class LabeledRows:
    """The task of learning the labels of rows, classes or numbers. An instance is a row, or all rows of a group."""

    score_names: ClassVar[tuple[str, ...]] = ("self_influence", "out_of_sample", "mean_influence")

    def __init__(self, config: RunConfig, folder: RunFolder) -> None:
        self._config, self._folder = config, folder

    def read(self, watch: Watch) -> tuple[str, ...]:
        """Read and split the rows, and return notes on them."""
        rows = read_rows(self._config, watch=watch)
        self._config.check_kind(rows.kind)
        if self._config.group is not None and not rows.groups:
            raise RunError(f"{self._config.data!r} has no columns, and so no groups. Leave out: --group.")
        self.splits = split_rows(rows, self._config)
        self.rows = rows.with_bytes(self._is_train)
        if self.rows.kind == "text" and self._config.model is not None:
            _ = TextEncoder(self._config.model).width  # one that does not open must not leave a folder behind
        return self.rows.notes

    def keep(self) -> None:
        """Write rows and splits into the folder."""
        with self._folder.writing(), atomic_file(self._folder.splits) as file:
            np.save(file, self.splits)
        self.rows.save(self._folder)

    def prepare(self, watch: Watch) -> None:
        """Fit what turns values into inputs on the training rows and write it, unless the folder has it."""
        if not self._folder.inputs.exists():
            train = np.flatnonzero(self._is_train)
            self.preparation, self.x = fit_inputs(self._config, self.rows, train, self._folder, watch)
            self._folder.write(self._folder.inputs, inputs_as_json(self.preparation))

    @cached_property
    def rows(self) -> Rows:
        """Return all rows, in the order of their file."""
        return Rows.open(self._folder)

    @property
    def name(self) -> str:
        """Return "classification" or "regression"."""
        return "regression" if self.rows.numeric else "classification"

    @property
    def recorded(self) -> bool:
        """Tell whether a record of the training says which labels are wrong: it speaks of classes."""
        return not self.rows.numeric

    @cached_property
    def scale(self) -> NumberLabels | None:
        """Return how numbers are standardized, by the training rows; None: labels are classes."""
        return NumberLabels.of(self.rows.labels, self._is_train) if self.rows.numeric else None

    @property
    def outputs(self) -> int:
        """Return the number of outputs of the network."""
        return 1 if self.rows.numeric else len(self.label_names)

    @cached_property
    def examples(self) -> Examples:
        """Return the rows as findings speak of them."""
        rows = self.rows
        labels = self.scale or ClassLabels(rows.labels, rows.label_names)
        about = rows.kind, rows.values, rows.names, labels
        return Examples(*about, np.array(SPLITS)[self.splits], self.ids, rows.groups)

    @property
    def estimator(self) -> EstimatorOption:
        """Return the estimator of questions about predictions."""
        return "auto"

    @property
    def estimator_of_means(self) -> EstimatorOption:
        """Return the estimator of means over predictions, each of which counts equally."""
        return "auto"

    @cached_property
    def splits(self) -> np.ndarray:
        """Return the split of each row, as index into SPLITS."""
        with self._folder.reading(self._folder.splits):
            return read_array(self._folder.splits)

    @property
    def _is_train(self) -> np.ndarray:
        return self.splits == SPLITS.index("train")

    @cached_property
    def preparation(self) -> Inputs:
        """Return how values become inputs."""
        return read_inputs(self._folder)

    @cached_property
    def settings(self) -> RunConfig:
        """Return the settings with the defaults of the kind of inputs in place of what was left open."""
        train = int(self._is_train.sum())
        return settings_for(self._config, self.preparation.kind, train, numeric=self.rows.numeric)

    @property
    def kind(self) -> str:
        """Return "text", "image" or "table"."""
        return self.rows.kind

    @property
    def label_names(self) -> tuple[str, ...]:
        """Return the names of the classes; none where labels are numbers."""
        return self.rows.label_names

    @cached_property
    def ids(self) -> np.ndarray:
        """Return the instance id of each row: its number, or that of its group."""
        if not self.rows.groups:
            return np.arange(len(self.rows))
        numbers = {group: number for number, group in enumerate(sorted(set(self.rows.groups)))}
        return np.array([numbers[group] for group in self.rows.groups])

    @cached_property
    def x(self) -> Tensor:
        """Return the inputs of all rows."""
        return inputs_of_rows(self.preparation, self.rows, self._folder)

    @cached_property
    def y(self) -> Tensor:
        """Return the class numbers of all rows, or their standardized numbers."""
        return torch.from_numpy(self.rows.labels if self.scale is None else self.scale.standardized(self.rows.labels))

    @property
    def references(self) -> int:
        """Return how many reference examples the mask-bias correction takes.

        There are some where that is cheap and where the bias matters: not in passes through an encoder, and not with so
        many rows that masks cannot tell their labels.
        """
        train = int(self._is_train.sum())
        return _REFERENCES if self.preparation.kind != "tokens" and 1 < train <= _MOST_WITH_REFERENCES else 0

    def inputs(self, values: Any) -> Tensor:
        """Return the inputs of new values: texts, uint8 images [n, height, width, channels], or rows of a table."""
        return self.preparation(values)

    @property
    def loss_weights(self) -> Tensor | None:
        """Return the weights of the classes in the loss; None: all equal, or there are none."""
        if self.rows.numeric:
            return None
        train = self._is_train
        return class_weights(self.y[train], len(self.label_names)) if self._config.balance else None

    @property
    def model_folders(self) -> list[Path]:
        """Return where the trained model is kept: its replicas are one model."""
        return [self._folder.model]

    def seed_of(self, number: int) -> int:
        """Return the seed of the run."""
        return self._config.seed

    def plain_network(self) -> nn.Module:
        """Return the untrained network without masks."""
        return plain_network(self.settings, self.preparation, self.outputs)

    def masked_network(self, number: int) -> nn.Module:
        """Return the untrained network with masks."""
        return masked_network(self.settings, self.preparation, self.outputs)

    def asked_model(self, model: nn.Module) -> nn.Module:
        """Return the model as it is asked about predictions."""
        return model

    def results(self, models: Sequence[nn.Module], self_influence: Scores) -> dict[str, float]:
        """Return accuracy and loss, and the accuracy of the most frequent class; of numbers RMSE, MAE, R² and scale."""
        if self.scale is not None:
            return self._results_of_numbers(models[0], self.scale)
        results: dict[str, float] = {}
        for number, split in enumerate(SPLITS):
            places = np.flatnonzero(self.splits == number)
            if split != "train" and len(places):
                loss, accuracy = loss_and_accuracy(models[0], self.x[places], self.y[places])
                results |= {f"{split}_accuracy": accuracy, f"{split}_loss": loss}
        train = self.y[self._is_train]
        results["most_frequent_share"] = float(torch.bincount(train).max() / len(train))
        return results

    def _results_of_numbers(self, model: nn.Module, scale: NumberLabels) -> dict[str, float]:
        results = {"label_mean": scale.mean, "label_deviation": scale.deviation}
        for number, split in enumerate(SPLITS):
            places = np.flatnonzero(self.splits == number)
            if split != "train" and len(places):
                predicted = scale.restored(predicted_numbers(model, self.x[places]).numpy())
                fit = NumberFit.of(predicted, self.rows.labels[places], baseline=scale.mean)
                known = {name: value for name, value in fit.as_dict().items() if name != "rows" and value is not None}
                results |= {f"{split}_{name}": value for name, value in known.items()}
        return results
