"""All methods by name."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from turnover_bench.baselines import (
    DATTRI_SOLVERS,
    CaptumArnoldi,
    CaptumSimilarity,
    CaptumTracIn,
    DattriInfluenceFunctions,
    DattriLoGra,
    KronfluenceEkfac,
    PackageMethod,
    Trak,
)

from . import baselines, ours
from .config import Config
from .trainings import Answers, Trainings

_DEFAULT_DAMPING = 1e-8  # of kronfluence's ScoreArguments


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes:
        title: for the page.
        answer: trains what it needs and says what it can.
        needs: a package that must be installed; None: none.
        more_seeds: it is judged by row scores, over more seeds.
        once: too expensive for more than one seed.
    """

    title: str
    answer: Callable[[Trainings], Answers]
    needs: str | None = None
    more_seeds: bool = False
    once: bool = False

    def seeds(self, config: Config) -> tuple[int, ...]:
        """Return the seeds that are reported."""
        if self.once:
            return config.seeds[:1]
        return config.own_seeds if self.more_seeds else config.seeds

    @property
    def missing(self) -> bool:
        """Return whether its package is not installed."""
        return self.needs is not None and importlib.util.find_spec(self.needs) is None


TITLES = {
    "tod": "original estimator, one model",
    "replicas": "{r} replicas",
    "ridge": "one model, ridge",
    "control": "one model, linear control variate",
    "probability": "one model, probability instead of loss",
    "replicas_ridge": "{r} replicas, ridge",
    "replicas_control": "{r} replicas, control variate",
    "replicas_control_ridge": "{r} replicas, control variate, ridge",
    "replicas_ridge_probability": "{r} replicas, ridge, probability",
    "replicas_ridge_margin": "{r} replicas, ridge, margin",
    "replicas_ridge_flip": "{r} replicas, ridge on the flipped view",
    "replicas_ridge_gradients": "{r} replicas, ridge and influence functions",
    "replicas_ridge_gradients_margin": "{r} replicas, ridge and influence functions, margin",
    "replicas_curvature": "{r} replicas, curvature",
    "replicas_control_ridge_probability": "{r} replicas, control variate, ridge, probability",
}


def our_methods(config: Config, estimates: dict[str, ours.Ours]) -> dict[str, Method]:
    """Return estimates by turn-over dropout as methods; those that this version cannot make are skipped."""
    return {
        name: Method(
            TITLES.get(name, name).format(r=config.replicas),
            partial(_ours, how, config.replicas),
            more_seeds=name in ("tod", "replicas"),
        )
        for name, how in estimates.items()
        if ours.can(how)
    }


def baseline_methods(config: Config) -> dict[str, Method]:
    """Return the methods that are not ours."""
    return {
        "tracin": _packaged("TracInCP", CaptumTracIn),
        "tracin_fast": _packaged("TracInCPFast", CaptumTracIn, fast=True),
        "arnoldi": _packaged("Arnoldi influence", CaptumArnoldi),
        "similarity": _packaged("cosine similarity", CaptumSimilarity),
        "trak_1": _packaged("TRAK, 1 model", Trak),
        "trak_5": _packaged("TRAK, 5 models", Trak, models=5),
        "ekfac": _packaged("EK-FAC", KronfluenceEkfac, damping=_DEFAULT_DAMPING),
        "ekfac_damped": _packaged("EK-FAC, damping_factor=None", KronfluenceEkfac),
        **{
            name: _packaged(solver.title, DattriInfluenceFunctions, solver=name)
            for name, solver in DATTRI_SOLVERS.items()
        },
        "logra": _packaged("LoGra", DattriLoGra),
        "subsets": Method("Feldman & Zhang", baselines.feldman_zhang, once=True),
        "cleanlab": Method(
            f"cleanlab, {config.folds} folds",
            partial(baselines.cleanlab, folds=config.folds),
            "cleanlab",
            more_seeds=True,
        ),
        "training_loss": Method(
            f"mean training loss, {config.checkpoints} checkpoints", baselines.training_loss, more_seeds=True
        ),
        "aum": Method("AUM, every epoch", baselines.area_under_margin, more_seeds=True),
        "forgetting": Method("forgetting counts, every epoch", baselines.forgetting, more_seeds=True),
    }


def _packaged(title: str, method: type[PackageMethod], *, models: int = 1, **options: Any) -> Method:
    answer = partial(baselines.packaged, method=method, models=models, options=options)
    return Method(f"{title} ({method.distribution})", answer, method.package)


def methods(config: Config, *, default: str | None = None) -> dict[str, Method]:
    """Return all methods that are reported, by name."""
    chosen = {} if default is None else {default: ours.CANDIDATES[default]}
    return (
        our_methods(config, ours.REPORTED | chosen)
        | plain_methods()
        | own_methods(config.replicas)
        | baseline_methods(config)
    )


def plain_methods() -> dict[str, Method]:
    """Return the recommended estimator on finished models: what needs no masks."""
    return {
        f"plain_curvature_{models}": Method(
            f"curvature, {models} plain network{'s' if models > 1 else ''}, no masks",
            partial(ours.without_masks, models=models),
        )
        for models in (1, 5)
    }


def own_methods(replicas: int) -> dict[str, Method]:
    """Return row scores: losses over checkpoints by view, mask-bias correction, and heads fitted without the row."""
    views = {
        "two_views": ("flipped and full loss", (ours.FLIPPED, ours.FULL)),
        "flipped_loss": ("flipped loss", (ours.FLIPPED,)),
        "whole_loss": ("full loss", (ours.FULL,)),
    }
    over_checkpoints = {
        name: Method(
            f"{ours.REPLICAS} replicas, {what} over {ours.CHECKPOINTS} checkpoints",
            partial(ours.two_views, views=chosen),
            more_seeds=True,
        )
        for name, (what, chosen) in views.items()
    }
    corrected = f"one model, mask-bias correction by {ours.REFERENCES} reference rows"
    heads = f"{replicas} replicas, leave-one-out heads over {ours.CHECKPOINTS} checkpoints"
    record = f"{replicas} replicas, record of the training (`turnover run`'s list)"
    return over_checkpoints | {
        "record": Method(record, partial(ours.record_of_training, replicas=replicas), more_seeds=True),
        "mask_bias": Method(corrected, ours.mask_bias_corrected, more_seeds=True),
        "leave_one_out_head": Method(heads, partial(ours.leave_one_out_head, replicas=replicas), more_seeds=True),
    }


def _ours(how: ours.Ours, replicas: int, trainings: Trainings) -> Answers:
    return ours.estimate(how, trainings, replicas)
