"""The path that each model takes: the fastest that gives the same as the plainest, found on the first queries.

Which is right is found by comparing with an expanded batch under a few null ids, by the outputs of the model: scores
may be small where outputs are not. Their scores are kept, as the first of the null. How many instances a chunk holds is
measured on the largest query: as many as the cache holds, where the memory allows it. A trial must be worth what a
faster path saves: for few pairs it is made once for all questions to a model with queries of the same form, and not
before these have asked for enough work; until then they take the plainest path.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from turnover.batches import Batch, null_ids
from turnover.influence.members import Member
from turnover.layers import Site, tensors_in

from ._last_layer import LastLayer, LastLayerScorer, OtherLayerError, find_last_layer
from ._packed import PackedLinears
from ._sites import PRODUCTS, SharedProduct
from .forward import Forward
from .needs import Counted, need_of
from .trials import TRIAL_IDS, fastest_agreeing, last_layer_agrees, plainest

_FEWEST_TRIAL_IDS = 2
_SAMPLE = 8
_PAIRS_PER_SAMPLE = 1024  # pairs for each query that is tried
_FEW_PAIRS = 1024
"""Up to here a trial for every question, and measuring what a chunk takes, would cost more than it can save."""
_PASSES_OF_TRIAL, _PAIRS_OF_TRIAL = 5, 9
_CALLS = 2.5e7
"""Multiplications, in each view, that take as long as the calls of a pass."""
_WORTH = 4.0
"""As many trials could be made in the time of few pairs, in all questions so far, before one is made."""
_MANY_PAIRS = 2**31
_FEW_IDS = 104
"""A chunk whose memory is not measured: about the hundred rows that a plain loop takes at once, in each view."""
_MOST_PACKED = 64 * 2**20
"""Bytes of weights that are packed for few pairs: they are kept with the model."""
_CACHE = 24 * 2**20
"""Bytes of a chunk that a processor's cache holds: beyond it, activations of convolutions go through the memory.

