"""The directions in which ridge regression shrinks: eigenvectors of the kernel of all training instances.

Kernel form: the eigenvectors U of K [instances, instances] are the features. Primal form: with features X and
XᵀX = V S Vᵀ they are U = X V S^(-1/2), which is never held; every product with U is one with X.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import InfluenceError

from .features import Outer
from .features_projection import Projection
from .features_rows import FeatureRows, KeptRows, feature_rows
from .features_stream import FeatureBatch, FeatureStream, check_complete, one_position, stacked
from .ridge import Ridge

KERNEL_ROWS = 2048
MOST_KERNEL_ROWS = 8192
_NEGLIGIBLE = 1e-10
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Basis:
    """Eigenvalues, and eigenvectors as features times a matrix.

    Attributes:
        features: of every instance, by its place.
        turn: [width, k], from features to eigenvectors; None: the features are the eigenvectors.
        spectrum: eigenvalues [k], all positive.
        count: how many instances there are.
        name: how it was made, for people to read.
        matched: which instances a query's gradient would be made of, see `asked`.
    """

    features: FeatureRows
    turn: np.ndarray | None
    spectrum: np.ndarray
    count: int
    name: str
    matched: Callable[[int, Outer], np.ndarray]

    def asked(self, slot: int, outer: Outer) -> np.ndarray:
        """Return what queries' gradients in one model and layer add to their coordinates [k, queries].

        With the kernel K of all instances and its products k with a query, these are the coordinates of K⁻¹ k.
        """
        return self.matched(slot, outer)

    def project(self, places: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return what these instances' scores [places, ...] add to the coordinates, before `turned`."""
        features, flat = torch.from_numpy(self.features.rows(places)), torch.from_numpy(scores.reshape(len(places), -1))
        return (features.T @ flat).double().numpy().reshape(-1, *scores.shape[1:])

    def turned(self, sums: np.ndarray) -> np.ndarray:
        """Return the coordinates [k, ...] from the sums of `project`."""
        return sums if self.turn is None else np.tensordot(self.turn, sums, ((0,), (0,)))

    def weights(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the weights [width, ...] of the features for a fit with these coordinates [k, ...]."""
        found = coordinates if self.turn is None else np.tensordot(self.turn, coordinates, ((1,), (0,)))
        return found.astype(np.float32)

    def vectors(self, features: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return the eigenvectors [places, wanted] of instances with these features."""
        if self.turn is None:
            return features[:, wanted]
        return (torch.from_numpy(features) @ torch.from_numpy(self.turn[:, wanted]).float()).numpy()


def find_basis(stream: FeatureStream, ridge: Ridge, memory: int) -> Basis:
    """Return the basis of all training instances, in the form that fits their number."""
    kernel = ridge.form == "kernel" or (ridge.form == "auto" and stream.count <= KERNEL_ROWS)
    if kernel and stream.count <= MOST_KERNEL_ROWS:
        batches = _plain_batches(stream)
        if batches is not None:
            pairs = stacked(batches, stream.count)
            name = f"{sum(d * c for d, c in stream.sizes):,} features, kernel form"
            return _from_kernel(_kernel(pairs, stream.members), name, partial(_products, pairs, stream.members))
    projection = Projection(stream.sizes, members=stream.members, most=ridge.most_features, seed=ridge.seed)
    rows = feature_rows(stream, projection, memory)
    name = f"{projection.width:,} {'' if projection.exact else 'projected '}features"
    if ridge.form != "primal" and isinstance(rows, KeptRows) and stream.count < projection.width:
        whole = torch.from_numpy(rows.features).double()
        products = partial(_projected_products, whole, projection)
        return _from_kernel(whole @ whole.T, f"{name}, kernel form", products)
    if kernel and stream.count > MOST_KERNEL_ROWS:
        name += f" ({stream.count:,} rows are too many for the kernel form)"
    return _from_features(rows, projection, stream.count, f"{name}, primal form")


def _plain_batches(stream: FeatureStream) -> list[FeatureBatch] | None:
    """Return the features of all rows where each is a single h ⊗ e and an instance of its own."""
    batches: list[FeatureBatch] = []
    seen = np.zeros(stream.count, np.int64)
    for places, outers in stream:
        np.add.at(seen, places, 1)
        if not one_position(outers) or seen[places].max(initial=0) > 1:
            return None
        batches.append((places, outers))
    check_complete(seen, stream.ids)
    return batches


def _kernel(pairs: list[tuple[Tensor, Tensor]], members: int) -> Tensor:
    kernel = torch.zeros(len(pairs[0][0]), len(pairs[0][0]), dtype=torch.float64)
    for hidden, error in pairs:
        hidden, error = hidden.double(), error.double()
        kernel += (hidden @ hidden.T) * (error @ error.T)
    return kernel / members


def _eigen(matrix: Tensor) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = torch.linalg.eigh(matrix)
    if not values[-1] > 0:
        raise InfluenceError(
            "the features of all training rows are zero, so nothing can be fitted on them: their loss has no gradient "
            "at the last layer. Give denoise=None, or features of your own: denoise=turnover.influence.Ridge("
            "features=lambda model, inputs, targets: ...)."
        )
    kept = values > _NEGLIGIBLE * values[-1]
    return values[kept].numpy(), vectors[:, kept].numpy()


def _products(pairs: list[tuple[Tensor, Tensor]], members: int, slot: int, outer: Outer) -> Tensor:
    """Return the products [instances, queries] of all instances' gradients with those of queries."""
    hidden, error = (part.double() for part in pairs[slot])
    asked, missed = outer.hidden.double(), outer.error.double()
    by_position = (hidden @ asked.flatten(0, 1).T) * (error @ missed.flatten(0, 1).T)
    return by_position.unflatten(1, asked.shape[:2]).sum(2) / members


def _projected_products(features: Tensor, projection: Projection, slot: int, outer: Outer) -> Tensor:
    return features @ projection.part(slot, outer).double().T


def _from_kernel(kernel: Tensor, name: str, products: Callable[[int, Outer], Tensor]) -> Basis:
    spectrum, vectors = _eigen(kernel)
    inverse = (vectors / spectrum).T

    def matched(slot: int, outer: Outer) -> np.ndarray:
        return inverse @ products(slot, outer).numpy()

    return Basis(KeptRows(vectors.astype(np.float32)), None, spectrum, len(kernel), name, matched)


def _from_features(rows: FeatureRows, projection: Projection, count: int, name: str) -> Basis:
    gram = torch.zeros(projection.width, projection.width, dtype=torch.float64)
    for start in range(0, count, _ROWS_AT_ONCE):
        part: Any = rows.rows(np.arange(start, min(start + _ROWS_AT_ONCE, count)))
        part = torch.from_numpy(part).double()
        gram.addmm_(part.T, part)
    spectrum, vectors = _eigen(gram)
    turn = vectors / np.sqrt(spectrum)

    def matched(slot: int, outer: Outer) -> np.ndarray:
        return turn.T @ projection.part(slot, outer).double().numpy().T

    return Basis(rows, turn, spectrum, count, name, matched)
