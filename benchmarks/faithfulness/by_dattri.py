"""Influence functions of the package dattri, with the options of its own examples on MNIST.

What it has beside them is elsewhere in the table, from the authors of the method or another package: TRAK, TracIn,
Arnoldi iteration and EK-FAC (for layers with a bias, dattri 0.3.0 mixes the bias into the rows of the weights).
"""

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from .baselines import untrained
from .trainings import Answers, Trainings


@dataclass(frozen=True)
class Solver:
    """How it solves for the gradient of a query.

    Attributes:
        title: for the page.
        attributor: name of its class.
        options: those of its examples.
    """

    title: str
    attributor: str
    options: Mapping[str, Any]


SOLVERS = {
    "cg": Solver("conjugate gradients", "IFAttributorCG", {"max_iter": 10, "regularization": 5e-3}),
    "lissa": Solver("LiSSA", "IFAttributorLiSSA", {"recursion_depth": 100}),
    "datainf": Solver("DataInf", "IFAttributorDataInf", {"regularization": 1e-2}),
}
LOGRA: dict[str, Any] = {"damping": 5e-3, "proj_dim": 1024}

_QUERIES_AT_ONCE = 25
_ROWS_AT_ONCE = 250


def influence_functions(trainings: Trainings, *, solver: str) -> Answers:
    """Return scores of its influence functions; there is no self-influence, which would solve for every row.

    These are the steps of its `attribute`, which solves for all queries anew at every batch of rows. Of DataInf, the
    products with all gradients of rows are matrix products: seconds instead of minutes.
    """
    ready, trained = trainings.ready, trainings.plain()
    with _quiet(), torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(trainings.seed)  # LiSSA draws rows
        method = dattri_attributor(trainings, solver)
        solve = partial(datainf_solved, method) if solver == "datainf" else partial(method.transform_test_rep, 0)
        solved = torch.cat(
            [solve(method.generate_test_rep(0, batch)) for batch in _batches(ready.validation, _QUERIES_AT_ONCE)]
        )
        pairs = [
            method.generate_train_rep(0, batch) @ solved.T
            for batch in _batches((ready.inputs, ready.labels), _ROWS_AT_ONCE)
        ]
    return Answers(torch.cat(pairs).numpy(), {}, (trained,))


def datainf_solved(method: Any, gradients: Tensor) -> Tensor:
    """Return what the `transform_test_rep` of its DataInf says of gradients [queries, weights], as matrix products."""
    reg, solved = method.regularization, []
    parts = (method._get_layer_wise_reps(0, of) for of in (gradients, method._cached_train_reps[0]))
    for queries, rows in zip(*parts, strict=True):
        shares = queries @ rows.T / (reg + rows.square().sum(1))
        solved.append((queries - shares @ rows / len(rows)) / reg)
    return torch.cat(solved, 1)


def dattri_attributor(trainings: Trainings, solver: str) -> Any:
    """Return its attributor for the plain model, which knows all rows."""
    from dattri.algorithm import influence_function

    model, rows = untrained(trainings), trainings.ready.rows()

    def loss(weights: dict[str, Tensor], rows: tuple[Tensor, Tensor]) -> Tensor:
        outputs = torch.func.functional_call(model, weights, rows[0])
        return functional.cross_entropy(outputs, rows[1].long())  # LiSSA hands labels on as floats

    how, state = SOLVERS[solver], trainings.plain().states[-1]
    method = getattr(influence_function, how.attributor)(task=_task(loss, model, state), **how.options)
    method.cache(DataLoader(rows, batch_size=len(rows)))  # its Hessian is that of a batch
    return method


def logra(trainings: Trainings) -> Answers:
    """Return scores of its LoGra (Choe et al. 2024): projected gradients of the linear layers, empirical Fisher."""
    from dattri.algorithm import LoGraAttributor

    ready, trained = trainings.ready, trainings.plain()
    model = untrained(trainings)
    model.load_state_dict(trained.states[-1])
    model = nn.Sequential(_AsBatch(tuple(ready.inputs.shape[1:])), model).eval()

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor], device: str) -> Tensor:
        return functional.cross_entropy(model(batch[0]), batch[1])

    with _quiet(), torch.random.fork_rng(devices=[]), torch.compiler.set_stance("force_eager"):
        method = LoGraAttributor(task=_task(loss, model, model.state_dict()), cache_dir=trainings.scratch, **LOGRA)
        rows, queries = (
            DataLoader(data, batch_size=_ROWS_AT_ONCE) for data in (ready.rows(), TensorDataset(*ready.validation))
        )
        method.cache(rows)
        pairs, own = method.attribute(rows, queries), method.compute_self_attribution()
    return Answers(pairs.detach().numpy(), {"self": np.asarray(own.detach())}, (trained,))


class _AsBatch(nn.Module):
    """Makes a single row a batch: LoGra looks at the shapes of layers with the first row alone."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, *self.shape)


def _task(loss: Any, model: nn.Module, state: dict[str, Tensor]) -> Any:
    from dattri.task import AttributionTask

    return AttributionTask(loss_func=loss, model=model, checkpoints=[state])


def _batches(rows: tuple[Tensor, Tensor], at_once: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Give batches as it takes them: [1, rows, ...]."""
    for inputs, labels in zip(rows[0].split(at_once), rows[1].split(at_once), strict=True):
        yield inputs[None], labels[None]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide its bars and what torch says of pinned memory without a GPU."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
