"""The directions in which ridge regression shrinks: eigenvectors of the kernel of all training instances.

Kernel form: the eigenvectors U of K [instances, instances] are the features. Primal form: with features X and
XᵀX = V S Vᵀ they are U = X V S^(-1/2), which is never held; every product with U is one with X.

Features have a fixed length: h ⊗ e of all models and layers side by side, or projected at random where that is too
long. Both sides are projected by Gaussian matrices, (A h) ⊗ (B e), which keeps inner products in expectation. Parts of
several models and layers that find no room side by side are added up under random signs, so that their products vanish
in expectation.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt, sqrt
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from turnover.errors import InfluenceError

from ._features import FeatureBatch, FeatureStream, Outer, one_position, stacked
from ._ridge_options import RidgeOptions

_KERNEL_ROWS = 2048
_MOST_KERNEL_ROWS = 8192
_NEGLIGIBLE = 1e-10
_ROWS_AT_ONCE = 1024


# Features of fixed length


@dataclass(frozen=True)
class _Part:
    left: Tensor | None
    right: Tensor | None
    signs: Tensor | None
    scale: float
    start: int

    def __call__(self, outer: Outer) -> Tensor:
        hidden = outer.hidden if self.left is None else outer.hidden @ self.left
        error = outer.error if self.right is None else outer.error @ self.right
        product = torch.einsum("npd,npc->ndc", hidden, error).flatten(1) * self.scale
        return product if self.signs is None else product * self.signs


class _Projection:
    """Turns what every model and layer shows of some rows into features [rows, width]."""

    def __init__(self, sizes: Sequence[tuple[int, int]], *, members: int, most: int, seed: int) -> None:
        """Draw the matrices for h and e of the given sizes, per model and layer; kernels are averaged over members."""
        whole = sum(d * c for d, c in sizes)
        self.exact = whole <= most
        random = torch.Generator().manual_seed(seed)
        shapes = [size if self.exact else _fitting(*size, most) for size in sizes]
        widths = [a * b for a, b in shapes]
        if self.exact:
            starts = [sum(widths[:place]) for place in range(len(widths))]
        else:
            side_by_side = min(len(widths), most // max(widths))
            starts = [place % side_by_side * max(widths) for place in range(len(widths))]
        self.width = max(start + width for start, width in zip(starts, widths, strict=True))
        self._parts = [
            _Part(
                left=_gaussian(size[0], shape[0], random),
                right=_gaussian(size[1], shape[1], random),
                signs=None if self.exact else _signs(shape[0] * shape[1], random),
                scale=1 / sqrt(members),
                start=start,
            )
            for size, shape, start in zip(sizes, shapes, starts, strict=True)
        ]

    def __call__(self, outers: Sequence[Outer]) -> Tensor:
        """Return features [rows, width]."""
        features = torch.zeros(len(outers[0].hidden), self.width)
        for place, outer in enumerate(outers):
            self._add(features, place, outer)
        return features

    def part(self, place: int, outer: Outer) -> Tensor:
        """Return what one model's layer adds to the features [rows, width]."""
        return self._add(torch.zeros(len(outer.hidden), self.width), place, outer)

    def _add(self, features: Tensor, place: int, outer: Outer) -> Tensor:
        part = self._parts[place]
        product = part(outer)
        features[:, part.start : part.start + product.shape[1]] += product
        return features


