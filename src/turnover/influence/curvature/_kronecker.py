"""The curvature of one layer as a Kronecker product (K-FAC), its damped inverse, and products of gradients with it.

With inputs a and gradients g of a layer, A is the mean of a aᵀ and S that of g gᵀ, the gradients being those of the
Fisher matrix. In their eigenvectors the damped inverse of S ⊗ A is D_ij = 1 / (σ_i α_j + λ). It is applied to the
queries, once: rows enter a score as they are, by matrix products.

- A row and a query of one position each: D is smooth, so that a few terms U_k V_kᵀ give it to `_TOLERANCE`, and a score
  is Σ_k (g_z · c_qk) (a_z · b_qk), with c and b made of the query.
- Several positions, or a small layer: the gradient of the row as a matrix, times that of the query.
- The mean over queries: their gradients are added up in the eigenvectors, and the inverse is applied to the sum.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from turnover.errors import InfluenceError
from turnover.layers import widest_float

from ._gradients import LayerRun

_TOLERANCE = 1e-3
_MOST_TERMS = 32
_VALUES_AT_ONCE = 2**22  # of products on their way to scores: 16 MiB


@dataclass(frozen=True)
class BatchSums:
    """What a batch adds to the sums of a layer, and of what: members that see the same inputs add the same."""

    inputs: Tensor
    seen: Tensor
    products: Tensor
    positions: Tensor  # of each group


class LayerSums:
    """The sums over rows that a layer's curvature is made of."""

    def __init__(self, vocabulary: int | None = None) -> None:
        """Begin with nothing; `vocabulary` is how many tokens an embedding knows, None for other layers."""
        self._vocabulary = vocabulary
        self._inputs: Tensor | None = None
        self._gradients: Tensor | None = None
        self._rows = 0
        self._positions: Tensor | None = None  # of each group

    def add(self, run: LayerRun, other: BatchSums | None = None) -> BatchSums:
        """Add some rows, differentiated for the Fisher matrix; `other` are the same rows in another member."""
        gradient, dtype = run.gradient, widest_float(run.gradient.device)
        # What has no gradient, padding for example, is not among what the weights see.
        several = gradient.shape[2] > 1
        seen = run.seen if several else torch.ones_like(gradient[..., 0], dtype=torch.bool)
        # A look at all values costs far less than their product.
        if other is not None and torch.equal(seen, other.seen) and torch.equal(run.inputs, other.inputs):
            added = other
        else:
            if self._vocabulary is not None:
                products = torch.bincount(run.inputs[seen[0]], minlength=self._vocabulary)[None]
            else:
                flat = _where_seen(run.inputs, seen)
                products = flat.transpose(1, 2) @ flat
            added = BatchSums(run.inputs, seen, products.to(dtype), seen.sum((1, 2)).to(dtype))
        self._inputs = added.products if self._inputs is None else self._inputs + added.products
        self._positions = added.positions if self._positions is None else self._positions + added.positions
        self.add_gradients(run, added)
        return added

    def add_gradients(self, run: LayerRun, added: BatchSums) -> None:
        """Add the gradients of rows whose inputs were added: another part of their Fisher matrix."""
        flat = _where_seen(run.gradient, added.seen)
        gradients = (flat.transpose(1, 2) @ flat).to(widest_float(flat.device))
        self._gradients = gradients if self._gradients is None else self._gradients + gradients
        self._rows += run.gradient.shape[1]

    def saw(self, inputs: Tensor, positions: Tensor) -> bool:
        """Tell whether these are the sums of the inputs here, and the positions they came from."""
        if self._inputs is None or self._positions is None:
            return False
        return torch.equal(self._inputs, inputs) and torch.equal(self._positions, positions)

    def __add__(self, other: "LayerSums") -> "LayerSums":
        """Return the sums over the rows of both."""
        both = LayerSums(self._vocabulary)
        both._inputs = _plus(self._inputs, other._inputs)
        both._gradients = _plus(self._gradients, other._gradients)
        both._positions = _plus(self._positions, other._positions)
        both._rows = self._rows + other._rows
        return both

    def curvature(self, name: str, first: "tuple[LayerSums, LayerCurvature] | None" = None) -> "LayerCurvature":
        """Return the curvature of all rows that were added; `name` is the layer's path, for errors.

        `first` is the same layer in another member: where both saw the same inputs, as the first layer of every
        replica does, their eigenvectors are the same, too.
        """
        assert self._inputs is not None
        assert self._gradients is not None
        assert self._positions is not None
        device = self._inputs.device
        sigma, left = _eigen(self._gradients / max(self._rows, 1), device)
        if first is not None and first[0].saw(self._inputs, self._positions):
            alpha, right = first[1].alpha, first[1].right
        else:
            positions = self._positions.clamp(min=1)
            inputs = self._inputs / positions.view(-1, *[1] * (self._inputs.dim() - 1))
            alpha, right = (inputs.cpu().double(), None) if self._vocabulary is not None else _eigen(inputs, device)
        if not bool((sigma.mean(1) * alpha.mean(1) > 0).any()):
            raise InfluenceError(
                f"the curvature of the layer {name!r} is zero: no training row has a gradient there. Every row is "
                "learned with certainty, or the layer takes no part; freeze it (requires_grad_(False)) to leave it out."
            )
        return LayerCurvature(sigma, alpha, left, right)


