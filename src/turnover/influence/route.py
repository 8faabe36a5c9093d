"""Which way scores are computed for a model, found out on the first query and kept for all others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from turnover.errors import InfluenceError

from .forward import Pass, base_goodness, chunk, scores_of, settle
from .generic import GenericScorer, fit_chunk
from .last_layer import LastLayer, LastLayerScorer, find_last_layer
from .measures import Goodness
from .members import Member
from .options import Options
from .queries import Batch

Scorer = GenericScorer | LastLayerScorer
_TRIAL = 4
_TOLERANCE = 1e-4


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
            return LastLayerScorer(self.work, self.last, queries, self.memory)
        return GenericScorer(self.work, queries, self.ids_per_chunk)


def find_route(member: Member, goodness: Goodness, options: Options, query: Batch, ids: Tensor) -> Route:
    """Return the fastest way that gives the same scores as the plainest on the first instances and query."""
    sites = site_numbers(member, options.sites)
    call: Any = torch.compile(member.model, dynamic=True) if options.compile else None
    work = Pass(member, goodness, options.against, sites, options.dtype, call=call)
    work = settle(work, query, ids)
    last = None if options.compile else find_last_layer(work, query)
    if last is not None and _agrees(work, last, query, ids[:_TRIAL], options.memory):
        return Route(work, options.memory, 0, last)
    return Route(work, options.memory, fit_chunk(replace(work, call=None), query, ids, options.memory))


def _agrees(work: Pass, last: LastLayer, query: Batch, ids: Tensor, memory: int) -> bool:
    base = base_goodness(work, query)
    with chunk(work, ids) as now:
        wanted = scores_of(work, query, base, now).cpu()
    found = LastLayerScorer(work, last, [query], memory).scores(ids)[:, 0]
    tolerance = _TOLERANCE if work.dtype in (None, torch.float32) else 0.1
    return torch.allclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


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
