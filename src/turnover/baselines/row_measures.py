"""What a trained model says about rows: their losses, or how right its predictions are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError
from turnover.training import TrainingRecipe

MeasureName = Literal["loss", "probability", "accuracy"]
_PART = 1024


@dataclass(frozen=True, eq=False)
class RowMeasure:
    """A measure of rows of recipes, asked of a trained model; can be sent to a worker process.

    Attributes:
        asked: recipes, and which rows of each.
        measure: "loss", "probability" of the right label, or "accuracy".
    """

    asked: tuple[tuple[TrainingRecipe, Tensor], ...]
    measure: MeasureName = "loss"

    def __call__(self, model: nn.Module) -> np.ndarray:
        """Return the measure, [all rows asked about]."""
        return np.concatenate([self._of(model, recipe, rows) for recipe, rows in self.asked])

    def _of(self, model: nn.Module, recipe: TrainingRecipe, rows: Tensor) -> np.ndarray:
        def values(rows: Tensor) -> Tensor:
            if self.measure == "loss":
                return recipe.losses(model, rows)
            return _rightness(recipe.outputs(model, rows), recipe.targets[rows], hard=self.measure == "accuracy")

        return _in_parts(values, rows)


def all_rows(recipe: TrainingRecipe) -> tuple[TrainingRecipe, Tensor]:
    """Return a recipe with all of its rows, to be asked about."""
    return recipe, torch.arange(len(recipe))


def _in_parts(values: Callable[[Tensor], Tensor], rows: Tensor) -> np.ndarray:
    """Return the values of rows, computed some at a time so that many rows need no more memory."""
    return np.concatenate([values(part).float().cpu().numpy() for part in rows.split(_PART)])


def _rightness(outputs: Tensor, targets: Tensor, hard: bool) -> Tensor:
    """Return the probability of the right label, or 1 where it is predicted; means over tokens that have a label."""
    if targets.is_floating_point() or outputs.dim() != targets.dim() + 1:
        raise BaselineError(
            f"outputs are {list(outputs.shape)} and targets {targets.dtype} {list(targets.shape)}; measures "
            "'probability' and 'accuracy' need class scores [rows, classes] and integer targets. Use measure='loss'."
        )
    labels = targets.clamp(min=0).long()
    if hard:
        right = (outputs.argmax(-1) == labels).float()
    else:
        right = outputs.softmax(-1).gather(-1, labels[..., None]).squeeze(-1)
    right, counted = right.reshape(len(right), -1), (targets >= 0).reshape(len(right), -1)
    return (right * counted).sum(1) / counted.sum(1).clamp(min=1)
