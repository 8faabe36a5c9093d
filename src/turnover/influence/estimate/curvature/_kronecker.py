"""The curvature of one layer as a Kronecker product (K-FAC), its damped inverse, and products of gradients with it.

With inputs a and gradients g of a layer, A is the mean of a aᵀ and S that of g gᵀ, labels being drawn from what the
network itself predicts. In their eigenvectors the damped inverse of S ⊗ A is D_ij = 1 / (σ_i α_j + λ). It is applied
to the queries, once: rows enter a score as they are, by matrix products.

- A row and a query of one position each: D is smooth, so that a few terms U_k V_kᵀ give it to `_TOLERANCE`, and a score
  is Σ_k (g_z · c_qk) (a_z · b_qk), with c and b made of the query.
- Several positions, or a small layer: the gradient of the row as a matrix, times that of the query.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from turnover.errors import InfluenceError

from ._gradients import LayerRun

_TOLERANCE = 1e-3
_MOST_TERMS = 32
_SMALL_SVD = 256
_VALUES_AT_ONCE = 2**22  # of products on their way to scores: 16 MiB


def _sum_dtype(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64


class LayerSums:
    """The sums over rows that a layer's curvature is made of."""

    def __init__(self, vocabulary: int | None = None) -> None:
        """Begin with nothing; `vocabulary` is how many tokens an embedding knows, None for other layers."""
        self._vocabulary = vocabulary
        self._inputs: Tensor | None = None
        self._gradients: Tensor | None = None
        self._rows = 0
        self._positions: Tensor | None = None  # of each group

    def add(self, run: LayerRun) -> None:
        """Add some rows, differentiated at drawn labels."""
        gradient, dtype = run.gradient, _sum_dtype(run.gradient.device)
        rows, positions = gradient.shape[1:3]
        # Padding has no gradient; it is not among what the weights see.
        seen = gradient.abs().amax(-1) > 0 if positions > 1 else torch.ones_like(gradient[..., 0], dtype=torch.bool)
        if self._vocabulary is not None:
            inputs = torch.bincount(run.inputs[seen[0]], minlength=self._vocabulary).to(dtype)[None]
        else:
            flat = _where_seen(run.inputs, seen)
            inputs = (flat.transpose(1, 2) @ flat).to(dtype)
        flat = _where_seen(gradient, seen)
        gradients = (flat.transpose(1, 2) @ flat).to(dtype)
        self._inputs = inputs if self._inputs is None else self._inputs + inputs
        self._gradients = gradients if self._gradients is None else self._gradients + gradients
        counted = seen.sum((1, 2)).to(dtype)
        self._positions = counted if self._positions is None else self._positions + counted
        self._rows += rows

    def curvature(self, name: str, first: "tuple[LayerSums, LayerCurvature] | None" = None) -> "LayerCurvature":
        """Return the curvature of all rows that were added; `name` is the layer's path, for errors.

        `first` is the same layer in another member: where both saw the same inputs, as the first layer of every
        replica does, their eigenvectors are the same, too.
        """
        assert self._inputs is not None
        assert self._gradients is not None
        assert self._positions is not None
        sigma, left = _eigen(self._gradients / max(self._rows, 1))
        positions = self._positions.clamp(min=1)
        inputs = self._inputs / positions.view(-1, *[1] * (self._inputs.dim() - 1))
        if first is not None and first[0]._saw_the_same(self):
            alpha, right = first[1].alpha, first[1].right
        else:
            alpha, right = (inputs.cpu().double(), None) if self._vocabulary is not None else _eigen(inputs)
        if not bool((sigma.mean(1) * alpha.mean(1) > 0).any()):
            raise InfluenceError(
                f"the curvature of the layer {name!r} is zero: no training row has a gradient there. Every row is "
                "learned with certainty, or the layer takes no part; freeze it (requires_grad_(False)) to leave it out."
            )
        return LayerCurvature(sigma, alpha, left, right, self._inputs.device)

    def _saw_the_same(self, other: "LayerSums") -> bool:
        pairs = ((self._inputs, other._inputs), (self._positions, other._positions))
        return all(one is not None and two is not None and torch.equal(one, two) for one, two in pairs)


def _where_seen(values: Tensor, seen: Tensor) -> Tensor:
    """Return values [groups, rows and positions, width], those that are not `seen` as zero or left out."""
    if bool(seen.all()):
        return values.flatten(1, 2)
    if len(values) == 1:
        return values[0][seen[0]][None]
    return (values * seen[..., None]).flatten(1, 2)


