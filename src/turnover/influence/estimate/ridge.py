"""`Ridge`, the denoised estimator: each query's raw scores, replaced by their ridge regression on features of the rows.

The raw scores are never held: what the fit needs of them are sums over instances. All models of an ensemble are
denoised with the strength that their mean calls for. What is a null before is one after: scores of null ids are put in
the place of the training instances' and go through the same fit. They are shrunk as weakly as their own fit or that of
the query calls for: a strength that was chosen on noise follows that noise, and the null must do so too.

Where influence functions count too, a score is the weighted mean of the fit and of these, brought to the fit's size.
With the kernel K of the training instances' gradients and its products k with a query's, the influence function of
these layers is (K + μ)⁻¹ k; μ is the mean eigenvalue. The instances are seen in two views: by the flipped subnetwork,
whose gradient says what a row had to teach, and by the full network, whose gradient says what it still would. A query's
gradient is scaled to length one in each model, so that only its direction counts: how far it moves, scores say. In the
null they are those of instances drawn at random: what is significant must be so beside them as well.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.batches import Batch
from turnover.influence._data import TrainRows
from turnover.influence.blocks import FEWEST_MEMBERS, NULL_IDS, Finish, Part, RawBlock, Tile, spread_of
from turnover.influence.execution import Executor
from turnover.influence.paths import Forward

from ._basis import Basis, find_basis
from ._features import FeatureStream, Outer
from ._ridge_options import RidgeOptions, choose_strengths
from .original import QUERIES_PER_BLOCK

_MOST_ROWS, _FEWEST_ROWS = 8192, 64
_MOST_FAILED = 0.05
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Fit:
    """What all queries share: the training instances as features, in one view of the network or in two."""

    ridge: RidgeOptions
    streams: tuple[FeatureStream, ...]  # the features of each view, of the one that scores are fitted on first
    bases: tuple[Basis, ...]  # the directions in which each is shrunk
    memory: int

    @classmethod
    def of(
        cls,
        forwards: Sequence[Forward],
        train: TrainRows,
        ridge: RidgeOptions,
        memory: int,
        executor: Executor | None = None,
    ) -> "Fit":
        """Return the views that a denoising needs: one for the fit, another where gradients count too."""
        views = [ridge]
        if ridge.gradients > 0 and ridge.features is None:
            views.append(replace(ridge, view="full" if ridge.view == "flip" else "flip"))
        streams = tuple(FeatureStream(forwards, train, view, executor) for view in views)
        bases = tuple(find_basis(stream, view, memory) for stream, view in zip(streams, views, strict=True))
        return cls(ridge, streams, bases, memory)

    def question(self, nulls: int) -> "Denoising":
        """Return the denoising of one question."""
        return Denoising(self, nulls)

    @property
    def stream(self) -> FeatureStream:
        """Return the training instances, as the fit sees them."""
        return self.streams[0]

    @property
    def basis(self) -> Basis:
        """Return the directions of the fit."""
        return self.bases[0]

    def influence_coordinates(self, queries: Sequence[Batch]) -> list[np.ndarray]:
        """Return influence functions in the basis of each view, [k, members, queries].

        The root mean square over all instances of their mean over members is one for every query.
        """
        outers = self.stream.of_queries(queries)
        return [_in_basis(basis, outers, self.stream.members) for basis in self.bases]

    def drawn_places(self, count: int) -> np.ndarray:
        """Return instances [count], drawn at random, whose influence functions are part of the null."""
        return self._random(3).integers(self.basis.count, size=count)

    def null_places(self, count: int) -> np.ndarray:
        """Return the instances [draws, some] whose places the null ids take; all where there are few."""
        rows = self.basis.count
        if rows < count:
            return np.tile(np.arange(rows), (-(-count // rows), 1))
        return np.sort(self._random(1).choice(rows, count, replace=False))[None]

    def null_draws(self, count: int) -> np.ndarray:
        """Return which null id takes each instance's place [draws, instances]; the same for all queries."""
        shape = len(self.null_places(count)), self.basis.count
        return self._random(2).integers(NULL_IDS, size=shape)

    def _random(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.ridge.seed, stream])

    @cached_property
    def null_features(self) -> np.ndarray:
        """Return the features of the usual null places, which every block needs."""
        return self.basis.features.rows(self.null_places(NULL_IDS)[0])

    @cached_property
    def drawn_features(self) -> list[np.ndarray]:
        """Return the features of the usual drawn places in all views, which every block needs."""
        return [basis.features.rows(self.drawn_places(NULL_IDS)) for basis in self.bases]


