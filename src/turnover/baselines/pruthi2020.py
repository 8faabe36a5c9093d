"""TracIn (Pruthi et al. 2020, "Estimating Training Data Influence by Tracing Gradient Descent").

At each checkpoint of a training, one plain SGD step on a row alone would lower a query's loss by about the learning
rate times the product of both gradients. TracIn is the sum of these over the checkpoints (their TracInCP):

    score(i, q) = Σ_c η_c ∇L(z_i, θ_c) · ∇L(q, θ_c)
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from turnover.errors import BaselineError
from turnover.scores import Scores
from turnover.training import TrainingRecipe

from .checkpoints import Checkpoints, Recorder, new_folder, open_folder, write_index
from .row_gradients import MEMORY, RowLosses, parameter_names
from .rows_and_queries import data_digest, ids_of, recipe_of, rows_of


class TracIn:
    """Influence of training rows by gradient products over checkpoints; `TracIn.train` makes one.

    Positive: a step on the row lowers the query's loss. The unit is the loss, of one such step at each checkpoint; a
    training visits a row more or less often and in batches, so sizes are not those of leave-one-out. The learning rate
    is that of plain SGD; what momentum or Adam make of a gradient is left out. Models are seen in eval mode, wrapped
    ones in full view.

    Args:
        recipe: the rows and loss of the training.
        checkpoints: a folder that `TracIn.train(folder=...)` wrote, or `Checkpoints` in memory.
        parameters: names or globs of parameters or modules to restrict the gradients to; None: all trainable ones.
        memory: bytes that a block of gradients may take; a few such blocks are held at once.

    Attributes:
        model: the trained model, where `TracIn.train` made this; else None.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(20, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=4)
        >>> tracin = TracIn.train(recipe, seed=1, checkpoints=3)
        >>> tracin.pairwise((x[:5], recipe.targets[:5])).shape
        (20, 5)
        >>> bool((tracin.self_influence().values > 0).all())
        True
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        *,
        checkpoints: Checkpoints | str | os.PathLike[str],
        parameters: str | Sequence[str] | None = None,
        memory: int = MEMORY,
    ) -> None:
        self.model: nn.Module | None = None
        self._recipe = recipe
        self._checkpoints = checkpoints if isinstance(checkpoints, Checkpoints) else open_folder(checkpoints)
        self._checkpoints.check(recipe)
        with torch.random.fork_rng(devices=[]):
            self._model = recipe.build().eval()
        self._names = parameter_names(self._model, parameters)
        self._memory = memory

    @classmethod
    def train(
        cls,
        recipe: TrainingRecipe,
        *,
        seed: int = 0,
        checkpoints: int = 3,
        every: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        parameters: str | Sequence[str] | None = None,
        memory: int = MEMORY,
    ) -> "TracIn":
        """Return TracIn of a training that is run now; the trained model is its `model`.

        Args:
            recipe: how to train.
            seed: of the training.
            checkpoints: how many, spread evenly; the last stands before the last step.
            every: take one every so many steps instead.
            folder: an empty folder to keep the checkpoints in; None: in memory.
            parameters: as for the class.
            memory: as for the class.
        """
        steps = _chosen(len(recipe.batches(seed)), checkpoints, every)
        recorder = Recorder(steps, None if folder is None else new_folder(folder))
        model = recipe.fit(seed=seed, on_step=recorder)
        found = Checkpoints(data_digest(recipe), recorder.items)
        if recorder.folder is not None:
            write_index(recorder.folder, found)
        made = cls(recipe, checkpoints=found, parameters=parameters, memory=memory)
        made.model = model
        return made

    def pairwise(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows, queries]: what each training row does to each query's loss.

        Args:
            queries: a tuple (inputs, targets) in the form of the recipe's.
            ids: which rows; None: all.
            progress: show a bar; None: on a terminal.
        """
        asked, rows = recipe_of(queries, self._recipe), rows_of(self._recipe, ids)
        values = np.zeros((len(rows), len(asked)))
        for losses, rates in self._at_each(progress):
            of_queries = losses.over(asked)
            for start in range(0, len(asked), losses.block):
                part = torch.arange(start, min(start + losses.block, len(asked)))
                block = torch.cat([found for _, found in of_queries.gradients(part)]) * rates
                for place, found in losses.gradients(rows):
                    values[place, start : start + len(part)] += _numpy(found @ block.T)
        return self._scores(values, rows, queries=data_digest(asked))

    def mean(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: the mean influence of each training row on a set of queries.

        Args:
            queries: as for `pairwise`.
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        asked, rows = recipe_of(queries, self._recipe), rows_of(self._recipe, ids)
        values = np.zeros(len(rows))
        for losses, rates in self._at_each(progress):
            mean = losses.over(asked).mean_gradient(torch.arange(len(asked))) * rates
            for place, found in losses.gradients(rows):
                values[place] += _numpy(found @ mean)
        return self._scores(values, rows, f"; mean of {len(asked)} queries", queries=data_digest(asked))

    def self_influence(self, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to its own loss.

        Args:
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        rows = rows_of(self._recipe, ids)
        values = np.zeros(len(rows))
        for losses, rates in self._at_each(progress):
            for place, found in losses.gradients(rows):
                values[place] += _numpy((found.square() * rates).sum(1))
        return self._scores(values, rows, "; each row on itself")

    def _at_each(self, progress: bool | None) -> Iterator[tuple[RowLosses, Tensor]]:
        """Yield the losses at each checkpoint and the learning rate of every number among the parameters."""
        hidden = None if progress is None else not progress  # tqdm's own None: shown on a terminal only
        for checkpoint in tqdm(self._checkpoints.items, unit=" checkpoints", disable=hidden):
            checkpoint.load(self._model)
            losses = RowLosses(self._recipe, self._model, self._names, self._memory)
            rates = [
                torch.full_like(value, checkpoint.rates.get(name, 0.0)).reshape(-1)
                for name, value in losses.parameters().items()
            ]
            yield losses, torch.cat(rates)

    def _scores(self, values: np.ndarray, rows: Tensor, path: str = "", **more: Any) -> Scores:
        steps = [checkpoint.step for checkpoint in self._checkpoints.items]
        return Scores(
            values,
            ids=ids_of(self._recipe)[rows.numpy()],
            path=f"TracIn (Pruthi et al. 2020), {len(steps)} checkpoint{'s' if len(steps) > 1 else ''}{path}",
            provenance={
                "method": "TracIn",
                "steps": steps,
                "rates": [sorted(set(checkpoint.rates.values())) for checkpoint in self._checkpoints.items],
                "parameters": self._names,
                "data": self._checkpoints.data,
                **more,
            },
        )


def _chosen(total: int, checkpoints: int, every: int | None) -> list[int]:
    """Return the steps before which a checkpoint is taken: the last of each of equal parts of the training."""
    if every is not None:
        if not 1 <= every <= total:
            raise BaselineError(f"every={every}: the training has {total} steps. Give a number from 1 to {total}.")
        return list(range(every - 1, total, every))
    if not 1 <= checkpoints <= total:
        raise BaselineError(
            f"checkpoints={checkpoints}: the training has {total} steps. Give a number from 1 to {total}."
        )
    return [(place + 1) * total // checkpoints - 1 for place in range(checkpoints)]


def _numpy(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()
