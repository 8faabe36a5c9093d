"""The training of a run as a recipe, to train it again without some rows."""

import time
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from turnover.training import TrainingRecipe

from .config import RunConfig
from .inputs import Inputs
from .networks import masked_network, plain_network
from .run import Run

# Steps of a training that are measured to foretell the whole.
_MEASURED_STEPS = 10


@dataclass(frozen=True)
class BuildNetwork:
    """Builds the untrained network of a run from torch's present seed; can be sent to worker processes."""

    config: RunConfig
    inputs: Inputs
    classes: int
    masked: bool

    def __call__(self) -> nn.Module:
        """Return the network."""
        # A recipe seeds torch before it builds; the settings would otherwise give every training the same start.
        config = replace(self.config, seed=torch.initial_seed() % 2**31)
        return (masked_network if self.masked else plain_network)(config, self.inputs, self.classes)


@dataclass(frozen=True)
class RowLoss:
    """Cross-entropy of each row, rare classes weighted as in the run."""

    weights: Tensor | None

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the losses [rows]."""
        return functional.cross_entropy(outputs, targets, weight=self.weights, reduction="none")


def run_recipe(run: Run, *, masked: bool = False) -> TrainingRecipe:
    """Return how the model of a run is trained, as a function of rows and seed.

    Args:
        run: a finished run.
        masked: train the network with masks, as the run did; else the plain network, as one would without turnover.
    """
    x, y, ids = run.train_data
    settings = run.settings
    classes = len(run.label_names)
    return TrainingRecipe(
        BuildNetwork(settings, run.preparation, classes, masked),
        x,
        y,
        loss=RowLoss(run.task.loss_weights),
        optimizer=partial(torch.optim.AdamW, lr=settings.learning_rate, weight_decay=settings.weight_decay),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        ids=ids,
    )


def training_seconds(recipe: TrainingRecipe) -> float:
    """Return about how long one training takes, measured on a few of its steps."""
    some = torch.arange(min(len(recipe), _MEASURED_STEPS * recipe.batch_size))
    assert isinstance(recipe.inputs, Tensor)
    ids = None if recipe.ids is None else recipe.ids[some]
    short = replace(recipe, inputs=recipe.inputs[some], targets=recipe.targets[some], ids=ids, epochs=1)
    short.fit(seed=0)  # the first call of everything is slow
    began = time.perf_counter()
    short.fit(seed=0)
    a_step = (time.perf_counter() - began) / -(-len(some) // recipe.batch_size)
    return a_step * -(-len(recipe) // recipe.batch_size) * recipe.epochs