@dataclass(frozen=True)
class Denoising:
    """The denoising of one question."""

    fit: Fit  # what all its queries share
    nulls: int = NULL_IDS  # how many denoised null scores each query has
    freedom: dict[int, np.ndarray] = field(default_factory=dict)  # degrees of freedom [queries], by first query

    keeps_null = True
    has_errors = True
    queries_per_block = QUERIES_PER_BLOCK

    @property
    def standardized(self) -> bool:
        """Return whether each query's scores are divided by the root mean square of its fit."""
        return self.fit.ridge.scale == "query"

    @property
    def pairs_first(self) -> int:
        """Return how many pairs of each query are fitted: those of all training instances."""
        return self.fit.basis.count

    @property
    def name(self) -> str:
        """Return what scores say of it."""
        ridge, name = self.fit.ridge, f"ridge on {self.fit.basis.name}"
        if ridge.gradients > 0:
            name += f", influence functions x {ridge.gradients:g}"
        return name if ridge.scale == "measure" else f"{name}, scaled by query"

    @property
    def result(self) -> str:
        """Return what scores say of it when all queries are fitted."""
        if not self.freedom:
            return self.name
        mean = np.concatenate([self.freedom[start] for start in sorted(self.freedom)]).mean()
        return f"{self.name}, {mean:.3g} degrees of freedom per query"

    def mean_block(self, queries: Sequence[Batch]) -> None:
        """Return None: every query is fitted by itself."""

    def block(
        self,
        start: int,
        raw: Callable[[], RawBlock],
        queries: Sequence[Batch],
        executor: Executor,
        add: Callable[[int], None],
    ) -> "_DenoisedBlock":
        """Return a block of queries, denoised; `add` counts finished pairs."""
        gradients = self.fit.influence_coordinates(queries) if self.fit.ridge.gradients > 0 else []
        block = _DenoisedBlock(raw(), self.fit, executor, add, gradients=gradients, nulls=self.nulls)
        self.freedom[start] = block.shrinking.sum(0)
        return block

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing: features are computed again in a pass over the rows."""
        return {}

    def errors_of_mean(self, ids: Tensor, noise: np.ndarray) -> np.ndarray:
        """Return the standard error [ids] of means over queries.

        `noise` is what the fits make of every null id's mean score, along each eigenvector [k, nulls].
        """
        basis, variance = self.fit.basis, noise.var(1, ddof=1)
        chosen = variance > _NEGLIGIBLE**2 * variance.max()
        squares = [
            np.square(basis.vectors(basis.features.rows(places), chosen)) @ variance[chosen]
            for places in _split(self.fit.stream.positions(ids), 1024)
        ]
        return np.sqrt(np.concatenate(squares)).astype(np.float32)


class _DenoisedBlock:
    """A block of queries, ready to give the denoised scores of any training instances."""

    def __init__(
        self,
        raw: RawBlock,
        fit: Fit,
        executor: Executor,
        add: Callable[[int], None],
        *,
        gradients: Sequence[np.ndarray] = (),
        nulls: int = NULL_IDS,
    ) -> None:
        """Score all training instances on these queries, and fit; `add` counts finished pairs.

        `gradients` are influence functions in the basis of each view [k, members, queries]; empty: they do not count.
        """
        self._fit, self._raw = fit, raw
        self._sigma = spread_of(raw.null).astype(np.float64)
        self._nulls = nulls
        coordinates, total = self._coordinates(executor, add)
        shrinking = self._shrinking(coordinates.mean(2), total)
        self.shrinking = shrinking[:, 0]
        size = _root_mean_square(self.shrinking * coordinates[:, 0].mean(1), fit.basis.count)
        unit = np.where(size > 0, size, 1.0) if fit.ridge.scale == "query" else np.ones_like(size)
        self.offset = (raw.offset / unit).astype(np.float32)
        self._factor = 1.0 / (unit * (1.0 + (fit.ridge.gradients if gradients else 0.0)))  # [queries], of the fit
        weights = fit.basis.weights(shrinking[:, :, None] * coordinates * self._factor)
        share = fit.ridge.gradients * size * self._factor / max(len(gradients), 1)
        others = [basis.weights(share * one) for basis, one in zip(fit.bases, gradients, strict=False)]
        self.member_nulls = self._null_fits(weights[:, 1:]) + self._null_gradients(others)
        self._weights = [weights[:, 0] + others[0], *others[1:]] if others else [np.ascontiguousarray(weights[:, 0])]
        self._fail_queries()

    def mean_noise(self) -> np.ndarray:
        """Return what the fits make of every null id's summed scores, along each eigenvector [k, nulls]."""
        return (self.shrinking * self._factor) @ np.nan_to_num(self._raw.null.T.astype(np.float64))

    def tiles(self, parts: Sequence[Part], executor: Executor, finish: Finish) -> Iterator[Any]:
        """Yield what `finish` makes of the denoised scores of each part of the instances, in their order.

        These are small products, made here: features that are computed again need their order.
        """
        return (finish(part, self._tile_of(part.ids)) for part in parts)

    def _tile_of(self, ids: Tensor) -> Tile:
        """Return the denoised scores of instances, and their standard errors where members show none."""
        places = self._fit.stream.positions(ids)
        parts = [self._tile(part) for part in _split(places, self._rows_at_once(1))]
        errors = [part.errors for part in parts if part.errors is not None]
        return Tile(np.concatenate([part.members for part in parts], 1), np.concatenate(errors) if errors else None)

    def _tile(self, places: np.ndarray) -> Tile:
        features = self._fit.basis.features.rows(places)
        members = _product(features, self._weights[0])
        for basis, weights in zip(self._fit.bases[1:], self._weights[1:], strict=False):
            members += _product(basis.features.rows(places), weights)
        members = members.transpose(1, 0, 2)
        self._fail_pairs(members, places)
        if len(members) >= FEWEST_MEMBERS:
            return Tile(members, None)
        shrinking = np.square(self.shrinking)
        chosen = shrinking.max(1) > _NEGLIGIBLE**2
        vectors = self._fit.basis.vectors(features, chosen)
        spread = np.sqrt(np.square(vectors) @ shrinking[chosen].astype(np.float32))
        return Tile(members, (spread * self._sigma * self._factor).astype(np.float32))

    def _coordinates(self, executor: Executor, add: Callable[[int], None]) -> tuple[np.ndarray, np.ndarray]:
        """Return coordinates [k, 1 + draws, members, queries] of scores and null draws, and sums of squares."""
        basis, raw = self._fit.basis, self._raw
        draws = self._fit.null_draws(self._nulls)
        noise = np.nan_to_num(raw.member_nulls, nan=0.0, posinf=0.0, neginf=0.0).astype(np.float32)
        parts = _split(np.arange(basis.count), self._rows_at_once(1 + len(draws)))
        sums, total, failed = 0.0, np.zeros((1 + len(draws), noise.shape[2])), []
        scored = executor.map(raw.members, [self._fit.stream.ids[places] for places in parts])
        for places, members in zip(parts, scored, strict=True):
            wrong = np.argwhere(~np.isfinite(members))
            if len(wrong):
                failed.append(wrong + np.array([0, places[0], 0]))
                members = np.where(np.isfinite(members), members, np.float32(0))
            drawn = noise[:, draws[:, places]].transpose(2, 1, 0, 3)  # [places, draws, members, queries]
            both = np.concatenate([members.transpose(1, 0, 2)[:, None], drawn], 1)
            sums = sums + basis.project(places, np.ascontiguousarray(both, np.float32))
            total += np.square(both.mean(2, dtype=np.float64)).sum(0)
            add(members[0].size)
        self._failed = np.concatenate(failed) if failed else np.empty((0, 3), np.int64)
        return basis.turned(np.asarray(sums)), total

    def _shrinking(self, means: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return what is left of each coordinate [k, 1 + draws, queries] of the mean over members."""
        basis, sets = self._fit.basis, total.shape[0]
        noise = np.tile(np.square(np.nan_to_num(self._sigma)), sets)
        squares = np.square(means).reshape(len(means), -1)
        chosen = choose_strengths(
            self._fit.ridge.choose, basis.spectrum, squares, total.reshape(-1), basis.count, noise
        ).reshape(total.shape)
        chosen = np.minimum(chosen, chosen[:1])
        spectrum = basis.spectrum[:, None, None]
        return spectrum / (spectrum + chosen)

    def _null_fits(self, weights: np.ndarray) -> np.ndarray:
        """Return the fits [members, nulls, queries] of null ids in the place of training instances."""
        chosen = self._fit.null_places(self._nulls)
        usual = self._nulls == NULL_IDS
        features = self._fit.null_features if usual else self._fit.basis.features.rows(chosen[0])
        fits = [_product(features, np.ascontiguousarray(weights[:, draw])) for draw in range(len(chosen))]
        return np.concatenate(fits)[: self._nulls].transpose(1, 0, 2)

    def _null_gradients(self, weights: Sequence[np.ndarray]) -> np.ndarray:
        """Return influence functions [members, nulls, queries] of instances drawn at random."""
        if not weights:
            return np.zeros((), np.float32)
        fit, usual = self._fit, self._nulls == NULL_IDS
        drawn = fit.drawn_places(self._nulls)
        features = fit.drawn_features if usual else [basis.features.rows(drawn) for basis in fit.bases]
        parts = [_product(*pair) for pair in zip(features, weights, strict=True)]
        return np.sum(parts, axis=0).transpose(1, 0, 2)

    def _fail_queries(self) -> None:
        """Give up on queries for which many raw scores are not finite."""
        _, members, queries = self._weights[0].shape
        counts = np.bincount(self._failed[:, 2], minlength=queries)
        hopeless = counts > _MOST_FAILED * self._fit.basis.count * members
        self._weights[0][:, :, hopeless] = np.nan
        self._failed = self._failed[~hopeless[self._failed[:, 2]]]

    def _fail_pairs(self, members: np.ndarray, places: np.ndarray) -> None:
        """Let pairs fail whose raw score failed: counted as 0 in the fit, they are not known."""
        for member, place, query in self._failed[np.isin(self._failed[:, 1], places)]:
            members[member, places == place, query] = np.nan

    def _rows_at_once(self, copies: int) -> int:
        """Return how many instances' features and scores fit into the memory."""
        members, _, queries = self._raw.member_nulls.shape
        bases = self._fit.bases
        width = sum(len(basis.spectrum) if basis.turn is None else len(basis.turn) for basis in bases)
        per_row = 4 * (2 * width + 4 * copies * members * queries)
        return int(np.clip(self._fit.memory // per_row, _FEWEST_ROWS, _MOST_ROWS))


def _product(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the product [rows, ...] of features [rows, width] and weights [width, ...]."""
    flat = torch.from_numpy(features) @ torch.from_numpy(weights.reshape(len(weights), -1))
    return flat.numpy().reshape(len(features), *weights.shape[1:])


def _split(places: np.ndarray, rows: int) -> list[np.ndarray]:
    return [places[start : start + rows] for start in range(0, len(places), rows)]


def _in_basis(basis: Basis, outers: Sequence[Outer], members: int) -> np.ndarray:
    each = len(outers) // members
    coordinates = np.stack([basis.matched(slot, outer) for slot, outer in enumerate(outers)], 1)
    by_member = members * coordinates.reshape(len(coordinates), members, each, -1).sum(2)
    damped = basis.spectrum / (basis.spectrum + basis.spectrum.sum() / basis.count)
    influence = damped[:, None, None] * by_member
    size = _root_mean_square(influence.mean(1), basis.count)
    return influence / np.where(size > 0, size, np.inf)


def _root_mean_square(coordinates: np.ndarray, count: int) -> np.ndarray:
    """Return the root mean square [queries] over instances of scores with these coordinates [k, queries]."""
    return np.sqrt(np.square(coordinates).sum(0) / count)


class Ridge(RidgeOptions):
    """The denoised estimator: each query's raw scores, fitted on gradient features of the training rows.

    Takes the options of `RidgeOptions`: view, gradients, scale, choose, form, projection, layers, features, seed.

    Example:
        >>> Ridge(choose="gcv", projection=512).view
        'full'
    """

    def fit(
        self,
        forwards: Sequence[Forward],
        train: Any,
        memory: int,
        kept: Mapping[str, np.ndarray] | None = None,
        executor: Executor | None = None,
    ) -> Fit:
        """Return the training instances as features, with the directions in which they are shrunk."""
        return Fit.of(forwards, train, self, memory, executor)