@dataclass(frozen=True)
class LayerCurvature:
    """Eigenvalues and eigenvectors of S and A, in float64 on the CPU."""

    sigma: Tensor  # [groups, outputs]
    alpha: Tensor  # [groups, inputs]
    left: Tensor  # of S [groups, outputs, outputs]
    right: Tensor | None  # of A [groups, inputs, inputs]; None: an embedding, whose A is diagonal
    device: torch.device

    def inverse(self, damping: float) -> "LayerInverse":
        """Return the damped inverse; `damping` counts in mean eigenvalues."""
        # Of an embedding, tokens that no row has do not count.
        count = self.alpha.shape[1] if self.right is not None else (self.alpha > 0).sum(1).clamp(min=1)
        mean = (self.sigma.mean(1) * self.alpha.sum(1) / count).mean()  # of all groups of the layer
        spectrum = self.sigma[:, :, None] * self.alpha[:, None, :]
        inverse = 1 / (spectrum + damping * mean)
        terms = None if self.right is None else _terms(inverse, self.sigma, self.alpha)

        def placed(values: Tensor) -> Tensor:
            return values.float().to(self.device)

        return LayerInverse(
            inverse=placed(inverse),
            spectrum=placed(spectrum),
            left=placed(self.left),
            right=None if self.right is None else placed(self.right),
            terms=None if terms is None else (placed(terms[0]), placed(terms[1])),
        )


