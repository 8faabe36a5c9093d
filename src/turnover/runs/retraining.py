"""Training a run again without some rows: its training as a recipe, and its scores checked against retraining."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from turnover.errors import ApplicationError
from turnover.evaluation import Metric, Table, View, evaluate, find_method
from turnover.layers import preferred_device
from turnover.training import TrainingRecipe

from .config import RunConfig
from .inputs import Inputs
from .run import Run


@dataclass(frozen=True)
class _BuildNetwork:
    """Builds the untrained network of a run from torch's present seed; can be sent to worker processes."""

    config: RunConfig
    inputs: Inputs
    outputs: int
    masked: bool

    def __call__(self) -> nn.Module:
        """Return the network."""
        # A recipe seeds torch before it builds; the settings would otherwise give every training the same start.
        config = replace(self.config, seed=torch.initial_seed() % 2**31)
        network = (self.inputs.masked if self.masked else self.inputs.plain)(config, self.outputs)
        return network.to(preferred_device())


def run_recipe(run: Run, *, masked: bool = False) -> TrainingRecipe:
    """Return how a run's model is trained, as a function of rows and seed; unmasked, as one would without turnover."""
    x, y, ids = run.train_data
    settings = run.settings
    return TrainingRecipe(
        _BuildNetwork(settings, run.preparation, run.task.outputs, masked),
        x,
        y,
        loss=run.task.losses,
        optimizer=partial(torch.optim.AdamW, lr=settings.learning_rate, weight_decay=settings.weight_decay),
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        ids=ids,
    )


@dataclass(frozen=True)
class RunEvaluation:
    """What is measured, and how much retraining goes into it."""

    metrics: tuple[Metric, ...] = ("lds",)  # some of "lds", "mislabels", "self"
    view: View = "plain"  # "plain" retrains the network without masks, "full" the masked one
    queries: int = 50
    subsets: int = 16  # random halves of the rows that are trained on for "lds", twice each
    truth: str | None = None  # column of true labels, for "mislabels" and "self"
    methods: tuple[str, ...] = ()  # beside the run's own scores: names of methods of other distributions
    processes: int = 1

    @property
    def trainings(self) -> int:
        """Return how many trainings it takes for all ways of scoring together."""
        of_methods = sum(find_method(name).trainings for name in self.methods)
        return of_methods + (2 * self.subsets if "lds" in self.metrics else 0)


def evaluate_run(run: Run, what: RunEvaluation, *, progress: bool = False) -> Table:
    """Return how well the scores of a run, and other methods on its rows, predict what retraining does.

    Finished trainings of the ground truth are kept in the run's folder; those of the methods are not.
    """
    wrong = known_wrong(run, what)
    methods: dict[str, Any] = {
        # Retraining measures losses, also where single predictions are asked about as numbers.
        "as the run scores": lambda: run.influence_on_sets if run.rows.numeric else run.influence,
        "original estimator": lambda: run.raw_influence,
    }
    for method in map(find_method, what.methods):
        methods[method.title] = partial(method.build, run_recipe(run), run.settings.seed)
    return evaluate(
        methods,
        run_recipe(run, masked=what.view == "full"),
        run.data("validation", most=what.queries),
        wrong=wrong,
        metrics=what.metrics,
        view=what.view,
        subsets=what.subsets,
        processes=what.processes,
        cache=run.folder.path / "evaluation" / "subset-outcomes",
        progress=progress,
    )


def known_wrong(run: Run, what: RunEvaluation) -> np.ndarray | None:
    """Return which training rows are known to have a wrong label; None: it is not known.

    Raises:
        ApplicationError: the run or its data do not allow an evaluation.
        ScoresError: there is no such method.
        MissingExtraError: the package of a method is not installed.
    """
    for name in what.methods:
        find_method(name)
    if run.rows.groups:
        raise ApplicationError(
            "this run has groups as instances, and retraining without single rows says nothing of them. Evaluate a run "
            "without --group."
        )
    truth = what.truth
    if truth is None:
        return None
    data = run.rows.data
    if truth not in data.column_names:
        known = ", ".join(map(repr, data.column_names))
        raise ApplicationError(f"there is no column {truth!r} of true labels. The columns are {known}.")
    places = run.places("train")
    try:
        return run.task.wrong(run.rows, places, data.column(truth).take(places).to_pylist())
    except (TypeError, ValueError) as error:
        raise ApplicationError(
            f"the column {truth!r} of true labels has cells that are no numbers: {error}."
        ) from error