A constant, so that the same bytes come out on any machine."""
_LEAST_IDS = 8
"""In a chunk, where one instance fills the cache: products of fewer rows are slow."""
_LAST_LAYER_SAVING = 32.0


class Scorer(Protocol):
    """Scores any instances on queries that it knows."""

    def scores(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        ...

    def null_scores(self, ids: Tensor) -> Tensor:
        """Return the scores of the first null ids; of the trial, where it had them."""
        ...


@dataclass(frozen=True)
class Route:
    """The path that one model takes."""

    forward: Forward
    memory: int  # bytes that a chunk may take
    ids_per_chunk: int  # how many instances a chunk holds; 0: the last layer decides by itself
    last: LastLayer | None = None  # the last layer, where all pairs are one matrix product
    saving: float = 1.0  # how many times less work a pair is than in a plain loop
    # Scores of the first null ids in the trial, by the address of the query, with the query itself.
    tried: Mapping[int, tuple[Batch, Tensor]] = field(default_factory=dict)
    is_of_few: bool = False  # whether few pairs are asked for: instances and null ids go through in the same passes

    @property
    def path(self) -> str:
        """Return the path as scores name it."""
        return LastLayerScorer.path if self.last else self.forward.path

    def scorer(self, queries: Sequence[Batch]) -> Scorer:
        """Return what scores any instances on these queries."""
        if self.last is None:
            twin = plainest(self.forward) if self.is_of_few else None
            return _GenericScorer(self.forward, queries, self.ids_per_chunk, self.tried, twin)
        # Hidden units times classes times queries must fit, beside what a chunk takes.
        count = max(1, self.memory // (8 * self.last.linear.weight.numel()))
        try:
            parts = [
                LastLayerScorer(self.forward, self.last, queries[start : start + count], self.memory)
                for start in range(0, len(queries), count)
            ]
        except OtherLayerError:
            return _GenericScorer(plainest(self.forward), queries, _FEW_IDS, {}, None)
        return parts[0] if len(parts) == 1 else _SideBySide(parts)


class _SideBySide:
    """Several scorers whose queries stand one after the other."""

    def __init__(self, parts: Sequence[Scorer]) -> None:
        self._parts = parts

    def scores(self, ids: Tensor) -> Tensor:
        return torch.cat([part.scores(ids) for part in self._parts], 1)

    def null_scores(self, ids: Tensor) -> Tensor:
        return self.scores(ids)


class _GenericScorer:
    """Scores of any instances on a fixed list of queries, by forward passes."""

    def __init__(
        self,
        forward: Forward,
        queries: Sequence[Batch],
        ids_per_chunk: int,
        tried: Mapping[int, tuple[Batch, Tensor]],
        twin: Forward | None,  # the plainest path, for queries on which one fails that was tried on others
    ) -> None:
        self._forward, self._ids_per_chunk, self._tried, self._twin = forward, ids_per_chunk, tried, twin
        self._queries = [(query, forward.full_values(query)) for query in queries]

    @torch.no_grad()  # here too: an executor may call it in a thread of its own, where gradients are on
    def scores(self, ids: Tensor) -> Tensor:
        try:
            return self._scores(self._forward, ids)
        except Exception:
            if self._twin is None:
                raise
            return self._scores(self._twin, ids)

    def _scores(self, forward: Forward, ids: Tensor) -> Tensor:
        result = torch.empty((len(ids), len(self._queries)))
        for start in range(0, len(ids), self._ids_per_chunk):
            part = ids[start : start + self._ids_per_chunk]
            # Masks are made once per chunk and serve all queries.
            with forward.chunk(part) as chunk:
                for column, (query, full_values) in enumerate(self._queries):
                    scores = forward.scores(query, full_values, chunk)
                    result[start : start + len(part), column] = scores.cpu()
        return result

    def null_scores(self, ids: Tensor) -> Tensor:
        tried = [self._tried.get(id(query)) for query, _ in self._queries]
        known = [scores for one in tried if one is not None for scores in one[1:]]
        # Where some queries were not tried, their passes cost as much as those of all.
        if len(known) < len(tried):
            return self.scores(ids)
        first = torch.stack(known, 1)[: len(ids)]
        return torch.cat([first, self.scores(ids[len(first) :])]) if len(first) < len(ids) else first


class Routes:
    """The routes of an engine's models, found anew when models or the form of the queries change.

    Of many pairs only the path over the last layer is kept: other paths depend on more than the first query.
    """

    def __init__(self, memory: int, *, compile: bool) -> None:
        self._memory, self._compile = memory, compile
        self._kept: tuple[Any, list[Route]] | None = None

    def find(
        self,
        forwards: Sequence[Forward],
        queries: Sequence[Batch],
        weights: Sequence[str],
        *,
        ids: int,
        tries: bool = True,
    ) -> list[Route]:
        """Return a route for each model, for so many instances; `weights` is a checksum of each.

        `tries` says whether few pairs go through a trial of their own, too, and have their chunks measured: where both
        must be the same in a later run.
        """
        pairs = ids * len(queries) if not tries else _MANY_PAIRS
        if pairs <= _FEW_PAIRS and not self._compile:
            digests = zip(forwards, weights, strict=True)
            return [self._of_few(forward, queries, ids, digest) for forward, digest in digests]
        form = _form(queries[0])
        members: list[Member] = [forward.member for forward in forwards]
        if self._kept is not None and self._kept[0] == (list(weights), form):
            routes = self._kept[1]
            if all(route.forward.member is member for route, member in zip(routes, members, strict=True)):
                return routes
        routes = [self._find(forward, queries, pairs) for forward in forwards]
        self._kept = ((list(weights), form), routes) if all(route.last is not None for route in routes) else None
        return routes

    def _find(self, forward: Forward, queries: Sequence[Batch], pairs: int) -> Route:
        """Return the fastest path that gives the same as the plainest on some of the queries."""
        if self._compile:
            forward = replace(forward, compiled=torch.compile(forward.member.model, dynamic=True))
        else:
            last = find_last_layer(forward, queries[0])
            if last is not None and last_layer_agrees(forward, last, queries[0], self._memory):
                return Route(forward, self._memory, 0, last, _LAST_LAYER_SAVING)
        packed = None if self._compile else PackedLinears()
        forward, tried = fastest_agreeing(forward, _sample(queries, pairs), null_ids(TRIAL_IDS), packed)
        # Packed weights show neither their memory nor their work.
        eager, largest = replace(forward, compiled=None, packed=None), max(queries, key=_size)
        full_values = eager.full_values(largest)

        def score(ids: Tensor) -> None:
            with eager.chunk(ids) as chunk:
                eager.scores(largest, full_values, chunk)

        need = need_of(score)
        count = need.ids_within(self._memory)
        if forward.member.device.type == "cpu":
            count = min(count, max(_LEAST_IDS, need.ids_within(_CACHE)))
        with Counted() as full:
            largest.logits(forward.member.model)
        saving = len(forward.views) * full.products / need.products_per_id if need.products_per_id else 1.0
        return Route(forward, self._memory, count, saving=saving, tried=tried)

    def _of_few(self, forward: Forward, queries: Sequence[Batch], ids: int, weights: str) -> Route:
        """Return the route of few pairs, by the path that was found on queries of the same forms."""
        known, forms = _known_paths(forward, weights), {_form(query): query for query in queries}
        new = {form: query for form, query in forms.items() if form not in known.by_form}
        worth = not new or known.are_worth_a_trial(forward.member.model, queries, ids)
        if new and worth:
            tried = dict(list(new.items())[:_SAMPLE])
            known.by_form |= dict.fromkeys(tried, self._path_of_few(forward, list(tried.values()), known.packed))
        paths = {known.by_form[form] for form in forms if form in known.by_form}
        path = paths.pop() if worth and len(paths) == 1 else _PLAINEST
        forward, last = path.on(forward, known.packed)
        return Route(forward, self._memory, _FEW_IDS, last, is_of_few=True)

    def _path_of_few(self, forward: Forward, queries: Sequence[Batch], packed: PackedLinears) -> "_Path":
        lasts = [find_last_layer(forward, query) for query in queries]
        pairs = zip(lasts, queries, strict=True)
        if all(last is not None and last_layer_agrees(forward, last, query, self._memory) for last, query in pairs):
            return _Path.of(forward, lasts[0])
        linears = [module for module in forward.member.model.modules() if isinstance(module, nn.Linear)]
        packs = sum(linear.weight.nbytes for linear in linears) <= _MOST_PACKED
        settled, _ = fastest_agreeing(forward, queries, null_ids(_FEWEST_TRIAL_IDS), packed if packs else None)
        return _Path.of(settled)


@dataclass(frozen=True)
class _Path:
    """A path by names, so that it can be kept as long as its model lives, and no longer."""

    broadcast: bool = False
    packs: bool = False
    shared: tuple[int, float, str] | None = None  # number and keep rate of the first site, path of the module behind it
    last: str | None = None  # path of the last layer, where all pairs are one matrix product

    @classmethod
    def of(cls, forward: Forward, last: LastLayer | None = None) -> "_Path":
        """Return the path of a forward pass."""
        names = {module: name for name, module in forward.member.model.named_modules()}
        if last is not None:
            return cls(forward.broadcast, last=names[last.linear])
        shared = forward.shared
        product = None if shared is None else (shared.site, shared.keep, names[shared.module])
        return cls(forward.broadcast, forward.packed is not None, product)

    def on(self, forward: Forward, packed: PackedLinears) -> tuple[Forward, LastLayer | None]:
        """Return the forward pass of a model on this path, and its last layer where it goes by that."""
        module_at: Any = forward.member.model.get_submodule
        if self.last is not None:
            return forward, LastLayer(Site(forward.member.masking, 0), module_at(self.last))
        shared = None if self.shared is None else SharedProduct(*self.shared[:2], module_at(self.shared[2]))
        parts = {"broadcast": self.broadcast, "shared": shared, "packed": packed if self.packs else None}
        return replace(forward, **parts, keeps_words=True), None


_PLAINEST = _Path()


@dataclass
class _KnownPaths:
    """The paths that were found for few pairs of one model."""

    key: tuple[Any, ...]  # its weights, and what else a path depends on
    by_form: dict[Any, _Path] = field(default_factory=dict)
    packed: PackedLinears = field(default_factory=PackedLinears)
    asked: float = 0.0  # time of all pairs, on queries of forms that no path was tried on, in that of a trial

    def are_worth_a_trial(self, model: nn.Module, queries: Sequence[Batch], ids: int) -> bool:
        """Return whether a question on so many instances, and those before it, make up for a trial."""
        products, passes = _products_of_row(model, queries[0]), -(-ids // _FEW_IDS)
        trial = _PASSES_OF_TRIAL * _CALLS + _PAIRS_OF_TRIAL * products
        asked = self.asked + len(queries) * (passes * _CALLS + ids * products) / trial
        self.asked = 0.0 if asked >= _WORTH else asked
        return asked >= _WORTH


_known: "weakref.WeakKeyDictionary[nn.Module, _KnownPaths]" = weakref.WeakKeyDictionary()


def _known_paths(forward: Forward, weights: str) -> _KnownPaths:
    """Return the paths that are known of a model with these weights."""
    key = weights, forward.against, forward.sites, forward.dtype
    known = _known.get(forward.member.model)
    if known is None or known.key != key:
        known = _known[forward.member.model] = _KnownPaths(key)
    return known


def _products_of_row(model: nn.Module, query: Batch) -> float:
    """Return about how many multiplications a row takes, without a pass: weights times tokens, filters times pixels."""
    tensors = list(tensors_in((query.args, query.kwargs)))
    tokens = max((tensor.numel() for tensor in tensors if not tensor.is_floating_point()), default=1)
    pixels = max((tensor.shape[2:].numel() for tensor in tensors), default=1)
    layers = [module for module in model.modules() if isinstance(module, PRODUCTS)]
    return sum(layer.weight.numel() * (tokens if isinstance(layer, nn.Linear) else pixels) for layer in layers)


def _form(query: Batch) -> tuple[Any, ...]:
    """Return what queries must share for a path that is right on one of them to be tried on no other."""
    leaves = tree_leaves((query.args, query.kwargs, query.target))
    values = [(leaf.shape, leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else str(leaf) for leaf in leaves]
    return (*query.kwargs, *values)


def _sample(queries: Sequence[Batch], pairs: int) -> list[Batch]:
    """Return the first query, the last, some between, and one of every size: what holds for them, holds for all.

    The fewer pairs there are, the fewer of them are tried between.
    """
    between = min(_SAMPLE, pairs // _PAIRS_PER_SAMPLE)
    step = max(1, len(queries) // max(between, 1))
    by_size = {_size(query): query for query in queries[::-1]}
    chosen = [queries[0], *queries[1:-1:step][:between], queries[-1], *list(by_size.values())[:_SAMPLE]]
    return list({id(query): query for query in chosen}.values())


def _size(query: Batch) -> int:
    return sum(tensor.numel() for tensor in tensors_in((query.args, query.kwargs)))