def _plus(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


def _where_seen(values: Tensor, seen: Tensor) -> Tensor:
    """Return values [groups, rows and positions, width], those that are not `seen` as zero or left out."""
    if bool(seen.all()):
        return values.flatten(1, 2)
    if len(values) == 1:
        return values[0][seen[0]][None]
    return (values * seen[..., None]).flatten(1, 2)


def _eigen(matrices: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return eigenvalues [groups, n], none below zero, in float64 on the CPU; eigenvectors in float32 on a device."""
    exact = matrices.cpu().double()
    values, vectors = exact.new_zeros(exact.shape[:2]), torch.eye(exact.shape[1]).repeat(len(exact), 1, 1)
    for number, matrix in enumerate(exact):
        seen = (matrix.diagonal() > 0).nonzero()[:, 0]  # units that are zero in all rows are their own eigenvectors
        part = matrix[seen][:, seen]
        try:
            values[number, seen], within = torch.linalg.eigh(part)
        except RuntimeError:  # LAPACK may give up where many eigenvalues are equal: this tells them apart
            slight = torch.linspace(0, 1e-12, len(part), dtype=part.dtype) * part.diagonal().max()
            values[number, seen], within = torch.linalg.eigh(part + torch.diag(slight))
        vectors[number, seen[:, None], seen] = within.float()
    return values.clamp(min=0), vectors.to(device)


@dataclass(frozen=True)
class LayerCurvature:
    """Eigenvalues of S and A in float64 on the CPU, and their eigenvectors."""

    sigma: Tensor  # [groups, outputs]
    alpha: Tensor  # [groups, inputs]
    left: Tensor  # of S [groups, outputs, outputs]
    right: Tensor | None  # of A [groups, inputs, inputs]; None: an embedding, whose A is diagonal

    @property
    def tokens(self) -> int | None:
        """Return how many tokens an embedding knows; None for other layers."""
        return self.alpha.shape[1] if self.right is None else None

    def rotated(self, run: LayerRun) -> "Rotated":
        inputs = run.inputs if self.right is None else _times(run.inputs, self.right)
        return Rotated(_times(run.gradient, self.left), inputs)

    def as_query(self, gradient: Tensor) -> "LayerQueries":
        """Return a gradient [groups, outputs, inputs] in the eigenvectors, with an inverse applied, as one query."""
        products = self.left @ gradient
        if self.right is None:
            tokens = torch.arange(gradient.shape[-1], device=gradient.device)
            return LayerQueries(tokens=tokens, by_token=products.transpose(1, 2))
        return LayerQueries(matrices=(products @ self.right.transpose(1, 2))[:, None])


@dataclass(frozen=True)
class Rotated:
    """Rows or queries at one layer, in the eigenvectors of its curvature."""

    gradient: Tensor  # [groups, rows, positions, outputs]
    inputs: Tensor  # [groups, rows, positions, inputs]; of an embedding the tokens [rows, positions]

    @cached_property
    def tokens(self) -> tuple[Tensor, Tensor]:
        """Return the tokens of any row of an embedding, in their order, and the gradient by token [rows, tokens, o]."""
        tokens, places = self.inputs.unique(return_inverse=True)
        gradient = self.gradient[0]
        rows, _, outputs = gradient.shape
        flat = (places + torch.arange(rows, device=places.device)[:, None] * len(tokens)).flatten()
        summed = gradient.new_zeros(rows * len(tokens), outputs).index_add_(0, flat, gradient.flatten(0, 1))
        return tokens, summed.view(rows, len(tokens), outputs)

    @cached_property
    def matrices(self) -> Tensor:
        """Return the gradient of every row as a matrix, [groups, rows, outputs, inputs]."""
        return self.gradient.transpose(2, 3) @ self.inputs

    def quadratic(self, weights: Tensor) -> Tensor:
        """Return the sum of weights [groups, outputs, inputs] times squares of the gradient, for every row."""
        if self.inputs.dim() == 2:
            tokens, by_token = self.tokens
            return (by_token.square() * weights[0][:, tokens].T).sum((1, 2))
        if self.gradient.shape[2] == 1:
            gradient, inputs = self.gradient[:, :, 0].square(), self.inputs[:, :, 0].square()
            return ((gradient @ weights) * inputs).sum((0, 2))
        return (self.matrices.square() * weights[:, None]).sum((0, 2, 3))

    def weighted_sum(self, factors: Tensor, vocabulary: int | None) -> Tensor:
        """Return the sum of all gradients, each times a factor: [groups, outputs, inputs]; inputs may be tokens."""
        gradient = self.gradient * factors[:, None, None]
        if vocabulary is None:
            return gradient.flatten(1, 2).transpose(1, 2) @ self.inputs.flatten(1, 2)
        whole = gradient.new_zeros(vocabulary, gradient.shape[-1])
        return whole.index_add_(0, self.inputs.flatten(), gradient[0].flatten(0, 1)).T[None]


@dataclass(frozen=True)
class LayerInverse:
    """The damped inverse of a layer's curvature; `damping` counts in mean eigenvalues."""

    curvature: LayerCurvature
    damping: float

    @cached_property
    def _exact(self) -> Tensor:
        """Return D [groups, outputs, inputs] in float64 on the CPU."""
        layer = self.curvature
        # Of an embedding, tokens that no row has do not count.
        count = layer.alpha.shape[1] if layer.right is not None else (layer.alpha > 0).sum(1).clamp(min=1)
        mean = (layer.sigma.mean(1) * layer.alpha.sum(1) / count).mean()  # of all groups of the layer
        return 1 / (layer.sigma[:, :, None] * layer.alpha[:, None, :] + self.damping * mean)

    @cached_property
    def diagonal(self) -> Tensor:
        """Return D [groups, outputs, inputs] where the layer is."""
        return self._exact.float().to(self.curvature.left.device)

    @cached_property
    def expected(self) -> Tensor:
        """Return D² times the curvature: with it, the squares of a query's gradient give the mean square of scores."""
        layer = self.curvature
        spectrum = layer.sigma[:, :, None] * layer.alpha[:, None, :]
        return (self._exact.square() * spectrum).float().to(layer.left.device)

    @cached_property
    def terms(self) -> tuple[Tensor, Tensor] | None:
        """Return U and V, whose products add up to D; None: D is not taken apart."""
        layer = self.curvature
        if layer.right is None:
            return None
        terms = _terms(self._exact, layer.sigma, layer.alpha)
        return (
            None if terms is None else (terms[0].float().to(layer.left.device), terms[1].float().to(layer.left.device))
        )

    @property
    def values_per_query(self) -> int:
        return self._exact.numel() if self.terms is None else self.terms[0].numel() + self.terms[1].numel()

    def applied(self, queries: Rotated, factors: Tensor) -> "LayerQueries":
        """Return queries with the inverse applied to their gradients, each times a factor."""
        left, right = self.curvature.left, self.curvature.right
        if right is None:
            tokens, by_token = queries.tokens
            products = by_token * self.diagonal[0][:, tokens].T * factors[:, None, None]
            return LayerQueries(tokens=tokens, by_token=products @ left[0].T)
        if self.terms is not None and queries.gradient.shape[2] == 1:
            gradient, inputs = queries.gradient[:, :, 0] * factors[:, None], queries.inputs[:, :, 0]
            of_gradients, of_inputs = self.terms
            vectors = (
                _times(of_gradients[:, :, None] * gradient[:, None], left.transpose(1, 2)),
                _times(of_inputs[:, :, None] * inputs[:, None], right.transpose(1, 2)),
            )
            return LayerQueries(vectors=vectors)
        products = queries.matrices * self.diagonal[:, None] * factors[:, None, None]
        return LayerQueries(matrices=left[:, None] @ products @ right[:, None].transpose(2, 3))


def _times(values: Tensor, matrices: Tensor) -> Tensor:
    """Return values [groups, m, n, i] times matrices [groups, i, j]: one product per group, not one for each m."""
    return (values.flatten(1, 2) @ matrices).unflatten(1, values.shape[1:3])


def _terms(inverse: Tensor, sigma: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return U [groups, k, outputs] and V [groups, k, inputs] with Σ_k U_k V_kᵀ close to the inverse; None: too many.

    Close where gradients and inputs are: entries count by the root of σ_i α_j.
    """
    outputs, inputs = inverse.shape[1:]
    most = min(_MOST_TERMS, outputs * inputs // (outputs + inputs))
    if most < 1:
        return None
    tiny = torch.finfo(torch.float64).tiny
    row_weights = sigma.clamp(min=1e-12 * float(sigma.max()) + tiny).sqrt()
    column_weights = alpha.clamp(min=1e-12 * float(alpha.max()) + tiny).sqrt()
    weighted = row_weights[:, :, None] * inverse * column_weights[:, None, :]
    squares, left, right = _largest(weighted, min(most + 8, outputs, inputs))
    left_out = ((weighted.square().sum((1, 2))[:, None] - squares.cumsum(1)).clamp(min=0)).sqrt()
    close = (left_out <= _TOLERANCE * weighted.square().sum((1, 2)).sqrt()[:, None]).all(0)
    if not bool(close[:most].any()):
        return None
    count = int(close[:most].int().argmax()) + 1
    return (
        (left[:, :, :count] / row_weights[:, :, None]).transpose(1, 2),
        right[:, :count] / column_weights[:, None, :],
    )


def _largest(matrices: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return squared singular values [groups, count], the largest first, left vectors, and right ones times values.

    By a random sketch with one power iteration: the values of these matrices fall so fast that it finds all that
    matter, in products alone. What it misses shows as left out, never as a wrong value.
    """
    sketch = torch.randn(matrices.shape[2], count, generator=torch.Generator().manual_seed(0), dtype=matrices.dtype)
    basis = _orthonormal(matrices @ sketch)
    # One step at a time: two would square the values, and lose those below a thousandth of the largest.
    basis = _orthonormal(matrices @ _orthonormal(matrices.transpose(1, 2) @ basis))
    small = basis.transpose(1, 2) @ matrices
    squares, vectors = torch.linalg.eigh(small @ small.transpose(1, 2))
    squares, vectors = squares.flip(1).clamp(min=0), vectors.flip(2)
    return squares, basis @ vectors, vectors.transpose(1, 2) @ small


def _orthonormal(columns: Tensor) -> Tensor:
    """Return an orthonormal basis of columns [groups, n, count]; zero for what the others hold already."""
    squares, vectors = torch.linalg.eigh(columns.transpose(1, 2) @ columns)
    known = squares > 1e-12 * squares.amax(1, keepdim=True)
    return columns @ (vectors * torch.where(known, squares, 1.0).rsqrt().masked_fill(~known, 0.0)[:, None])


@dataclass(frozen=True)
class LayerQueries:
    """Queries at one layer, ready to be multiplied with the gradients of rows; in one of three forms."""

    vectors: tuple[Tensor, Tensor] | None = None  # [groups, terms, queries, outputs] and [..., inputs]
    matrices: Tensor | None = None  # [groups, queries, outputs, inputs]
    tokens: Tensor | None = None  # those of any query, in their order
    by_token: Tensor | None = None  # [queries, tokens, outputs]

    def scores(self, run: LayerRun) -> Tensor:
        """Return the products [rows, queries] with the gradients of rows."""
        if self.by_token is not None:
            return self._scores_of_tokens(run)
        rows = run.gradient.shape[1]
        if self.vectors is not None:
            per_row = run.gradient.shape[2] * self.vectors[0].shape[:3].numel()
        else:
            per_row = run.inputs.shape[0] * run.inputs.shape[-1] * max(run.gradient.shape[2:])
        step = max(1, _VALUES_AT_ONCE // per_row)
        return torch.cat([self._scores_of_rows(run.part(start, start + step)) for start in range(0, rows, step)])

    def _scores_of_rows(self, run: LayerRun) -> Tensor:
        groups, rows, positions = run.gradient.shape[:3]
        gradient, inputs = run.gradient.flatten(1, 2), run.inputs.flatten(1, 2)
        if self.matrices is not None and self.matrices.shape[1] == 1:
            products = (gradient @ self.matrices[:, 0]).mul_(inputs)
            return products.view(groups, rows, -1).sum((0, 2))[:, None]
        if self.matrices is not None:
            gradients = run.gradient.transpose(2, 3) @ run.inputs  # [groups, rows, outputs, inputs]
            flat = gradients.transpose(0, 1).reshape(rows, -1)
            return flat @ self.matrices.transpose(0, 1).reshape(self.matrices.shape[1], -1).T
        assert self.vectors is not None
        of_gradients, of_inputs = self.vectors
        terms, queries = of_gradients.shape[1:3]
        by_gradient = gradient @ of_gradients.flatten(1, 2).transpose(1, 2)
        by_input = inputs @ of_inputs.flatten(1, 2).transpose(1, 2)
        return by_gradient.mul_(by_input).view(groups, rows, positions, terms, queries).sum((0, 2, 3))

    def _scores_of_tokens(self, run: LayerRun) -> Tensor:
        assert self.tokens is not None
        assert self.by_token is not None
        rows, positions = run.inputs.shape
        place = torch.searchsorted(self.tokens, run.inputs.contiguous()).clamp(max=len(self.tokens) - 1)
        known = self.tokens[place] == run.inputs
        if len(self.by_token) == 1:
            products = (run.gradient[0] * self.by_token[0][place]).sum(-1)
            return (products * known).sum(1, keepdim=True)
        result = run.gradient.new_zeros(rows, len(self.by_token))
        row_of = torch.arange(rows, device=result.device)[:, None].expand(rows, positions)
        for token in place[known].unique().tolist():
            here = known & (place == token)
            result.index_add_(0, row_of[here], run.gradient[0][here] @ self.by_token[:, token].T)
        return result
