"""Influence functions of the package dattri, with the options of its own examples on MNIST.

What it has beside them is elsewhere, from the authors of the method or another package: TRAK, TracIn, Arnoldi iteration
and EK-FAC (for layers with a bias, dattri 0.3.0 mixes the bias into the rows of the weights).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from turnover.errors import BaselineError
from turnover.training import TrainingRecipe

from .package_method import PackageMethod, State, tensors_of


@dataclass(frozen=True)
class DattriSolver:
    """How dattri solves for the gradient of a query.

    Attributes:
        title: for tables.
        attributor: name of its class.
        options: those of its examples.
    """

    title: str
    attributor: str
    options: Mapping[str, Any]


DATTRI_SOLVERS = {
    "cg": DattriSolver("conjugate gradients", "IFAttributorCG", {"max_iter": 10, "regularization": 5e-3}),
    "lissa": DattriSolver("LiSSA", "IFAttributorLiSSA", {"recursion_depth": 100}),
    "datainf": DattriSolver("DataInf", "IFAttributorDataInf", {"regularization": 1e-2}),
}
LOGRA: dict[str, Any] = {"damping": 5e-3, "proj_dim": 1024}

_QUERIES_AT_ONCE = 25
_ROWS_AT_ONCE = 250


class DattriInfluenceFunctions(PackageMethod):
    """Influence functions of dattri; there is no self-influence, which would solve for every row.

    These are the steps of its `attribute`, which solves for all queries anew at every batch of rows. Of DataInf, the
    products with all gradients of rows are matrix products: seconds instead of minutes.

    Args:
        recipe: rows, loss and model.
        weights: of the trained model.
        seed: of the rows that LiSSA draws.
        solver: "cg", "lissa" or "datainf", or one with options of its own.

    Attributes:
        attributor: the object of dattri.
    """

    package = distribution = "dattri"
    title = "influence functions"
    has_self_influence = False

    def __init__(
        self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0, solver: str | DattriSolver = "cg"
    ) -> None:
        super().__init__(recipe, weights, seed=seed)
        from dattri.algorithm import influence_function

        if isinstance(solver, str) and solver not in DATTRI_SOLVERS:
            raise BaselineError(f"`solver` must be one of {', '.join(DATTRI_SOLVERS)}, got {solver!r}.")
        how = DATTRI_SOLVERS[solver] if isinstance(solver, str) else solver
        self._by_products = how.attributor == "IFAttributorDataInf"
        if self._by_products:
            self._held_bytes = 4 * len(recipe) * self._parameters
            self._check_memory(self._held_bytes, "keeps gradients of all rows, which need")
        model, losses = self._untrained(), self._losses

        def loss(weights: State, rows: tuple[Tensor, Tensor]) -> Tensor:
            outputs = torch.func.functional_call(model, weights, rows[0])
            return losses(outputs, rows[1].long()).mean()  # LiSSA hands labels on as floats

        with self._working(), torch.no_grad():
            task = _task(loss, model, self.weights[-1])
            self.attributor = getattr(influence_function, how.attributor)(task=task, **how.options)
            self.attributor.cache(DataLoader(self._rows, batch_size=len(recipe)))  # its Hessian is that of a batch

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        method = self.attributor
        solve = partial(_datainf_solved, method) if self._by_products else partial(method.transform_test_rep, 0)
        with torch.no_grad():
            solved = torch.cat(
                [solve(method.generate_test_rep(0, batch)) for batch in _batches(queries, _QUERIES_AT_ONCE)]
            )
            rows = min(_ROWS_AT_ONCE, self._at_once)
            pairs = [method.generate_train_rep(0, batch) @ solved.T for batch in _batches(self._recipe, rows)]
        return torch.cat(pairs).numpy()


def _datainf_solved(method: Any, gradients: Tensor) -> Tensor:
    """Return what the `transform_test_rep` of its DataInf says of gradients [queries, weights], as matrix products."""
    reg, solved = method.regularization, []
    parts = (method._get_layer_wise_reps(0, of) for of in (gradients, method._cached_train_reps[0]))
    for queries, rows in zip(*parts, strict=True):
        shares = queries @ rows.T / (reg + rows.square().sum(1))
        solved.append((queries - shares @ rows / len(rows)) / reg)
    return torch.cat(solved, 1)


class DattriLoGra(PackageMethod):
    """LoGra of dattri (Choe et al. 2024): projected gradients of the linear layers, empirical Fisher."""

    package = distribution = "dattri"
    title = "LoGra"

    def __init__(self, recipe: TrainingRecipe, weights: Sequence[State], *, seed: int = 0) -> None:
        super().__init__(recipe, weights, seed=seed)
        from dattri.algorithm import LoGraAttributor

        losses = self._losses
        model = nn.Sequential(_AsBatch(tuple(tensors_of(recipe)[0].shape[1:])), self._model).eval()

        def loss(model: nn.Module, batch: tuple[Tensor, Tensor], device: str) -> Tensor:
            return losses(model(batch[0]), batch[1]).mean()

        self._loader = DataLoader(self._rows, batch_size=_ROWS_AT_ONCE)
        with self._working(), torch.compiler.set_stance("force_eager"):
            task = _task(loss, model, model.state_dict())
            self._attributor = LoGraAttributor(task=task, cache_dir=self.scratch, **LOGRA)
            self._attributor.cache(self._loader)

    def _pairs(self, queries: TrainingRecipe) -> np.ndarray:
        asked = DataLoader(TensorDataset(*tensors_of(queries)), batch_size=_ROWS_AT_ONCE)
        with torch.compiler.set_stance("force_eager"):
            return self._attributor.attribute(self._loader, asked).detach().numpy()

    def _own(self) -> np.ndarray:
        with torch.compiler.set_stance("force_eager"):
            return np.asarray(self._attributor.compute_self_attribution().detach())


class _AsBatch(nn.Module):
    """Makes a single row a batch: LoGra looks at the shapes of layers with the first row alone."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, *self.shape)


def _task(loss: Callable[..., Tensor], model: nn.Module, state: State) -> Any:
    from dattri.task import AttributionTask

    return AttributionTask(loss_func=loss, model=model, checkpoints=[state])


def _batches(rows: TrainingRecipe, at_once: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Give batches as it takes them: [1, rows, ...]."""
    inputs, targets = tensors_of(rows)
    for x, y in zip(inputs.split(at_once), targets.split(at_once), strict=True):
        yield x[None], y[None]
