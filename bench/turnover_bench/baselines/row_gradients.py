"""Losses of rows as a function of a model's parameters, and the gradient of every row, a chunk of rows at a time."""

import difflib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from turnover.training import TrainingRecipe
from turnover_bench.errors import BaselineError

MEMORY = 1 << 28
_ROWS_AT_ONCE = 256
_SHOWN = 5


def parameter_names(model: nn.Module, patterns: str | Sequence[str] | None) -> list[str]:
    """Return the names of the trainable parameters that patterns choose; None: all.

    Args:
        model: whose parameters.
        patterns: names or globs of parameters, or of modules that hold them ("fc2", "encoder.*").
    """
    names = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not names:
        raise BaselineError("the model has no parameter that requires a gradient. Call model.requires_grad_(True).")
    if patterns is None:
        return names
    globs = [patterns] if isinstance(patterns, str) else list(patterns)
    problems = [
        f"{pattern!r}{_near(pattern, names)}" for pattern in globs if not any(_matches(name, pattern) for name in names)
    ]
    if problems or not globs:
        raise BaselineError(
            f"parameters= matches no trainable parameter: {', '.join(problems) or 'it is empty'}. Give names or globs "
            f"of parameters or modules; there are {', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}."
        )
    return [name for name in names if any(_matches(name, pattern) for pattern in globs)]


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def _near(pattern: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern, names, n=2, cutoff=0.5)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