def _fitting(d: int, c: int, most: int) -> tuple[int, int]:
    """Return to how many numbers each side is projected."""
    right = min(c, isqrt(most))
    left = min(d, most // right)
    return left, min(c, most // left)


def _gaussian(width: int, projected: int, random: torch.Generator) -> Tensor | None:
    if width == projected:
        return None
    return torch.randn(width, projected, generator=random) / sqrt(projected)


def _signs(count: int, random: torch.Generator) -> Tensor:
    return torch.randint(2, (count,), generator=random).float() * 2 - 1


# Features by place: kept in memory where they fit, else computed again


class _FeatureRows(Protocol):
    """Features of instances by their place in the training data."""

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return float32 features [places, width]."""
        ...


class _KeptRows:
    """Features that are held in memory."""

    def __init__(self, features: np.ndarray) -> None:
        """Hold the features."""
        self.features = features

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return float32 features [places, width]; those of neighbors are not copied."""
        if len(places) and bool((np.diff(places) == 1).all()):
            return self.features[places[0] : places[-1] + 1]
        return self.features[places]


class _RecomputedRows:
    """Features that are computed when they are read; cheap where places come in their order."""

    def __init__(self, opened: Callable[[], Iterator[np.ndarray]], count: int, width: int) -> None:
        """Keep how to begin again: `opened` yields the features of all instances in their order, some at a time."""
        self._opened, self._count, self._width = opened, count, width
        self._lock = threading.Lock()
        self._restart()

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return float32 features [places, width]."""
        features = np.empty((len(places), self._width), np.float32)
        order = np.argsort(places, kind="stable")
        ascending = places[order]
        with self._lock:
            if len(places) and ascending[0] < self._start:
                self._restart()
            done = 0
            while done < len(places):
                end = int(np.searchsorted(ascending, self._start + len(self._part)))
                features[order[done:end]] = self._part[ascending[done:end] - self._start]
                done = end
                if done < len(places):
                    self._advance()
        return features

    def _restart(self) -> None:
        self._parts, self._start = self._opened(), 0
        self._part = np.empty((0, self._width), np.float32)

    def _advance(self) -> None:
        self._start += len(self._part)
        part = next(self._parts, None)
        if part is None:
            raise InfluenceError(
                f"train showed {self._start} rows the second time and {self._count} the first. Give data that can be "
                "read again and again, such as a Dataset."
            )
        self._part = part


def _feature_rows(stream: FeatureStream, projection: _Projection, memory: int) -> _FeatureRows:
    """Return the features of all instances, kept if that takes no more than `memory` bytes."""
    needed = 4 * stream.count * projection.width
    if needed <= memory:
        return _KeptRows(_all_rows(stream, projection))

    def in_order() -> Iterator[np.ndarray]:
        start = 0
        for places, outers in stream:
            if not np.array_equal(places, np.arange(start, start + len(places))):
                raise InfluenceError(
                    "rows of one instance are spread over the training data, so that their features must be added up "
                    f"in memory, which takes {needed:,} bytes. Give Influence(memory={needed}), or fewer features: "
                    "estimator=turnover.influence.Ridge(projection=512)."
                )
            start += len(places)
            yield projection(outers).numpy()

    return _RecomputedRows(in_order, stream.count, projection.width)


def _all_rows(stream: FeatureStream, projection: _Projection) -> np.ndarray:
    """Return the features of all instances; rows of one instance are added up, as their gradients are."""
    features = torch.zeros(stream.count, projection.width)
    seen = np.zeros(stream.count, np.int64)
    for places, outers in stream:
        features.index_add_(0, torch.from_numpy(places), projection(outers))
        np.add.at(seen, places, 1)
    stream.check_complete(seen)
    return features.numpy()


# Eigenvectors


@dataclass(frozen=True)
class Basis:
    """Eigenvalues, and eigenvectors as features times a matrix.

    `matched` is what queries' gradients in one model and layer (its slot) add to their coordinates [k, queries]: with
    the kernel K of all instances and its products k with a query, these are the coordinates of K⁻¹ k.
    """

    features: _FeatureRows  # of every instance, by its place
    turn: np.ndarray | None  # [width, k], from features to eigenvectors; None: the features are the eigenvectors
    spectrum: np.ndarray  # eigenvalues [k], all positive
    count: int  # how many instances there are
    name: str  # how it was made, for people to read
    matched: Callable[[int, Outer], np.ndarray]

    def project(self, places: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return what these instances' scores [places, ...] add to the coordinates, before `turned`."""
        features, flat = torch.from_numpy(self.features.rows(places)), torch.from_numpy(scores.reshape(len(places), -1))
        return (features.T @ flat).double().numpy().reshape(-1, *scores.shape[1:])

    def turned(self, sums: np.ndarray) -> np.ndarray:
        """Return the coordinates [k, ...] from the sums of `project`."""
        return sums if self.turn is None else np.tensordot(self.turn, sums, ((0,), (0,)))

    def weights(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the weights [width, ...] of the features for a fit with these coordinates [k, ...]."""
        weights = coordinates if self.turn is None else np.tensordot(self.turn, coordinates, ((1,), (0,)))
        return weights.astype(np.float32)

    def vectors(self, features: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Return the eigenvectors [places, chosen] of instances with these features."""
        if self.turn is None:
            return features[:, chosen]
        return (torch.from_numpy(features) @ torch.from_numpy(self.turn[:, chosen]).float()).numpy()


def find_basis(stream: FeatureStream, ridge: RidgeOptions, memory: int) -> Basis:
    """Return the basis of all training instances, in the form that fits their number."""
    kernel = ridge.form == "kernel" or (ridge.form == "auto" and stream.count <= _KERNEL_ROWS)
    if kernel and stream.count <= _MOST_KERNEL_ROWS:
        batches = _plain_batches(stream)
        if batches is not None:
            pairs = stacked(batches, stream.count)
            name = f"{sum(d * c for d, c in stream.sizes):,} features, kernel form"
            return _from_kernel(_kernel(pairs, stream.members), name, partial(_products, pairs, stream.members))
    projection = _Projection(stream.sizes, members=stream.members, most=ridge.most_features, seed=ridge.seed)
    rows = _feature_rows(stream, projection, memory)
    name = f"{projection.width:,} {'' if projection.exact else 'projected '}features"
    if ridge.form != "primal" and isinstance(rows, _KeptRows) and stream.count < projection.width:
        whole = torch.from_numpy(rows.features).double()
        products = partial(_projected_products, whole, projection)
        return _from_kernel(whole @ whole.T, f"{name}, kernel form", products)
    if kernel and stream.count > _MOST_KERNEL_ROWS:
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
    stream.check_complete(seen)
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
            "at the last layer. Give estimator='tod', or features of your own: estimator=turnover.influence.Ridge("
            "features=lambda model, inputs, targets: ...)."
        )
    kept = values > _NEGLIGIBLE * values[-1]
    return values[kept].numpy(), vectors[:, kept].numpy()


def _products(pairs: list[tuple[Tensor, Tensor]], members: int, slot: int, outer: Outer) -> Tensor:
    """Return the products [instances, queries] of all instances' gradients with those of queries."""
    hidden, error = (part.double() for part in pairs[slot])
    query_hidden, query_error = outer.hidden.double(), outer.error.double()
    by_position = (hidden @ query_hidden.flatten(0, 1).T) * (error @ query_error.flatten(0, 1).T)
    return by_position.unflatten(1, query_hidden.shape[:2]).sum(2) / members


def _projected_products(features: Tensor, projection: _Projection, slot: int, outer: Outer) -> Tensor:
    return features @ projection.part(slot, outer).double().T


def _from_kernel(kernel: Tensor, name: str, products: Callable[[int, Outer], Tensor]) -> Basis:
    spectrum, vectors = _eigen(kernel)
    inverse = (vectors / spectrum).T

    def matched(slot: int, outer: Outer) -> np.ndarray:
        return inverse @ products(slot, outer).numpy()

    return Basis(_KeptRows(vectors.astype(np.float32)), None, spectrum, len(kernel), name, matched)


def _from_features(rows: _FeatureRows, projection: _Projection, count: int, name: str) -> Basis:
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