def _eigen(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues [groups, n], none below zero, and eigenvectors, in float64 on the CPU."""
    values, vectors = torch.linalg.eigh(matrices.cpu().double())
    return values.clamp(min=0), vectors


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
    if min(outputs, inputs) <= _SMALL_SVD:
        left, values, right = torch.linalg.svd(weighted, full_matrices=False)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            left, values, right = torch.svd_lowrank(weighted, q=most + 8, niter=6)
        right = right.transpose(1, 2)
    squares = values.square()
    left_out = ((weighted.square().sum((1, 2))[:, None] - squares.cumsum(1)).clamp(min=0)).sqrt()
    close = (left_out <= _TOLERANCE * weighted.square().sum((1, 2)).sqrt()[:, None]).all(0)
    if not bool(close[:most].any()):
        return None
    count = int(close[:most].int().argmax()) + 1
    scaled = left[:, :, :count] * values[:, None, :count]
    return (scaled / row_weights[:, :, None]).transpose(1, 2), right[:, :count] / column_weights[:, None, :]


@dataclass(frozen=True)
class LayerInverse:
    """The damped inverse of a layer's curvature, in its eigenvectors."""

    inverse: Tensor  # D [groups, outputs, inputs]
    spectrum: Tensor  # σ_i α_j [groups, outputs, inputs]
    left: Tensor  # eigenvectors of S [groups, outputs, outputs]
    right: Tensor | None  # eigenvectors of A [groups, inputs, inputs]; None: an embedding, whose A is diagonal
    terms: tuple[Tensor, Tensor] | None  # U and V; None: D is not taken apart

    @property
    def size(self) -> int:
        """Return how many parameters the layer has."""
        return self.inverse.numel()

    @property
    def tokens(self) -> int | None:
        """Return how many tokens an embedding knows; None for other layers."""
        return self.inverse.shape[-1] if self.right is None else None

    def applied(self, run: LayerRun) -> "LayerQueries":
        """Return queries with the inverse applied to their gradients."""
        if self.right is None:
            return self._applied_to_tokens(run)
        gradient, inputs = run.gradient @ self.left[:, None], run.inputs @ self.right[:, None]
        if self.terms is not None and run.positions == 1:
            gradient, inputs = gradient[:, :, 0], inputs[:, :, 0]
            weights = self.inverse.square() * self.spectrum
            squares = torch.einsum("gqi,gij,gqj->q", gradient.square(), weights, inputs.square())
            of_gradients, of_inputs = self.terms
            back = self.left[:, None].transpose(2, 3), self.right[:, None].transpose(2, 3)
            vectors = (
                (of_gradients[:, :, None] * gradient[:, None]) @ back[0],
                (of_inputs[:, :, None] * inputs[:, None]) @ back[1],
            )
            return LayerQueries(squares, vectors=vectors)
        products = gradient.transpose(2, 3) @ inputs * self.inverse[:, None]  # [groups, queries, outputs, inputs]
        squares = (products.square() * self.spectrum[:, None]).sum((0, 2, 3))
        matrices = self.left[:, None] @ products @ self.right[:, None].transpose(2, 3)
        return LayerQueries(squares, matrices=matrices)

    def _applied_to_tokens(self, run: LayerRun) -> "LayerQueries":
        tokens, places = run.inputs.unique(return_inverse=True)
        gradient = run.gradient[0] @ self.left[0]
        queries = len(gradient)
        summed = gradient.new_zeros(queries, len(tokens), gradient.shape[-1])
        for query in range(queries):
            summed[query].index_add_(0, places[query], gradient[query])
        products = summed * self.inverse[0][:, tokens].T
        squares = (products.square() * self.spectrum[0][:, tokens].T).sum((1, 2))
        return LayerQueries(squares, tokens=tokens, by_token=products @ self.left[0].T)


@dataclass(frozen=True)
class LayerQueries:
    """Queries at one layer, ready to be multiplied with the gradients of rows; in one of three forms."""

    squares: Tensor  # mean square that a score should have by the curvature [queries]
    vectors: tuple[Tensor, Tensor] | None = None  # [groups, terms, queries, outputs] and [..., inputs]
    matrices: Tensor | None = None  # [groups, queries, outputs, inputs]
    tokens: Tensor | None = None  # those of any query, in their order
    by_token: Tensor | None = None  # [queries, tokens, outputs]

    def scaled(self, factors: Tensor) -> "LayerQueries":
        """Return the queries, each multiplied by a factor [queries]."""
        return LayerQueries(
            self.squares * factors.square(),
            vectors=None if self.vectors is None else (self.vectors[0] * factors[:, None], self.vectors[1]),
            matrices=None if self.matrices is None else self.matrices * factors[:, None, None],
            tokens=self.tokens,
            by_token=None if self.by_token is None else self.by_token * factors[:, None, None],
        )

    def summed(self, vocabulary: int | None) -> "LayerQueries":
        """Return all queries added up, as one; of an embedding over its whole `vocabulary`."""
        squares = self.squares.sum()[None]
        if self.by_token is not None:
            assert vocabulary is not None
            whole = self.by_token.new_zeros(1, vocabulary, self.by_token.shape[-1])
            whole[0, self.tokens] = self.by_token.sum(0)
            return LayerQueries(squares, tokens=torch.arange(vocabulary, device=whole.device), by_token=whole)
        if self.matrices is not None:
            return LayerQueries(squares, matrices=self.matrices.sum(1, keepdim=True))
        assert self.vectors is not None
        of_gradients, of_inputs = (part.flatten(1, 2) for part in self.vectors)
        return LayerQueries(squares, matrices=(of_gradients.transpose(1, 2) @ of_inputs)[:, None])

    def plus(self, other: "LayerQueries") -> "LayerQueries":
        """Return the sum of two that are `summed`."""
        squares = self.squares + other.squares
        if self.matrices is not None and other.matrices is not None:
            return LayerQueries(squares, matrices=self.matrices + other.matrices)
        assert self.by_token is not None
        assert other.by_token is not None
        return LayerQueries(squares, tokens=self.tokens, by_token=self.by_token + other.by_token)

    def scores(self, run: LayerRun) -> Tensor:
        """Return the products [rows, queries] with the gradients of rows."""
        if self.by_token is not None:
            return self._scores_of_tokens(run)
        rows = run.gradient.shape[1]
        if self.vectors is not None:
            per_row = run.positions * self.vectors[0].shape[:3].numel()
        else:
            per_row = run.inputs.shape[0] * run.inputs.shape[-1] * max(run.gradient.shape[-1], run.positions)
        step = max(1, _VALUES_AT_ONCE // per_row)
        return torch.cat([self._scores_of_rows(run.part(start, start + step)) for start in range(0, rows, step)])

    def _scores_of_rows(self, run: LayerRun) -> Tensor:
        if self.matrices is not None and self.matrices.shape[1] == 1:
            return ((run.gradient @ self.matrices) * run.inputs).sum((0, 2, 3))[:, None]
        if self.matrices is not None:
            gradients = run.gradient.transpose(2, 3) @ run.inputs  # [groups, rows, outputs, inputs]
            rows = gradients.shape[1]
            flat = gradients.transpose(0, 1).reshape(rows, -1)
            return flat @ self.matrices.transpose(0, 1).reshape(self.matrices.shape[1], -1).T
        assert self.vectors is not None
        of_gradients, of_inputs = self.vectors
        groups, terms, queries, _ = of_gradients.shape
        rows, positions = run.gradient.shape[1:3]
        by_gradient = run.gradient.flatten(1, 2) @ of_gradients.flatten(1, 2).transpose(1, 2)
        by_input = run.inputs.flatten(1, 2) @ of_inputs.flatten(1, 2).transpose(1, 2)
        return by_gradient.mul_(by_input).view(groups, rows, positions, terms, queries).sum((0, 2, 3))

    def _scores_of_tokens(self, run: LayerRun) -> Tensor:
        assert self.tokens is not None
        assert self.by_token is not None
        rows, positions = run.inputs.shape
        place = torch.searchsorted(self.tokens, run.inputs.contiguous()).clamp(max=len(self.tokens) - 1)
        known = self.tokens[place] == run.inputs
        result = run.gradient.new_zeros(rows, len(self.by_token))
        row_of = torch.arange(rows, device=result.device)[:, None].expand(rows, positions)
        for token in place[known].unique().tolist():
            here = known & (place == token)
            result.index_add_(0, row_of[here], run.gradient[0][here] @ self.by_token[:, token].T)
        return result
