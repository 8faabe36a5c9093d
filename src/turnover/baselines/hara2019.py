"""SGD-influence (Hara, Nitanda & Maehara 2019, "Data Cleansing for Models Trained with SGD").

Training is a chain of steps, so the derivative of a query's loss by the weight of a training row follows by walking the
chain back, with a Hessian-vector product a step; see `walk_back.py`. A score is minus that derivative: to first order
the query's loss without the row minus its loss with it, the row's place in its batches staying empty.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from turnover.errors import BaselineError
from turnover.scores import Scores
from turnover.training import TrainingRecipe
from turnover.training.recipe import Inputs

from .recorded_training import Recording, record, reopen
from .sgd_steps import built, first_step, place, trained_parameters
from .walk_back import query_gradients, walk_back

_MOST_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 28


class SgdInfluence:
    """Influence of training rows by walking back a recorded training; made by `train` or `open`.

    Exact to first order in the row's weight for SGD with weight decay, momentum, nesterov and any learning-rate
    schedule. It leaves out the second order, which grows with the learning rate and the number of steps walked, and
    what happens at kinks: the Hessian of a ReLU network lacks them, so that what a row did in early epochs is
    estimated badly there, and well with smooth units such as tanh.

    Attributes:
        recipe: how the model was trained.
        model: the trained model.
        seed: of the training.
        steps: how many steps are walked back.
        storage_bytes: what the recorded training takes, on disk or in memory.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(20, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2, batch_size=5)
        >>> influence = SgdInfluence.train(recipe, seed=1)
        >>> influence.steps
        8
        >>> influence.pairwise((x[:3], recipe.targets[:3])).shape
        (20, 3)
    """

    def __init__(self, recipe: TrainingRecipe, *, recording: Recording, at_once: int | None = None) -> None:
        if at_once is not None and at_once < 1:
            raise BaselineError(f"at_once={at_once}: give how many queries share a walk, from 1; None: chosen by size.")
        self.recipe = recipe
        self.model = built(recipe, recording.seed).eval()
        self.seed = recording.seed
        self.storage_bytes = recording.parameters.nbytes
        self._recording = recording
        self._first = recording.first
        self._at_once = at_once
        place(trained_parameters(recipe, self.model)[0], recording.before(len(recording.batches)))

    @classmethod
    def train(
        cls,
        recipe: TrainingRecipe,
        *,
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
        last_epochs: int | None = None,
        at_once: int | None = None,
    ) -> "SgdInfluence":
        """Return the influence of a training that is run and recorded now.

        Args:
            recipe: how to train; its optimiser must be torch.optim.SGD.
            seed: of the training.
            folder: where to record, new or empty; needs zarr: pip install 'turnover[store]'. A finished recording of
                the same recipe is opened instead, one that was cut off is made anew. None: in memory.
            last_epochs: record, and walk back, only so many epochs at the end, as in the paper; None: all.
            at_once: queries that share a walk; None: what 256 MB hold, at most 64.

        Raises:
            BaselineError: the optimiser is not SGD, the model has batch normalisation, or the training diverged.
            StoreMismatchError: the folder holds another training.

        Example:
            >>> import torch
            >>> from functools import partial
            >>> x = torch.randn(20, 3)
            >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
            >>> SgdInfluence.train(recipe, last_epochs=1).storage_bytes
            64
        """
        recording = record(recipe, seed=seed, folder=folder, last_epochs=last_epochs)
        return cls(recipe, recording=recording, at_once=at_once)

    @classmethod
    def open(
        cls, recipe: TrainingRecipe, folder: str | os.PathLike[str], *, at_once: int | None = None
    ) -> "SgdInfluence":
        """Return the influence of a training that `train` recorded in a folder.

        Args:
            recipe: that of the training.
            folder: of the training.
            at_once: queries that share a walk; None: what 256 MB hold, at most 64.

        Raises:
            BaselineError: the training was cut off.
            StoreMismatchError: it was recorded with another recipe or other data; the message says what differs.
            StoreDamagedError: steps are missing.

        Example:
            >>> import tempfile, torch
            >>> from functools import partial
            >>> x, folder = torch.randn(20, 3), tempfile.mkdtemp()
            >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
            >>> trained = SgdInfluence.train(recipe, folder=folder)
            >>> SgdInfluence.open(recipe, folder).steps
            2
        """
        return cls(recipe, recording=reopen(recipe, folder), at_once=at_once)

    def last(self, epochs: int) -> "SgdInfluence":
        """Return the same training, walked back over its last epochs only.

        Example:
            >>> import torch
            >>> from functools import partial
            >>> x = torch.randn(20, 3)
            >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=5)
            >>> SgdInfluence.train(recipe).last(1).steps
            1
        """
        first = first_step(self.recipe, epochs)
        if first < self._recording.first:
            kept = self.steps_recorded
            raise BaselineError(
                f"last({epochs}) needs {len(self._recording.batches) - first} steps and {kept} were recorded. "
                f"Record again with last_epochs={epochs} or more."
            )
        other = SgdInfluence(self.recipe, recording=self._recording, at_once=self._at_once)
        other._first = first
        return other

    @property
    def steps(self) -> int:
        """How many steps are walked back."""
        return len(self._recording.batches) - self._first

    @property
    def steps_recorded(self) -> int:
        """How many steps are recorded."""
        return len(self._recording.batches) - self._recording.first

    def pairwise(self, queries: tuple[Inputs, Tensor], *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return the influence of every training row on every query, [rows, queries].

        Args:
            queries: inputs, in the form of the recipe's, and targets.
            ids: instance ids to return; None: all.
            progress: show a bar; None: on a terminal.
        """
        asked = self._asked(queries)
        parts = [found for _, found in self._walks(asked, torch.arange(len(asked)), progress)]
        return self._scores(np.concatenate(parts, 1), ids, "")

    def mean(self, queries: tuple[Inputs, Tensor], *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return the influence of every training row on the mean loss of the queries, [rows], in a single walk.

        Args:
            queries: inputs, in the form of the recipe's, and targets.
            ids: instance ids to return; None: all.
            progress: show a bar; None: on a terminal.
        """
        asked = self._asked(queries)
        start = torch.zeros(())
        for rows in torch.arange(len(asked)).split(self._queries_at_once()):
            start = start + query_gradients(self.recipe, self._recording, asked, rows).sum(0) / len(asked)
        with self._bar(1, progress) as bar:
            values = walk_back(self.recipe, self._recording, start[None], first=self._first, on_step=bar.update)
        return self._scores(values[:, 0].numpy(), ids, f"; mean of {len(asked)} queries")

    def self_influence(self, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return the influence of every training row on its own loss, [rows]; as costly as a query for each row.

        Args:
            ids: instance ids to return; None: all.
            progress: show a bar; None: on a terminal.
        """
        wanted = np.ones(len(self.recipe), bool) if ids is None else np.isin(self._ids(), np.asarray(ids))
        rows = torch.from_numpy(np.flatnonzero(wanted))
        values = np.full(len(self.recipe), np.nan)
        for some, found in self._walks(self.recipe, rows, progress):
            values[some] = found[some].diagonal()
        return self._scores(values, ids, "; self-influence")

    def _walks(
        self, asked: TrainingRecipe, rows: Tensor, progress: bool | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield some of the asked rows at a time and the scores of all training rows on them."""
        with self._bar(len(rows), progress) as bar:
            for some in rows.split(self._queries_at_once()):
                starts = query_gradients(self.recipe, self._recording, asked, some)
                found = walk_back(self.recipe, self._recording, starts, first=self._first, on_step=bar.update)
                yield some.numpy(), found.numpy()

    def _asked(self, queries: tuple[Inputs, Tensor]) -> TrainingRecipe:
        """Return the queries as a recipe, which knows how to compute their losses."""
        if not isinstance(queries, tuple) or len(queries) != 2:
            raise BaselineError(f"queries are a {type(queries).__name__}; give a tuple (inputs, targets).")
        if not len(queries[1]):
            raise BaselineError("there are no queries. Give at least one row of inputs and targets.")
        return replace(self.recipe, inputs=queries[0], targets=queries[1], ids=None)

    def _queries_at_once(self) -> int:
        # Two derivatives a parameter, and as much again for each while a step is computed.
        size = 6 * self._recording.before(self._first).nbytes
        return self._at_once or max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(1, size)))

    def _bar(self, queries: int, wanted: bool | None) -> Any:
        show = sys.stderr.isatty() if wanted is None else wanted
        return tqdm(total=queries * self.steps, unit=" steps", unit_scale=True, disable=not show)

    def _ids(self) -> np.ndarray:
        return np.arange(len(self.recipe)) if self.recipe.ids is None else self.recipe.ids.cpu().numpy()

    def _scores(self, values: np.ndarray, ids: Any, what: str) -> Scores:
        provenance = {
            "method": "hara2019",
            "seed": self.seed,
            "steps": self.steps,
            "steps of the training": len(self._recording.batches),
            "epochs": self.recipe.epochs,
            "batch_size": self.recipe.batch_size,
            "rows": len(self.recipe),
            "storage_bytes": self.storage_bytes,
        }
        path = f"SGD-influence (Hara et al. 2019) over {self.steps} of {len(self._recording.batches)} steps{what}"
        scores = Scores(values.astype(np.float32), ids=self._ids(), unit="loss", path=path, provenance=provenance)
        return scores if ids is None else scores.select(ids=ids)
