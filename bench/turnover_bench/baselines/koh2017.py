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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import TurnOverWarning
from turnover.progress import progress_bar
from turnover.scores import Scores
from turnover.storage import ArraySpec
from turnover.training import TrainingRecipe, plain_text, weights_digest
from turnover_bench.errors import BaselineError

from ._questions import Baseline, Question, Tile, check_unchanged
from .row_gradients import MEMORY, RowLosses, as_numpy, parameter_names, vector_products

# Queries that are solved together; an interrupted run loses at most so many.
_EXACT_LIMIT = 5000
# Noise of the batches alone leaves about 0.2 where scores still agree with retraining.
_FAR = 0.5
_ROWS_AT_ONCE = 256
_VECTORS_AT_ONCE = 32
_UNIT = "Hessian products"


class Hessian:
    """The Hessian of the mean loss of all rows, plus `shift` times the identity.

    Args:
        losses: the rows and the parameters.
        shift: what is added to the diagonal: L2 penalty and damping.
    """

    def __init__(self, losses: RowLosses, shift: float) -> None:
        self.losses = losses
        self.shift = shift
        self.rows = torch.arange(len(losses.recipe))
        self.size = losses.size
        self.like = losses.like
        self._batched = True
        self._bar = progress_bar(None, False, _UNIT)

    @contextmanager
    def shown(self, progress: bool | None) -> Iterator[None]:
        """Count the products on a bar; None: on a terminal only."""
        with progress_bar(None, progress, _UNIT) as self._bar:
            yield

    def times(self, vectors: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the products [k, parameters] with vectors [k, parameters]; `rows`: of the mean loss of these only."""
        rows = self.rows if rows is None else rows
        total = torch.zeros_like(vectors)
        for part in rows.split(_ROWS_AT_ONCE):
            products = self._of_sum(vectors, part)
            if not bool(products.isfinite().all()):
                raise BaselineError(
                    f"Hessian products are not finite on rows {int(part[0])} to {int(part[-1])}: the loss has no "
                    "finite second derivative there (NaN weights, log or sqrt of zero). Check these rows and the "
                    "trained model, or choose parameters=."
                )
            total += products
        self._bar.update(len(vectors))
        return total / len(rows) + self.shift * vectors

    def _of_sum(self, vectors: Tensor, rows: Tensor) -> Tensor:
        """Return products with the Hessian of the rows' summed loss; the first derivative serves all vectors."""
        leaves = [value.requires_grad_() for value in self.losses.parameters().values()]
        named = dict(zip(self.losses.names, leaves, strict=True))
        loss = self.losses.losses(named, rows).sum()
        first = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
        # A parameter in which the loss is linear has a first derivative without a history.
        curved = [place for place, gradient in enumerate(first) if gradient.requires_grad]
        if not curved:
            return torch.zeros_like(vectors)
        outputs = [first[place] for place in curved]
        products: list[Tensor] = []
        for chunk in vectors.split(_VECTORS_AT_ONCE):
            factors = self.losses.split(chunk)
            parts, self._batched = vector_products(
                outputs, leaves, [factors[place] for place in curved], batched=self._batched
            )
            products.append(torch.cat([part.reshape(len(chunk), -1) for part in parts], dim=1).detach())
        return torch.cat(products)


# From vectors [k, parameters] to the inverse Hessian's products with them, and the largest relative residual.
Solve = Callable[[Tensor], tuple[Tensor, float]]


class Solver(Protocol):
    """A way to invert a Hessian."""

    def prepare(self, hessian: Hessian, /) -> Solve:
        """Do once what all right-hand sides share."""
        ...

    def warning_for(self, residual: float, /) -> str | None:
        """Return what to warn of where this is the largest residual, or None."""
        ...


@dataclass(frozen=True)
class ConjugateGradients:
    """Conjugate gradients on all rows, for all vectors at once.

    Args:
        tolerance: residual at which a vector is solved, as a share of the vector.
        max_iterations: at most so many products for each vector; a warning where they do not suffice.

    Example:
        >>> ConjugateGradients(tolerance=1e-3)
        ConjugateGradients(tolerance=0.001, max_iterations=1000)
    """

    tolerance: float = 1e-5
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        """Reject numbers that cannot work."""
        if not 0 < self.tolerance < 1 or self.max_iterations < 1:
            raise BaselineError(
                f"`tolerance` must be in (0, 1) and `max_iterations` >= 1, got tolerance={self.tolerance}, "
                f"max_iterations={self.max_iterations}."
            )

    def prepare(self, hessian: Hessian, /) -> Solve:
        """Return the solver of one Hessian."""
        return partial(self._solve, hessian)

    def _solve(self, hessian: Hessian, vectors: Tensor) -> tuple[Tensor, float]:
        solution = torch.zeros_like(vectors)
        residual, direction = vectors.clone(), vectors.clone()
        left = residual.square().sum(1)
        whole = left.clone()
        largest = 0.0
        for _ in range(self.max_iterations):
            at = (left > self.tolerance**2 * whole).nonzero().flatten()
            if not len(at):
                break
            along = direction[at]
            product = hessian.times(along)
            curvature = (along * product).sum(1)
            largest = _check_curvature(curvature / along.square().sum(1), largest)
            step = (left[at] / curvature)[:, None]
            solution[at] += step * along
            residual[at] -= step * product
            remaining = residual[at].square().sum(1)
            direction[at] = residual[at] + (remaining / left[at])[:, None] * along
            left[at] = remaining
        worst = _largest(torch.where(whole > 0, left / whole, left).sqrt())
        return solution, worst

    def warning_for(self, residual: float, /) -> str | None:
        """Return a warning where the iterations did not suffice."""
        if residual <= self.tolerance:
            return None
        return (
            f"conjugate gradients did not converge: after {self.max_iterations} iterations the residual is "
            f"{residual:.1e} of the gradient, above tolerance={self.tolerance:g}. Give a larger damping=, or "
            "solver=ConjugateGradients(max_iterations=..., tolerance=...)."
        )


@dataclass(frozen=True)
class Lissa:
    """The stochastic recursion h ← v + h − H h / scale over random batches (LiSSA; Koh & Liang 2017, §3).

    The recursion needs about scale / (smallest curvature) steps to settle: the larger `l2` and `damping`, the fewer.

    Args:
        depth: steps of the recursion (t).
        repeats: recursions that are averaged (r).
        batch_size: rows of a step (b).
        scale: what the Hessian is divided by, at least half its largest eigenvalue on any batch; None: twice the
            largest that power iteration finds on ten batches.
        seed: of the batches.

    Example:
        >>> Lissa(depth=500).repeats
        4
    """

    depth: int = 1000
    repeats: int = 4
    batch_size: int = 32
    scale: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject numbers that cannot work."""
        if min(self.depth, self.repeats, self.batch_size) < 1 or (self.scale is not None and self.scale <= 0):
            raise BaselineError(f"`depth`, `repeats` and `batch_size` must be >= 1, `scale` > 0 or None, got {self}.")

    def prepare(self, hessian: Hessian, /) -> Solve:
        """Return the solver of one Hessian, its scale settled."""
        return partial(self._solve, hessian, self._estimated_scale(hessian) if self.scale is None else self.scale)

    def _solve(self, hessian: Hessian, scale: float, vectors: Tensor) -> tuple[Tensor, float]:
        generator = torch.Generator().manual_seed(self.seed)
        # From v, the recursion cannot pass v · (depth + 1) unless some curvature is outside [0, 2 scale].
        bound = 10 * (self.depth + 1) * vectors.norm(dim=1)
        mean = torch.zeros_like(vectors)
        for _ in range(self.repeats):
            estimate = vectors
            for step in range(self.depth):
                estimate = vectors + estimate - hessian.times(estimate, self._batch(hessian, generator)) / scale
                if not bool((estimate.norm(dim=1) <= bound).all()):
                    raise BaselineError(
                        f"LiSSA diverges at step {step} of {self.depth}: scale={scale:.3g} is too small for some "
                        f"batch, or the Hessian is indefinite. Give solver=Lissa(scale={10 * scale:.1g}), a larger "
                        "batch_size=, or a larger damping=."
                    )
            mean += estimate / (scale * self.repeats)
        residual = (hessian.times(mean) - vectors).norm(dim=1)
        sizes = vectors.norm(dim=1)
        return mean, _largest(torch.where(sizes > 0, residual / sizes, residual))

    def warning_for(self, residual: float, /) -> str | None:
        """Return a warning where the recursion ended far from the solution."""
        if residual <= _FAR:
            return None
        return (
            f"LiSSA ended far from the solution: the residual is {residual:.1e} of the gradient. Give "
            f"solver=Lissa(depth=...) above {self.depth}, a larger batch_size= or repeats=, or a larger damping=."
        )

    def _batch(self, hessian: Hessian, generator: torch.Generator) -> Tensor:
        if self.batch_size >= len(hessian.rows):
            return hessian.rows
        return torch.randint(len(hessian.rows), (self.batch_size,), generator=generator)

    def _estimated_scale(self, hessian: Hessian) -> float:
        generator = torch.Generator().manual_seed(self.seed)
        largest = 0.0
        for _ in range(10):
            rows = self._batch(hessian, generator)
            vector = torch.randn(1, hessian.size, generator=generator).to(hessian.like)
            for _ in range(10):
                vector = hessian.times(vector / vector.norm().clamp_min(1e-30), rows)
            largest = max(largest, float(vector.norm()))
        return 2 * largest if largest > 0 else 1.0


@dataclass(frozen=True)
class Exact:
    """The whole Hessian and its Cholesky factor in float64, for a few thousand parameters.

    Example:
        >>> Exact()
        Exact()
    """

    def prepare(self, hessian: Hessian, /) -> Solve:
        """Return the solver of one Hessian, factored."""
        if hessian.size > _EXACT_LIMIT:
            raise BaselineError(
                f"solver='exact' holds a matrix of {hessian.size:,} × {hessian.size:,}; the limit is {_EXACT_LIMIT:,} "
                "parameters. Give parameters= (e.g. the last layer) or solver='cg'."
            )
        eye = torch.eye(hessian.size, dtype=hessian.like.dtype, device=hessian.like.device)
        matrix = hessian.times(eye).cpu().double()
        matrix = (matrix + matrix.T) / 2
        factor, failed = torch.linalg.cholesky_ex(matrix)
        pivots = factor.diagonal().square()
        # Below the rounding of the products a pivot is noise, and so would be the scores.
        rounding = torch.finfo(hessian.like.dtype).eps
        if bool(failed) or bool(pivots.min() <= rounding * pivots.max()):
            values = torch.linalg.eigvalsh(matrix)
            raise _indefinite(float(values[0]), float(values[-1]), "smallest eigenvalue")

        def solve(vectors: Tensor) -> tuple[Tensor, float]:
            exact = vectors.cpu().double()  # not every device has float64
            solution = torch.cholesky_solve(exact.T, factor).T
            sizes = exact.norm(dim=1).clamp_min(1e-300)
            return solution.to(vectors), _largest((solution @ matrix - exact).norm(dim=1) / sizes)

        return solve

    def warning_for(self, residual: float, /) -> str | None:
        """Return None: what cannot be factored is an error before."""
        return None


_SOLVERS: dict[str, Solver] = {"cg": ConjugateGradients(), "lissa": Lissa(), "exact": Exact()}


def solver_of(solver: str | Solver) -> Solver:
    """Return a solver by its name, or the one given."""
    if isinstance(solver, str):
        if solver not in _SOLVERS:
            names = ", ".join(map(repr, _SOLVERS))
            raise BaselineError(f"`solver` must be one of {names}, or an object, got {solver!r}.")
        return _SOLVERS[solver]
    if not (hasattr(solver, "prepare") and hasattr(solver, "warning_for")):
        raise BaselineError(
            "`solver` must be 'cg', 'lissa', 'exact', ConjugateGradients(...) or Lissa(...), got a "
            f"{type(solver).__name__}."
        )
    return solver


def _check_curvature(curvatures: Tensor, largest: float) -> float:
    """Return the largest curvature met so far; raise where one is negative, or zero up to rounding."""
    largest = max(largest, _largest(curvatures))
    smallest = float(curvatures.min())
    if not smallest > torch.finfo(curvatures.dtype).eps * largest:
        raise _indefinite(smallest, largest, "curvature along a search direction")
    return largest


def _indefinite(smallest: float, largest: float, what: str) -> BaselineError:
    enough = max(-2 * smallest, 1e-3 * abs(largest), 1e-6)
    kind = "indefinite" if smallest < -1e-6 * abs(largest) else "singular"
    return BaselineError(
        f"{kind} Hessian: its {what} is {smallest:.2e} (the largest: {largest:.2e}), so the model is not at a strict "
        f"minimum and the inverse means nothing. Give damping=, e.g. damping={enough:.1g}, and l2= if the training has "
        "weight decay; or train longer."
    )


def _largest(values: Tensor) -> float:
    return float(values.max()) if len(values) else 0.0


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
