"""EK-FAC influence functions (Grosse et al. 2023) by the package kronfluence."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from turnover.training import TrainingRecipe

from .package_method import PackageMethod, State, tensors_of

_FACTORS_HELD = 4  # a factor, its eigenvectors, and room for the decomposition


class KronfluenceEkfac(PackageMethod):
    """EK-FAC influence functions on one model; the factors are fitted at once.

    Args:
        recipe: rows, loss and model; layers other than Linear and Conv2d are left out.
        weights: of the trained model.
        seed: of the labels that it samples for its factors.
        damping: its `damping_factor`; None: a tenth of the mean eigenvalue.
    """

    package = distribution = "kronfluence"
    title = "EK-FAC"

    def __init__(
        self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0, damping: float | None = None
    ) -> None:
        super().__init__(recipe, weights, seed=seed)
        from kronfluence.analyzer import Analyzer, prepare_model
        from kronfluence.arguments import FactorArguments

        self._damping, self._asked = damping, 0
        sides = [side for value in self._model.parameters() if value.dim() > 1 for side in value.flatten(1).shape]
        self._check_memory(4 * _FACTORS_HELD * sum(side**2 for side in sides), "fits factors that need")
        task = kronfluence_task(losses=self._losses)
        with self._working():
            self._analyzer: Any = Analyzer(
                "task",
                model=prepare_model(self._model, task),
                task=task,
                cpu=True,
                output_dir=self.scratch,
                disable_tqdm=True,
                log_level=logging.ERROR,
            )
            self._analyzer.fit_all_factors(
                "factors",
                dataset=self._rows,
                per_device_batch_size=self._at_once,
                factor_args=FactorArguments("ekfac"),
            )

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        asked = TensorDataset(*tensors_of(queries))
        name = self._next_name()
        self._analyzer.compute_pairwise_scores(
            name, query_dataset=asked, per_device_query_batch_size=min(len(asked), self._at_once), **self._how()
        )
        return np.asarray(self._analyzer.load_pairwise_scores(name)["all_modules"].T.float())

    def _own(self) -> np.ndarray:
        name = self._next_name()
        self._analyzer.compute_self_scores(name, **self._how())
        return np.asarray(self._analyzer.load_self_scores(name)["all_modules"].float())

    def _next_name(self) -> str:
        self._asked += 1
        return f"question {self._asked}"

    def _how(self) -> dict[str, Any]:
        from kronfluence.arguments import ScoreArguments

        return {
            "factors_name": "factors",
            "train_dataset": self._rows,
            "per_device_train_batch_size": self._at_once,
            "score_args": ScoreArguments(damping_factor=self._damping),
        }


def kronfluence_task(
    tracked: list[str] | None = None, *, losses: Callable[[Tensor, Tensor], Tensor] | None = None
) -> Any:
    """Return a classification as kronfluence takes it.

    Args:
        tracked: modules whose parameters count; None: all.
        losses: of outputs and labels; None: cross-entropy.
    """
    from kronfluence.task import Task

    def summed_loss(outputs: Tensor, labels: Tensor) -> Tensor:
        return (losses or _cross_entropy)(outputs, labels).sum()

    class Classification(Task):
        def compute_train_loss(self, batch: tuple[Tensor, ...], model: nn.Module, sample: bool = False) -> Tensor:
            *inputs, labels = batch
            outputs = model(*inputs)
            if sample:
                labels = torch.multinomial(outputs.detach().softmax(1), 1).flatten()
            return summed_loss(outputs, labels)

        def compute_measurement(self, batch: tuple[Tensor, ...], model: nn.Module) -> Tensor:
            return self.compute_train_loss(batch, model)

        def get_influence_tracked_modules(self) -> list[str] | None:
            return tracked

    return Classification()


def _cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="none")
