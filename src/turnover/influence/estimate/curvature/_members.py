"""One network with the curvature of its layers: rows and queries on their way to scores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from turnover.batches import Batch

from ._calibration import Objectives
from ._gradients import LayerRun, Network
from ._kronecker import LayerCurvature, LayerInverse, LayerQueries, Rotated

_QUERIES_AT_ONCE = 64
AtLayers = dict[str, LayerQueries]
"""Some queries at every layer, by its path."""


@dataclass(frozen=True)
class RowGradients:
    """One network, ready to give the gradients of training rows."""

    network: Network
    objectives: Objectives

    def gradients(self, batch: Batch) -> dict[str, LayerRun]:
        """Return what every layer saw of training rows, where they have a gradient."""
        runs = self.network.gradients(batch.to(self.network.forward.member.device), self.objectives.rows)
        return {name: run.with_gradient() for name, run in runs.items()}


@dataclass(frozen=True)
class FittedMember:
    """One network with the curvature of its layers and the dampings of its inverse."""

    network: Network
    objectives: Objectives
    layers: dict[str, LayerCurvature]
    damping: float
    mean_damping: float | None

    @property
    def device(self) -> torch.device:
        """Return where the network is."""
        return self.network.forward.member.device

    @cached_property
    def inverses(self) -> dict[str, LayerInverse]:
        """Return the inverse of every layer."""
        return {name: LayerInverse(layer, self.damping) for name, layer in self.layers.items()}

    @property
    def rows(self) -> "RowGradients":
        """Return what gives the gradients of training rows."""
        return RowGradients(self.network, self.objectives)

    def applied(self, queries: Sequence[Batch]) -> list[AtLayers]:
        """Return queries with the inverse applied, a batch after the other."""
        batches = []
        for rotated in self._rotated(queries):
            factors = _factors(self.inverses, rotated)
            # What a layer was made of goes at once: with positions it is as large as what it is made into.
            batches.append({name: self.inverses[name].applied(rotated.pop(name), factors) for name in list(rotated)})
        return batches

    def applied_to_mean(self, queries: Sequence[Batch]) -> AtLayers:
        """Return the mean of all queries with the inverse applied, at both dampings where there are two."""
        means = [self.inverses]
        if self.mean_damping is not None:
            means.append({name: LayerInverse(layer, self.mean_damping) for name, layer in self.layers.items()})
        sums: list[dict[str, Tensor]] = [{} for _ in means]
        for rotated in self._rotated(queries):
            for inverses, whole in zip(means, sums, strict=True):
                factors = _factors(inverses, rotated) / (len(means) * len(queries))
                for name, part in rotated.items():
                    added = part.weighted_sum(factors, self.layers[name].tokens)
                    whole[name] = whole[name] + added if name in whole else added
        mean = {}
        for name in sums[0]:
            parts = [how[name].diagonal * part[name] for how, part in zip(means, sums, strict=True)]
            mean[name] = self.layers[name].as_query(torch.stack(parts).sum(0))
        return mean

    def own_scores(self, batch: Batch) -> Tensor:
        """Return the score of every training row on itself, in units of its loss times the number of rows."""
        runs = self.rows.gradients(batch)
        return torch.stack(
            [self.layers[name].rotated(run).quadratic(self.inverses[name].diagonal) for name, run in runs.items()]
        ).sum(0)

    def _rotated(self, queries: Sequence[Batch]) -> Iterator[dict[str, Rotated]]:
        """Yield queries by layer, a batch at a time, in the eigenvectors of the curvature."""
        for batch in _batched(queries):
            runs = self.network.gradients(batch.to(self.device), self.objectives.queries)
            yield {
                name: self.layers[name].rotated(run.with_gradient())
                for name, run in runs.items()
                if name in self.layers
            }


def _factors(inverses: dict[str, LayerInverse], rotated: dict[str, Rotated]) -> Tensor:
    """Return one over the root mean square that the curvature expects of the scores of each query."""
    squares = torch.stack([part.quadratic(inverses[name].expected) for name, part in rotated.items()]).sum(0)
    return torch.where(squares > 0, squares.clamp(min=torch.finfo(torch.float32).tiny).rsqrt(), 0.0)


def _batched(queries: Sequence[Batch]) -> Iterator[Batch]:
    """Yield single queries as larger batches, in their order, neighbors of the same shape together."""
    waiting: list[Batch] = []
    form: Any = None
    for query in queries:
        leaves, structure = tree_flatten((query.args, query.kwargs, query.target))
        whole = query.can_be_split and all(isinstance(leaf, Tensor) for leaf in leaves)
        shape = (structure, [leaf.shape for leaf in leaves]) if whole else None
        if waiting and (shape is None or shape != form or len(waiting) == _QUERIES_AT_ONCE):
            yield _together(waiting)
            waiting = []
        waiting.append(query)
        form = shape
    if waiting:
        yield _together(waiting)


def _together(queries: Sequence[Batch]) -> Batch:
    if len(queries) == 1:
        return queries[0]
    parts = [tree_flatten((query.args, query.kwargs, query.target)) for query in queries]
    leaves = [torch.cat(tensors) for tensors in zip(*(part[0] for part in parts), strict=True)]
    args, kwargs, target = tree_unflatten(leaves, parts[0][1])
    return Batch(args, kwargs, target, None, len(queries))
