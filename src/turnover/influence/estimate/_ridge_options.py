"""The options of denoising by ridge regression, and how strongly to shrink, query by query.

With the kernel's eigenvalues s and the scores' coordinates z along its eigenvectors, ridge regression of strength λ
multiplies coordinate k by s / (s + λ). Residual, degrees of freedom and likelihood are sums over coordinates, so that
three criteria for λ have a closed form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, get_args

import numpy as np
from torch import Tensor

from turnover.errors import InfluenceError
from turnover.influence.fingerprint import fingerprint_of

_FeatureFunction = Callable[[Any, Any, Any], Tensor]
Choice = Literal["gcv", "likelihood", "sure"]
FEATURES = 2048
"""How many features the primal form has unless told otherwise."""
_STRENGTHS = 121
_WEAKEST, _STRONGEST = 1e-4, 10.0
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "view": ("full", "flip"),
    "scale": ("measure", "query"),
    "choose": get_args(Choice),
    "form": ("auto", "kernel", "primal"),
}


@dataclass(frozen=True)
class RidgeOptions:
    """How scores are denoised: ridge regression of each query's scores on features of the training instances.

    To first order an instance's influence is linear in its gradient, while the noise of two instances is independent.
    So the scores of a query are fitted on gradient features, and the fit is kept. It shrinks: what the features cannot
    express is lost, and small effects become smaller.

    Attributes:
        view: see the training rows with the "full" network, or with their flipped subnetwork ("flip"). What this
            shows of a row depends on its masks, as noise does: the fit may follow it, and nulls are too narrow.
        gradients: how much the influence functions of the same layers count beside the fit; 1: as much; 0: not at all.
        scale: "measure": scores have the measure's unit; "query": those of each query are divided by the root mean
            square of its fit, so that a mean over queries is not that of the few with a large loss.
        choose: how the strength is chosen, for every query: generalized cross-validation ("gcv"), marginal
            "likelihood", or "sure", Stein's unbiased estimate with the noise that null ids show.
        form: "kernel" holds instances x instances, "primal" features x features; "auto": kernel up to 2,048 instances.
        projection: how many features the primal form has at most; above that they are projected at random. None: 2,048.
        layers: paths of the Linear layers whose gradients are the features; None: the last one that ran.
        features: a function (model, inputs, targets) -> [rows, d] to take the place of gradients.
        seed: of the projection and of the null ids' places.

    Example:
        >>> RidgeOptions(choose="gcv", projection=512).view
        'full'
    """

    view: Literal["full", "flip"] = "full"
    gradients: float = 0.0
    scale: Literal["measure", "query"] = "measure"
    choose: Choice = "sure"
    form: Literal["auto", "kernel", "primal"] = "auto"
    projection: int | None = None
    layers: tuple[str, ...] | None = None
    features: _FeatureFunction | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject what no option can be."""
        for name, allowed in _ALLOWED.items():
            given = getattr(self, name)
            if given not in allowed:
                raise InfluenceError(
                    f"Ridge({name}={given!r}) is unknown. Give one of {', '.join(map(repr, allowed))}."
                )
        if self.projection is not None and (type(self.projection) is not int or self.projection < 1):
            raise InfluenceError(
                f"Ridge(projection=) must be an integer >= 1, got {self.projection!r}. Give projection=2048."
            )
        if type(self.seed) is not int or self.seed < 0:
            raise InfluenceError(f"Ridge(seed=) must be an integer >= 0, got {self.seed!r}.")
        if type(self.gradients) not in (int, float) or not 0 <= self.gradients < inf:
            raise InfluenceError(f"Ridge(gradients=) must be a number >= 0, got {self.gradients!r}. Give gradients=1.")
        if self.features is not None and not callable(self.features):
            raise InfluenceError(
                f"Ridge(features=) must be a function, got {self.features!r}. Give features=lambda model, inputs, "
                "targets: ..., which returns [rows, d]."
            )
        if self.features is not None and self.layers is not None:
            raise InfluenceError("Ridge has layers= and features=, but features are either of them. Leave one out.")
        if self.layers is not None:
            object.__setattr__(self, "layers", (self.layers,) if isinstance(self.layers, str) else tuple(self.layers))

    @property
    def most_features(self) -> int:
        """Return how many features the primal form has at most."""
        return FEATURES if self.projection is None else self.projection

    needs_train = True
    needs_masks = True
    keeps_fit = False

    @property
    def name(self) -> str:
        """Return what `Scores.method` says."""
        return "ridge"

    def as_data(self) -> dict[str, Any]:
        """Return what identifies the estimator among the options of scores, under the name that it had in 0.1.0."""
        return {"denoise": self.options()}

    def options(self) -> dict[str, Any]:
        """Return the options as JSON data."""
        return {
            "name": "ridge",
            "view": self.view,
            "gradients": float(self.gradients),
            "scale": self.scale,
            "choose": self.choose,
            "form": self.form,
            "projection": self.most_features,
            "layers": None if self.layers is None else list(self.layers),
            "features": None if self.features is None else fingerprint_of(self.features),
            "seed": self.seed,
        }


def choose_strengths(
    how: Choice, spectrum: np.ndarray, squares: np.ndarray, total: np.ndarray, rows: int, noise: np.ndarray
) -> np.ndarray:
    """Return the strength [queries] that is best by a criterion.

    `spectrum` are eigenvalues [k]; `squares` the squared coordinates [k, queries] of the scores, `total` their sums of
    squares [queries]; `rows` how many scores a query has; `noise` the variance [queries] of a score without signal.
    """
    # From a small part of the mean eigenvalue to more than all of them.
    total_spectrum = float(spectrum.sum())
    strengths = np.geomspace(_WEAKEST * total_spectrum / rows, _STRONGEST * total_spectrum, _STRENGTHS)
    removed = strengths[:, None] / (spectrum + strengths[:, None])  # [strengths, k]
    outside = np.maximum(total - squares.sum(0), 0.0)  # what no feature can express
    freedom = (1.0 - removed).sum(1)[:, None]
    if how == "likelihood":
        tiny = np.finfo(np.float64).tiny
        costs = rows * np.log(np.maximum(removed @ squares + outside, tiny)) - np.log(removed).sum(1)[:, None]
    else:
        residual = np.square(removed) @ squares + outside
        if how == "gcv":
            costs = residual / np.square(np.maximum(rows - freedom, 1e-6 * rows))
        else:
            costs = residual + 2.0 * noise * freedom
    return strengths[costs.argmin(0)]
