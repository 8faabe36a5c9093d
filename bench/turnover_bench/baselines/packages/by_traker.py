"""TRAK (Park et al. 2023, "TRAK: Attributing Model Behavior at Scale") by its authors' package traker."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import BaselineError
from turnover.training import TrainingRecipe

from .package_method import PackageMethod, State, tensors_of

_FEWEST_DIMENSIONS, _MOST_DIMENSIONS, _ROWS_PER_DIMENSION = 101, 512, 10


class Trak(PackageMethod):
    """TRAK over the given models; the features of the rows are computed at once, which takes most of its time.

    Self-influence is the score of each row as a target. Its projected gradient is that of the row itself, which is
    there already.

    Args:
        recipe: rows and model; TRAK explains the margin of the label, whatever the loss.
        weights: ends of several trainings.
        seed: of the projection.
        projection: dimensions of the projected gradients, 101 or more; None: a tenth of the rows, at most 512. It
            should be well below the number of rows, for the matrix that TRAK inverts is a sum over them.
    """

    package, distribution, title = "trak", "traker", "TRAK"

    def __init__(
        self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0, projection: int | None = None
    ) -> None:
        super().__init__(recipe, weights, seed=seed)
        if projection is None:
            projection = min(_MOST_DIMENSIONS, max(_FEWEST_DIMENSIONS, len(recipe) // _ROWS_PER_DIMENSION))
        if projection < _FEWEST_DIMENSIONS:
            raise BaselineError(f"`projection` must be an integer >= {_FEWEST_DIMENSIONS}, got {projection}.")
        self._projection, self._asked = projection, 0
        self._check_memory(4 * projection * self._parameters, "draws a projection that needs")
        with self._working():
            traker = self._opened()
            for number, state in enumerate(self.weights):
                traker.load_checkpoint(state, model_id=number)
                for batch in self._batches(recipe):
                    traker.featurize(batch=batch, num_samples=len(batch[1]))
            traker.finalize_features(model_ids=self._numbers)

    @property
    def _numbers(self) -> list[int]:
        return list(range(len(self.weights)))

    def _opened(self) -> Any:
        """Return a TRAKer on the features that are there; one that has made features has no projection any more."""
        from trak import TRAKer
        from trak.projectors import BasicProjector, ProjectionType

        kind: Any = ProjectionType.normal  # its values are words, its types say otherwise
        # In one block the projection is drawn once; in several, as it does by itself, anew for every batch.
        projector = BasicProjector(
            grad_dim=self._parameters,
            proj_dim=self._projection,
            seed=self._seed,
            proj_type=kind,
            device=torch.device("cpu"),
            block_size=self._projection,
        )
        return TRAKer(
            model=self._model,
            task="image_classification",
            train_set_size=len(self._recipe),
            save_dir=self.scratch,
            device="cpu",
            projector=projector,
            use_half_precision=False,
            logging_level=logging.ERROR,
        )

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        self._asked += 1
        name, traker = f"question {self._asked}", self._opened()
        for number, state in enumerate(self.weights):
            traker.start_scoring_checkpoint(name, state, number, len(queries))
            for batch in self._batches(queries):
                traker.score(batch=batch, num_samples=len(batch[1]))
        return np.array(traker.finalize_scores(name, model_ids=self._numbers))

    def _own(self) -> np.ndarray:
        """Return the score of each row as a target, as `finalize_scores` would say it."""
        products, slopes, saver = [], [], self._opened().saver
        for number in self._numbers:
            saver.load_current_store(number)
            store = saver.current_store
            products.append((store["features"] * store["grads"]).sum(1))
            slopes.append(store["out_to_loss"][:, 0])
        return np.mean(products, 0) * np.mean(slopes, 0)

    def _batches(self, rows: TrainingRecipe) -> list[tuple[Tensor, Tensor]]:
        inputs, targets = tensors_of(rows)
        return list(zip(inputs.split(self._at_once), targets.split(self._at_once), strict=True))