class RowLosses:
    """The losses of a recipe's rows as a function of chosen parameters, flattened into one vector.

    The model is used as it is: put it into eval mode first, where a wrapped model is seen in full view.

    Args:
        recipe: the rows and their loss.
        model: the trained model.
        names: the parameters; the others stay fixed.
        memory: bytes that the gradients of one chunk of rows may take.
    """

    def __init__(self, recipe: TrainingRecipe, model: nn.Module, names: Sequence[str], memory: int = MEMORY) -> None:
        self.recipe = recipe
        self.model = model
        self.names = list(names)
        self.memory = memory
        chosen = self.parameters()
        self.size = sum(parameter.numel() for parameter in chosen.values())
        self.like = next(iter(chosen.values()))
        self._module = _Losses(recipe, model)
        self._by_vmap = True

    def over(self, recipe: TrainingRecipe) -> "RowLosses":
        """Return the losses of another recipe's rows, of the same parameters."""
        return RowLosses(recipe, self.model, self.names, self.memory)

    @property
    def block(self) -> int:
        """Return how many vectors of the parameters' size fit into the memory given."""
        return max(1, self.memory // (self.size * self.like.element_size()))

    def parameters(self) -> dict[str, Tensor]:
        """Return the chosen parameters, without their history."""
        every = dict(self.model.named_parameters())
        return {name: every[name].detach() for name in self.names}

    def losses(self, parameters: dict[str, Tensor], rows: Tensor) -> Tensor:
        """Return the losses of rows at other values of the chosen parameters."""
        # The fused kernels of attention have no second derivative and no rule for vmap.
        with sdpa_kernel(SDPBackend.MATH):
            return functional_call(
                self._module, {f"model.{name}": value for name, value in parameters.items()}, (rows,)
            )

    def gradients(self, rows: Tensor) -> Iterator[Tensor]:
        """Yield the gradients [chunk, parameters] of the rows' losses, chunk by chunk."""
        for chunk in rows.split(min(_ROWS_AT_ONCE, self.block)):
            gradients = self._gradients(chunk)
            bad = chunk[~gradients.isfinite().all(1).cpu()]
            if len(bad):
                raise BaselineError(
                    f"the gradients of {len(bad)} rows are not finite (rows {bad[:_SHOWN].tolist()}): the loss or the "
                    "weights are NaN or infinite there. Check these rows and the trained model."
                )
            yield gradients

    def stacked(self, rows: Tensor) -> Tensor:
        """Return the gradients of some rows at once, [rows, parameters]."""
        return torch.cat(list(self.gradients(rows)))

    def products(self, rows: Tensor, vectors: Tensor) -> np.ndarray:
        """Return the products of the rows' gradients with vectors [k, parameters], float64 [rows, k]."""
        return np.concatenate([as_numpy(gradients @ vectors.T) for gradients in self.gradients(rows)])

    def mean_gradient(self, rows: Tensor | None = None) -> Tensor:
        """Return the gradient of the mean loss of rows; None: of all."""
        rows = torch.arange(len(self.recipe)) if rows is None else rows
        total = torch.zeros(self.size, dtype=self.like.dtype, device=self.like.device)
        for part in rows.split(_ROWS_AT_ONCE):
            leaves = {name: value.requires_grad_() for name, value in self.parameters().items()}
            gradients = torch.autograd.grad(
                self.losses(leaves, part).sum(), list(leaves.values()), allow_unused=True, materialize_grads=True
            )
            total += torch.cat([gradient.reshape(-1) for gradient in gradients])
        return total / len(rows)

    def split(self, vectors: Tensor) -> list[Tensor]:
        """Return vectors [..., parameters] as a list of tensors in the shapes of the chosen parameters."""
        chosen = list(self.parameters().values())
        parts = vectors.split([value.numel() for value in chosen], dim=-1)
        return [
            part.reshape(*vectors.shape[:-1], *value.shape).to(value.dtype)
            for part, value in zip(parts, chosen, strict=True)
        ]

    def _gradients(self, rows: Tensor) -> Tensor:
        if self._by_vmap:
            try:
                return self._gradients_by_vmap(rows)
            except (RuntimeError, ValueError, TypeError, NotImplementedError):
                # Control flow on values, in-place writes and some recurrent layers have no vmap.
                self._by_vmap = False
        return torch.stack([self.mean_gradient(row) for row in rows.split(1)])

    def _gradients_by_vmap(self, rows: Tensor) -> Tensor:
        def loss_of(parameters: dict[str, Tensor], row: Tensor) -> Tensor:
            return self.losses(parameters, row[None])[0]

        with _no_vmap_warnings():
            gradients = vmap(grad(loss_of), in_dims=(None, 0))(self.parameters(), rows)
        return torch.cat([gradients[name].reshape(len(rows), -1) for name in self.names], dim=1).detach()


def vector_products(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], vectors: Sequence[Tensor], *, batched: bool
) -> tuple[list[Tensor], bool]:
    """Return the products of k vectors [k, ...] with the Jacobian of outputs by inputs, zeros for inputs of no part.

    Also return whether to try all vectors at once the next time: not where an operator has no rule for vmap.
    """
    count = len(vectors[0])
    if batched and count > 1:
        try:
            with _no_vmap_warnings():
                products = torch.autograd.grad(
                    outputs, inputs, vectors, retain_graph=True, allow_unused=True, is_grads_batched=True
                )
            filled = [
                value.new_zeros(count, *value.shape) if product is None else product
                for value, product in zip(inputs, products, strict=True)
            ]
            return filled, True
        except RuntimeError:  # what else is wrong shows below
            batched = False
    one_by_one = [
        torch.autograd.grad(
            outputs,
            inputs,
            [vector[place] for vector in vectors],
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        for place in range(count)
    ]
    return [torch.stack(products) for products in zip(*one_by_one, strict=True)], batched


def as_numpy(values: Tensor) -> np.ndarray:
    """Return values in float64."""
    return values.cpu().double().numpy()


@contextmanager
def _no_vmap_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


class _Losses(nn.Module):
    """A module that gives losses, so that `functional_call` can change the parameters of the model in it."""

    def __init__(self, recipe: TrainingRecipe, model: nn.Module) -> None:
        super().__init__()
        self.recipe = recipe
        self.model = model

    def forward(self, rows: Tensor) -> Tensor:
        return self.recipe.losses(self.model, rows)
