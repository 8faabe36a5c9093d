"""All methods that need no more than a training recipe, by name: ours, and those of other packages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnover.training import TrainingRecipe
from turnover_bench.errors import BaselineError

from ._questions import Baseline
from .feldman2020 import FeldmanZhang
from .packages import (
    DATTRI_SOLVERS,
    CaptumArnoldi,
    CaptumSimilarity,
    CaptumTracIn,
    DattriInfluenceFunctions,
    DattriLoGra,
    KronfluenceEkfac,
    PackageMethod,
    Trak,
    check_installed,
    is_installed,
    training_weights,
)
from .pruthi2020 import TracIn

_CHECKPOINTS = 3
_MODELS = 5
_SUBSET_MODELS = 60


@dataclass(frozen=True)
class Method:
    """A method that trains what it needs.

    Attributes:
        title: for tables.
        build: from a recipe and a seed.
        trainings: how many it takes.
        package: what it imports, and the name under which that is installed; None: nothing.
    """

    title: str
    build: Callable[[TrainingRecipe, int], Baseline]
    trainings: int = 1
    package: tuple[str, str] | None = None

    def check(self) -> None:
        """Raise a MissingExtraError where its package is not installed."""
        if self.package is not None:
            check_installed(*self.package, who=self.title)

    @property
    def is_installed(self) -> bool:
        """Tell whether its package is installed."""
        return self.package is None or is_installed(self.package[0])


def trained_method(name: str, recipe: TrainingRecipe, *, seed: int = 0) -> Baseline:
    """Return a method by name, ready for questions: its models are trained, what it prepares is prepared.

    Args:
        name: one of `METHODS`.
        recipe: how to train, on which rows.
        seed: of the trainings and of what the method draws.

    Raises:
        BaselineError: there is no such method.
        MissingExtraError: its package is not installed.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(20, 3)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), epochs=4)
        >>> trained_method("tracin", recipe).pairwise((x[:5], recipe.targets[:5])).shape
        (20, 5)
    """
    return check_method(name).build(recipe, seed)


def check_method(name: str) -> Method:
    """Return a method by name, where it exists and its package is installed.

    Raises:
        BaselineError: there is no such method.
        MissingExtraError: its package is not installed.
    """
    if name not in METHODS:
        raise BaselineError(f"there is no method {name!r}. Give one of {', '.join(METHODS)}.")
    METHODS[name].check()
    return METHODS[name]


def _packaged(
    title: str, method: type[PackageMethod], *, models: int = 1, checkpoints: int = 1, **options: Any
) -> Method:
    def build(recipe: TrainingRecipe, seed: int) -> Baseline:
        check_installed(method.package, method.distribution, who=title)  # before anything is trained
        weights = training_weights(recipe, seed=seed, checkpoints=checkpoints)
        more = (training_weights(recipe, seed=seed + 1000 * number)[-1] for number in range(1, models))
        return method(recipe, [*weights, *more], seed=seed, **options)

    return Method(f"{title} ({method.distribution})", build, models, (method.package, method.distribution))


METHODS = {
    "tracin": Method("TracIn", lambda recipe, seed: TracIn.train(recipe, seed=seed, progress=False)),
    "feldman-zhang": Method(
        f"Feldman & Zhang, {_SUBSET_MODELS} models",
        lambda recipe, seed: FeldmanZhang(recipe, models=_SUBSET_MODELS, seed=seed),
        _SUBSET_MODELS,
    ),
    "captum-tracin": _packaged("TracInCP", CaptumTracIn, checkpoints=_CHECKPOINTS),
    "captum-tracin-fast": _packaged("TracInCPFast", CaptumTracIn, checkpoints=_CHECKPOINTS, fast=True),
    "captum-arnoldi": _packaged("Arnoldi influence", CaptumArnoldi),
    "captum-similarity": _packaged("cosine similarity", CaptumSimilarity),
    "trak": _packaged(f"TRAK, {_MODELS} models", Trak, models=_MODELS),
    "kronfluence-ekfac": _packaged("EK-FAC", KronfluenceEkfac),
    **{
        f"dattri-{name}": _packaged(solver.title, DattriInfluenceFunctions, solver=name)
        for name, solver in DATTRI_SOLVERS.items()
    },
    "dattri-logra": _packaged("LoGra", DattriLoGra),
}
