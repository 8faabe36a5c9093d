"""Influence functions (Koh & Liang 2017, "Understanding Black-box Predictions via Influence Functions").

A trained model stands at the minimum of R(θ) = (1/n) Σ L(z_j, θ) + (l2/2) |θ|². Without row i, its place left empty,
the minimum of R − L(z_i)/n is where H (θ' − θ) = ∇L(z_i)/n to first order, H the Hessian of R. So a query's loss
without the row minus its loss with it is

    score(i, q) = (1/n) ∇L(q)ᵀ H⁻¹ ∇L(z_i),

positive where the row helps (their Eq. 2 is the derivative by an added weight, of the other sign and without 1/n).
"""

import copy
import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError, TurnOverWarning
from turnover.scores import Scores
from turnover.storage import ArraySpec
from turnover.training import TrainingRecipe, plain_text, weights_digest

from ._questions import Baseline, Question, Tile, check_unchanged
from .inverse_hessian import Hessian, Solve, Solver, solver_of
from .row_gradients import MEMORY, RowLosses, as_numpy, parameter_names

# Queries that are solved together; an interrupted run loses at most so many.
_QUERIES_AT_ONCE = 256


class InfluenceFunctions(Baseline):
    """Influence of training rows on a finished model, to first order in their weight.

    A score predicts the query's loss without the row minus its loss with it, as leave-one-out retraining measures it.
    The prediction is as good as two assumptions: training has reached a minimum, and near it the loss is quadratic.
    The model is copied and seen in eval mode, a wrapped model in full view.

    Args:
        recipe: the rows and loss the model was trained with.
        model: the trained model.
        solver: "cg" (conjugate gradients), "lissa" (stochastic recursion), "exact" (whole Hessian, small models), or
            an object with options of its own: `ConjugateGradients(tolerance=...)`, `Lissa(depth=..., scale=...)`.
        damping: added to the Hessian's diagonal, for models that are not at a strict minimum; it makes scores smaller.
        l2: the L2 penalty of the training, (l2/2)|θ|². It is not read from the recipe: the optimizer's weight_decay
            has to be given here.
        parameters: names or globs of parameters or modules to which the influence is restricted, such as the last
            layer; None: all trainable ones.
        memory: bytes that a block of gradients may take; a few such blocks are held at once.
        cache: a folder in which scores of up to 256 queries at a time are kept, one sub-folder per question, and from
            which an interrupted run resumes. Needs zarr: pip install 'turnover[store]'.
        identity: what a recipe cannot tell by itself, such as the version of your loss; needed with `cache`.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
        >>> sgd = partial(torch.optim.SGD, lr=0.5, weight_decay=0.1)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), optimizer=sgd, epochs=30)
        >>> koh = InfluenceFunctions(recipe, recipe.fit(), l2=0.1)
        >>> koh.pairwise((x[:4], recipe.targets[:4])).shape
        (30, 4)
        >>> bool((koh.self_influence().values > 0).all())
        True
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        model: nn.Module,
        *,
        solver: str | Solver = "cg",
        damping: float = 0.0,
        l2: float = 0.0,
        parameters: str | Sequence[str] | None = None,
        memory: int = MEMORY,
        cache: str | os.PathLike[str] | None = None,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        if damping < 0 or l2 < 0 or memory < 1:
            raise BaselineError(
                f"`damping` and `l2` must be >= 0 and `memory` >= 1, got damping={damping}, l2={l2}, memory={memory}."
            )
        super().__init__(recipe, cache, identity)
        self._solver = solver_of(solver)
        # A copy: what is kept between questions must fit the weights it was computed for.
        self._model = copy.deepcopy(model).eval()
        self._losses = RowLosses(recipe, self._model, parameter_names(self._model, parameters), memory)
        self._hessian = Hessian(self._losses, l2 + damping)
        self._options = {"damping": damping, "l2": l2}
        self._data = recipe.data_digest()
        if l2 == 0:
            _warn_of_weight_decay(recipe, self._model)

    def _score(self, question: Question, progress: bool | None) -> Scores:
        """Return the scores of a question, computed block by block."""
        check_unchanged(self._recipe, self._data, "InfluenceFunctions(recipe, model)")
        lines, columns = question.shape
        block = min(self._losses.block, _QUERIES_AT_ONCE, columns)
        spec = ArraySpec((lines, columns), "float32", (lines, block))
        arrays = {"scores": spec, "residual": ArraySpec((1, spec.tiles), "float64", (1, 1))}

        def compute(tile: int) -> Tile:
            places = spec.region(tile)[1]
            values, residual = self._block(question, torch.arange(places.start, places.stop))
            return {"scores": (values / len(self._recipe)).astype(np.float32), "residual": np.full((1, 1), residual)}

        values, worst = np.empty(spec.shape, np.float32), 0.0
        with self._hessian.shown(progress):
            for tile, arrays_of_tile in enumerate(self._cache.tiles(question, self._identity, arrays, compute)):
                values[spec.region(tile)] = arrays_of_tile["scores"]
                worst = max(worst, float(arrays_of_tile["residual"][0, 0]))
        warning = self._solver.warning_for(worst)
        if warning:
            warnings.warn(warning, TurnOverWarning, stacklevel=3)
        options = ", ".join(f"{key}={value:g}" for key, value in self._options.items())
        name = type(self._solver).__name__
        path = f"influence functions (Koh & Liang 2017), {name}, {options}, residual {worst:.1e}"
        return question.scores(values, path=path, provenance=self._provenance())

    def _block(self, question: Question, places: Tensor) -> tuple[np.ndarray, float]:
        """Return n times the scores of some columns of a question, and the residual of their solution."""
        if question.queries is None:
            gradients = self._losses.stacked(question.rows[places])
            solved, residual = self._solve(gradients)
            return as_numpy((gradients * solved).sum(1))[None], residual
        of_queries = self._losses.over(question.queries)
        # The mean needs one solution, that of the mean gradient.
        gradients = of_queries.stacked(places) if question.kind == "pairs" else of_queries.mean_gradient()[None]
        solved, residual = self._solve(gradients)
        return self._losses.products(question.rows, solved), residual

    @cached_property
    def _solve(self) -> Solve:
        return self._solver.prepare(self._hessian)

    def _provenance(self) -> dict[str, Any]:
        options = dataclasses.asdict(self._solver) if dataclasses.is_dataclass(self._solver) else {}  # pyright: ignore
        return {
            "method": "influence functions",
            "solver": {"name": type(self._solver).__name__, **options},
            **self._options,
            "parameters": self._losses.names,
            "model": weights_digest(self._model),
            "data": self._data,
        }

    def _identity(self) -> dict[str, Any]:
        return {
            **self._provenance(),
            "architecture": plain_text(self._model),
            "loss": plain_text(self._recipe.loss),
            "memory": self._losses.memory,
        }


def _warn_of_weight_decay(recipe: TrainingRecipe, model: nn.Module) -> None:
    """Say that a penalty of the training is missing from the Hessian."""
    groups = recipe.optimizer(model.parameters()).param_groups
    # Decoupled decay (AdamW) is not an L2 penalty: there is no number to give.
    decays = [group.get("weight_decay", 0) for group in groups if not group.get("decoupled_weight_decay")]
    if any(decays):
        warnings.warn(
            f"the recipe's optimizer has weight_decay={max(decays):g} and l2 is 0: the Hessian would miss the penalty. "
            f"Give l2={max(decays):g}.",
            TurnOverWarning,
            stacklevel=3,
        )
