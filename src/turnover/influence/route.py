"""Which way scores are computed for a model, found out on the first query and kept for all others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from turnover.batches import Batch
from turnover.errors import InfluenceError

from .measures import Goodness
from .members import Member
from .options import Options, null_ids
from .paths.forward import Pass, base_goodness, chunk, scores_of, settle
from .paths.generic import GenericScorer, fit_chunk
from .paths.last_layer import LastLayer, LastLayerScorer, find_last_layer

_TRIAL = 4
_TOLERANCE = 1e-4
_SAMPLE = 8


class Scorer(Protocol):
    """Scores any instances on queries that it knows."""

    def scores(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        ...


class _SideBySide:
    """Several scorers whose queries stand one after the other."""

    def __init__(self, parts: Sequence[Scorer]) -> None:
        self._parts = parts

    def scores(self, ids: Tensor) -> Tensor:
        return torch.cat([part.scores(ids) for part in self._parts], 1)


@dataclass(frozen=True)
class Route:
    """How one model is asked."""

    work: Pass
    memory: int
    ids_per_chunk: int
    last: LastLayer | None = None

    @property
    def path(self) -> str:
        """Return the path as scores name it."""
        return LastLayerScorer.path if self.last else self.work.path

    def scorer(self, queries: Sequence[Batch]) -> Scorer:
        """Return what scores any instances on these queries."""
        if self.last is not None:
            # Hidden units times classes times queries must fit, beside what a chunk takes.
            count = max(1, self.memory // (8 * self.last.linear.weight.numel()))
            starts = range(0, len(queries), count)
            parts = [LastLayerScorer(self.work, self.last, queries[s : s + count], self.memory) for s in starts]
            return parts[0] if len(parts) == 1 else _SideBySide(parts)
        return GenericScorer(self.work, queries, self.ids_per_chunk)


def find_route(member: Member, goodness: Goodness, options: Options, queries: Sequence[Batch]) -> Route:
    """Return the fastest way that gives the same as the plainest on some of the queries."""
    sites = site_numbers(member, options.sites)
    call: Any = torch.compile(member.model, dynamic=True) if options.compile else None
    work = Pass(member, goodness, options.against, sites, options.dtype, call=call)
    last = None if options.compile else find_last_layer(work, queries[0])
    if last is not None and _agrees(work, last, queries[0], options.memory):
        return Route(work, options.memory, 0, last)
    work = settle(work, _sample(queries))
    largest = max(queries, key=_size)
    return Route(work, options.memory, fit_chunk(replace(work, call=None), largest, options.memory))


class Routes:
    """The routes of an engine's models, found out anew when models or the form of the queries change.

    Only the way over the last layer is kept: other ways depend on more than the first query.
    """

    def __init__(self, goodness: Goodness, options: Options) -> None:
        """Begin with none."""
        self._goodness, self._options = goodness, options
        self._kept: tuple[Any, list[Route]] | None = None

    def find(self, members: Sequence[Member], queries: Sequence[Batch], weights: Sequence[str]) -> list[Route]:
        """Return a route for each model.

        Args:
            members: the models.
            queries: what they are asked.
            weights: a checksum of each model.
        """
        form = (list(weights), [_form(query) for query in queries[:1]])
        if self._kept is not None and self._kept[0] == form:
            routes = self._kept[1]
            if all(route.work.member is member for route, member in zip(routes, members, strict=True)):
                return routes
        routes = [find_route(member, self._goodness, self._options, queries) for member in members]
        self._kept = (form, routes) if all(route.last is not None for route in routes) else None
        return routes


def _form(query: Batch) -> list[Any]:
    """Return what queries of one kind have in common."""
    values = tree_leaves((query.args, query.kwargs, query.target))
    return [(value.shape, value.dtype, value.device) if isinstance(value, Tensor) else value for value in values]


def _agrees(work: Pass, last: LastLayer, query: Batch, memory: int) -> bool:
    ids, plain = null_ids(_TRIAL), replace(work, how="repeated")
    base = base_goodness(work, query)
    with chunk(plain, ids) as now:
        wanted = scores_of(plain, query, base, now).cpu()
    found = LastLayerScorer(work, last, [query], memory).scores(ids)[:, 0]
    tolerance = _TOLERANCE if work.dtype in (None, torch.float32) else 0.1
    return torch.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


def _sample(queries: Sequence[Batch]) -> list[Batch]:
    """Return the first query, the last, some between, and one of every size: what holds for them, holds for all."""
    step = max(1, len(queries) // _SAMPLE)
    chosen = {_size(query): query for query in queries[::-1]}
    return [queries[0], *queries[1:-1:step][:_SAMPLE], queries[-1], *list(chosen.values())[:_SAMPLE]]


def _size(query: Batch) -> int:
    return sum(value.numel() for value in tree_leaves((query.args, query.kwargs)) if isinstance(value, Tensor))


def site_numbers(member: Member, sites: Sequence[str] | None) -> frozenset[int] | None:
    """Return the numbers of the named sites."""
    if sites is None:
        return None
    paths = [site.path for site in member.masking.recipe.sites]
    unknown = [site for site in sites if site not in paths]
    if unknown or not sites:
        raise InfluenceError(
            f"sites={list(sites)!r}: {', '.join(map(repr, unknown)) or 'nothing'} is no site of this model. "
            f"Its sites: {', '.join(map(repr, paths))}."
        )
    return frozenset(paths.index(site) for site in sites)
