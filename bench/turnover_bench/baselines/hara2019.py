"""SGD-influence (Hara, Nitanda & Maehara 2019, "Data Cleansing for Models Trained with SGD").

Training is a chain of steps, so the derivative of a query's loss by the weight of a training row follows by walking the
chain back, with one Hessian-vector product per step; see `_walk_back.py`. A score is minus that derivative: to first
order the query's loss without the row minus its loss with it, the row's place in its batches staying empty.
"""

import copy
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import BaselineError
from turnover.progress import progress_bar
from turnover.scores import Scores
from turnover.storage import ArraySpec
from turnover.training import TrainingRecipe, weights_digest

from ._questions import Baseline, Cache, Question, Tile, check_unchanged
from ._sgd_recording import Recording, build_checked, first_step, place_parameters, record, reopen, trained_parameters
from ._walk_back import query_gradients, walk_back

_MOST_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 28


class SgdInfluence(Baseline):
    """Influence of training rows by walking back a recorded training; made by `train` or `open`.

    Exact to first order in the row's weight for SGD with weight decay, momentum, nesterov and any learning-rate
    schedule. It leaves out the second order, which grows with the learning rate and the number of steps walked, and
    what happens at kinks: the Hessian of a ReLU network lacks them, so that what a row did in early epochs is
    estimated badly there, and well with smooth units such as tanh. `mean` takes a single walk, `self_influence` as much
    as a query for each row.

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

    def __init__(
        self,
        recipe: TrainingRecipe,
        *,
        recording: Recording,
        at_once: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        if at_once is not None and at_once < 1:
            raise BaselineError(f"`at_once` must be an integer >= 1, or None to choose it by size, got {at_once}.")
        super().__init__(recipe, cache, identity)
        self.recipe = recipe
        self.model = build_checked(recipe, recording.seed).eval()
        self.seed = recording.seed
        self.storage_bytes = recording.parameters.nbytes
        self._recording = recording
        self._first = recording.first
        self._at_once = at_once
        self._data = recipe.data_digest()
        place_parameters(trained_parameters(recipe, self.model)[0], recording.before(len(recording.batches)))

    @classmethod
    def train(
        cls,
        recipe: TrainingRecipe,
        *,
        seed: int = 0,
        folder: str | os.PathLike[str] | None = None,
        last_epochs: int | None = None,
        at_once: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> "SgdInfluence":
        """Return the influence of a training that is run and recorded now.

        Args:
            recipe: how to train; its optimizer must be torch.optim.SGD.
            seed: of the training.
            folder: where to record, new or empty; needs zarr: pip install 'turnover[store]'. A finished recording of
                the same recipe is opened instead, an interrupted one is made anew. None: in memory.
            last_epochs: record, and walk back, only so many epochs at the end, as in the paper; None: all.
            at_once: queries that share a walk; None: what 256 MB hold, at most 64.
            cache: a folder in which the scores of finished walks are kept, one sub-folder per question, and from which
                an interrupted run resumes.
            identity: what a recipe cannot tell by itself, such as the version of your loss; needed with `cache`.
            progress: show a bar of the training; None: on a terminal.

        Raises:
            BaselineError: the optimizer is not SGD, the model has batch normalization, or the training diverged.
            StoreError: the folder holds another training.

        Example:
            >>> import torch
            >>> from functools import partial
            >>> x = torch.randn(20, 3)
            >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=2)
            >>> SgdInfluence.train(recipe, last_epochs=1).storage_bytes
            64
        """
        Cache.of(cache, identity)  # checked before the training
        recording = record(recipe, seed=seed, folder=folder, last_epochs=last_epochs, progress=progress)
        return cls(recipe, recording=recording, at_once=at_once, cache=cache, identity=identity)

    @classmethod
    def open(
        cls,
        recipe: TrainingRecipe,
        folder: str | os.PathLike[str],
        *,
        at_once: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> "SgdInfluence":
        """Return the influence of a training that `train` recorded in a folder, given the same recipe and options.

        Raises:
            BaselineError: the training was interrupted.
            StoreError: it was recorded with another recipe or other data; the message says what differs.
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
        return cls(recipe, recording=reopen(recipe, folder), at_once=at_once, cache=cache, identity=identity)

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
            steps, recorded = (len(self._recording.batches) - start for start in (first, self._recording.first))
            raise BaselineError(
                f"last({epochs}) needs {steps} steps and {recorded} were recorded. "
                f"Record again with last_epochs={epochs} or more."
            )
        other = copy.copy(self)
        other._first = first
        return other

    @property
    def steps(self) -> int:
        """How many steps are walked back."""
        return len(self._recording.batches) - self._first

    def _score(self, question: Question, progress: bool | None) -> Scores:
        """Return the scores of a question; queries that share a walk are a tile."""
        check_unchanged(self.recipe, self._data, "SgdInfluence.train(recipe)")
        lines, columns = question.shape
        spec = ArraySpec((lines, columns), "float32", (lines, min(self._queries_at_once(), columns)))
        values = np.empty(spec.shape, np.float32)

        def on_cached(tile: int) -> None:
            places = spec.region(tile)[1]
            bar.update((places.stop - places.start) * self.steps)

        def compute(tile: int) -> Tile:
            places = spec.region(tile)[1]
            starts = self._starts(question, torch.arange(places.start, places.stop))
            scores = walk_back(self.recipe, self._recording, starts, first=self._first, on_step=bar.update).numpy()
            if question.kind == "self":
                own = question.rows[places].numpy()
                return {"scores": scores[own, np.arange(len(own))][None].astype(np.float32)}
            return {"scores": scores[question.rows.numpy()].astype(np.float32)}

        with progress_bar(columns * self.steps, progress, "steps") as bar:
            tiles = self._cache.tiles(question, self._identity, {"scores": spec}, compute, on_cached=on_cached)
            for tile, arrays in enumerate(tiles):
                values[spec.region(tile)] = arrays["scores"]
        walked = f"{self.steps} of {len(self._recording.batches)} steps"
        path = f"SGD-influence (Hara et al. 2019) over {walked}"
        return question.scores(values, path=path, provenance=self._provenance())

    def _starts(self, question: Question, places: Tensor) -> Tensor:
        """Return the gradients from which some columns of a question are walked back."""
        if question.queries is None:
            return query_gradients(self.recipe, self._recording, self.recipe, question.rows[places])
        if question.kind == "pairs":
            return query_gradients(self.recipe, self._recording, question.queries, places)
        total = torch.zeros(())
        for rows in torch.arange(len(question.queries)).split(self._queries_at_once()):
            gradients = query_gradients(self.recipe, self._recording, question.queries, rows)
            total = total + gradients.sum(0) / len(question.queries)
        return total[None]

    def _queries_at_once(self) -> int:
        # Two derivatives a parameter, and as much again for each while a step is computed.
        size = 6 * self._recording.before(self._first).nbytes
        return self._at_once or max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(1, size)))

    def _identity(self) -> dict[str, Any]:
        return {
            "method": "hara2019",
            **self.recipe.description(),
            "trained": weights_digest(self.model),
            "seed": self.seed,
            "first step": self._first,
            "at_once": self._queries_at_once(),
        }

    def _provenance(self) -> dict[str, Any]:
        return {
            "method": "hara2019",
            "seed": self.seed,
            "steps": self.steps,
            "steps of the training": len(self._recording.batches),
            "epochs": self.recipe.epochs,
            "batch_size": self.recipe.batch_size,
            "rows": len(self.recipe),
            "storage_bytes": self.storage_bytes,
            "data": self._data,
        }
