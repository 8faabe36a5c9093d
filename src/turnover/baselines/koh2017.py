"""Influence functions (Koh & Liang 2017, "Understanding Black-box Predictions via Influence Functions").

A trained model stands at the minimum of R(θ) = (1/n) Σ L(z_j, θ) + (l2/2) |θ|². Without row i, its place left empty,
the minimum of R − L(z_i)/n is where H (θ' − θ) = ∇L(z_i)/n to first order, H the Hessian of R. So a query's loss
without the row minus its loss with it is

    score(i, q) = (1/n) ∇L(q)ᵀ H⁻¹ ∇L(z_i),

positive where the row helps (their Eq. 2 is the derivative by an added weight, of the other sign and without 1/n).
"""

import copy
import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError, TurnOverWarning
from turnover.scores import Scores
from turnover.training import TrainingRecipe

from .hessian import Hessian
from .inverse_hessian import Solve, Solver, solver_of
from .row_gradients import MEMORY, RowLosses, parameter_names
from .rows_and_queries import data_digest, ids_of, recipe_of, rows_of, weights_digest


class InfluenceFunctions:
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
        l2: the L2 penalty of the training, (l2/2)|θ|². It is not read from the recipe: the optimiser's weight_decay
            has to be given here.
        parameters: names or globs of parameters or modules to which the influence is restricted, such as the last
            layer; None: all trainable ones.
        memory: bytes that a block of gradients may take; a few such blocks are held at once.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
        >>> sgd = partial(torch.optim.SGD, lr=0.5, weight_decay=0.1)
        >>> recipe = TrainingRecipe(partial(torch.nn.Linear, 3, 2), x, (x[:, 0] > 0).long(), optimiser=sgd, epochs=30)
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
    ) -> None:
        if damping < 0 or l2 < 0 or memory < 1:
            raise BaselineError(
                f"damping={damping}, l2={l2}, memory={memory}: give damping and l2 from 0, memory above."
            )
        self._recipe = recipe
        self._solver = solver_of(solver)
        # A copy: what is kept between questions must fit the weights it was computed for.
        self._model = copy.deepcopy(model).eval()
        self._losses = RowLosses(recipe, self._model, parameter_names(self._model, parameters), memory)
        self._hessian = Hessian(self._losses, l2 + damping)
        self._prepared: Solve | None = None
        self._options = {"damping": damping, "l2": l2}
        if l2 == 0:
            _warn_of_weight_decay(recipe, self._model)

    def pairwise(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows, queries]: what each training row does to each query's loss.

        Args:
            queries: a tuple (inputs, targets) in the form of the recipe's.
            ids: which rows; None: all.
            progress: show a bar; None: on a terminal.
        """
        asked, rows = recipe_of(queries, self._recipe), rows_of(self._recipe, ids)
        values = np.empty((len(rows), len(asked)), np.float32)
        residuals: list[float] = []
        with self._hessian.shown(progress):
            for place, gradients in _blocks(self._losses.over(asked), torch.arange(len(asked))):
                solved, residual = self._solve(gradients)
                residuals.append(residual)
                for part, found in self._losses.gradients(rows):
                    values[part, place] = _numpy(found @ solved.T) / len(self._recipe)
        return self._scores(values, rows, max(residuals), queries=data_digest(asked))

    def mean(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: the mean influence of each training row on a set of queries, from one solution.

        Args:
            queries: as for `pairwise`.
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        asked, rows = recipe_of(queries, self._recipe), rows_of(self._recipe, ids)
        values = np.empty(len(rows), np.float32)
        with self._hessian.shown(progress):
            solved, residual = self._solve(self._losses.over(asked).mean_gradient(torch.arange(len(asked)))[None])
            for part, found in self._losses.gradients(rows):
                values[part] = _numpy(found @ solved[0]) / len(self._recipe)
        return self._scores(values, rows, residual, f"; mean of {len(asked)} queries", queries=data_digest(asked))

    def self_influence(self, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to its own loss; a solution for every row.

        Args:
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        rows = rows_of(self._recipe, ids)
        values = np.empty(len(rows), np.float32)
        residuals: list[float] = []
        with self._hessian.shown(progress):
            for place, gradients in _blocks(self._losses, rows):
                solved, residual = self._solve(gradients)
                residuals.append(residual)
                values[place] = _numpy((gradients * solved).sum(1)) / len(self._recipe)
        return self._scores(values, rows, max(residuals), "; each row on itself")

    def _solve(self, vectors: Tensor) -> tuple[Tensor, float]:
        if self._prepared is None:
            self._prepared = self._solver.prepare(self._hessian)
        return self._prepared(vectors)

    def _scores(self, values: np.ndarray, rows: Tensor, residual: float, path: str = "", **more: Any) -> Scores:
        name = type(self._solver).__name__
        options = dataclasses.asdict(self._solver) if dataclasses.is_dataclass(self._solver) else {}  # pyright: ignore
        said = ", ".join(f"{key}={value:g}" for key, value in self._options.items())
        return Scores(
            values,
            ids=ids_of(self._recipe)[rows.numpy()],
            path=f"influence functions (Koh & Liang 2017), {name}, {said}, residual {residual:.1e}{path}",
            provenance={
                "method": "influence functions",
                "solver": {"name": name, **options},
                **self._options,
                "parameters": self._losses.names,
                "model": weights_digest(self._model),
                "data": data_digest(self._recipe),
                **more,
            },
        )


def _blocks(losses: RowLosses, rows: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield as many gradients as the memory given allows, to be solved together."""
    for start in range(0, len(rows), losses.block):
        part = rows[start : start + losses.block]
        yield slice(start, start + len(part)), torch.cat([found for _, found in losses.gradients(part)])


def _numpy(values: Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def _warn_of_weight_decay(recipe: TrainingRecipe, model: nn.Module) -> None:
    """Say that a penalty of the training is missing from the Hessian."""
    groups = recipe.optimiser(model.parameters()).param_groups
    # Decoupled decay (AdamW) is no L2 penalty: there is no number to give.
    decays = [group.get("weight_decay", 0) for group in groups if not group.get("decoupled_weight_decay")]
    if any(decays):
        warnings.warn(
            f"the recipe's optimiser has weight_decay={max(decays):g} and l2 is 0: the Hessian would miss the penalty. "
            f"Give l2={max(decays):g}.",
            TurnOverWarning,
            stacklevel=3,
        )
