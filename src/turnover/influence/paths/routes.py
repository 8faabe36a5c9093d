"""The path that each model takes: the fastest that gives the same as the plainest, found on the first queries.

Which is right is found by comparing with an expanded batch under a few null ids, by the outputs of the model: scores
may be small where outputs are not. How many instances a chunk holds is measured on the largest query.
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from turnover.batches import Batch, null_ids
from turnover.influence.members import Member
from turnover.layers import tensors_in

from ._last_layer import LastLayer, LastLayerScorer, find_last_layer
from ._sites import find_shared_product
from .forward import Forward

_TRIAL_IDS = 4
_SAMPLE = 8
_MOST_IDS = 2048
_SMALL, _LARGE = 4, 12


class Scorer(Protocol):
    """Scores any instances on queries that it knows."""

    def scores(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        ...


@dataclass(frozen=True)
class Route:
    """The path that one model takes."""

    forward: Forward
    memory: int  # bytes that a chunk may take
    ids_per_chunk: int  # how many instances a chunk holds; 0: the last layer decides by itself
    last: LastLayer | None = None  # the last layer, where all pairs are one matrix product

    @property
    def path(self) -> str:
        """Return the path as scores name it."""
        return LastLayerScorer.path if self.last else self.forward.path

    def scorer(self, queries: Sequence[Batch]) -> Scorer:
        """Return what scores any instances on these queries."""
        if self.last is None:
            return _GenericScorer(self.forward, queries, self.ids_per_chunk)
        # Hidden units times classes times queries must fit, beside what a chunk takes.
        count = max(1, self.memory // (8 * self.last.linear.weight.numel()))
        parts = [
            LastLayerScorer(self.forward, self.last, queries[start : start + count], self.memory)
            for start in range(0, len(queries), count)
        ]
        return parts[0] if len(parts) == 1 else _SideBySide(parts)


class _SideBySide:
    """Several scorers whose queries stand one after the other."""

    def __init__(self, parts: Sequence[Scorer]) -> None:
        self._parts = parts

    def scores(self, ids: Tensor) -> Tensor:
        return torch.cat([part.scores(ids) for part in self._parts], 1)


class _GenericScorer:
    """Scores of any instances on a fixed list of queries, by forward passes."""

    def __init__(self, forward: Forward, queries: Sequence[Batch], ids_per_chunk: int) -> None:
        self._forward, self._ids_per_chunk = forward, ids_per_chunk
        self._queries = [(query, forward.full_values(query)) for query in queries]

    @torch.no_grad()  # here too: an executor may call it in a thread of its own, where gradients are on
    def scores(self, ids: Tensor) -> Tensor:
        result = torch.empty((len(ids), len(self._queries)))
        for start in range(0, len(ids), self._ids_per_chunk):
            part = ids[start : start + self._ids_per_chunk]
            # Masks are made once per chunk and serve all queries.
            with self._forward.chunk(part) as chunk:
                for column, (query, full_values) in enumerate(self._queries):
                    scores = self._forward.scores(query, full_values, chunk)
                    result[start : start + len(part), column] = scores.cpu()
        return result


class Routes:
    """The routes of an engine's models, found anew when models or the form of the queries change.

    Only the path over the last layer is kept: other paths depend on more than the first query.
    """

    def __init__(self, memory: int, *, compile: bool) -> None:
        self._memory, self._compile = memory, compile
        self._kept: tuple[Any, list[Route]] | None = None

    def find(self, forwards: Sequence[Forward], queries: Sequence[Batch], weights: Sequence[str]) -> list[Route]:
        """Return a route for each model; `weights` is a checksum of each."""
        first = queries[0]
        leaves = tree_leaves((first.args, first.kwargs, first.target))
        form = [(leaf.shape, leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        members: list[Member] = [forward.member for forward in forwards]
        if self._kept is not None and self._kept[0] == (list(weights), form):
            routes = self._kept[1]
            if all(route.forward.member is member for route, member in zip(routes, members, strict=True)):
                return routes
        routes = [self._find(forward, queries) for forward in forwards]
        self._kept = ((list(weights), form), routes) if all(route.last is not None for route in routes) else None
        return routes

    def _find(self, forward: Forward, queries: Sequence[Batch]) -> Route:
        """Return the fastest path that gives the same as the plainest on some of the queries."""
        if self._compile:
            forward = replace(forward, compiled=torch.compile(forward.member.model, dynamic=True))
        else:
            last = find_last_layer(forward, queries[0])
            if last is not None and _agrees(forward, last, queries[0], self._memory):
                return Route(forward, self._memory, 0, last)
        forward = _settled(forward, _sample(queries))
        eager, largest = replace(forward, compiled=None), max(queries, key=_size)
        full_values = eager.full_values(largest)

        def score(ids: Tensor) -> None:
            with eager.chunk(ids) as chunk:
                eager.scores(largest, full_values, chunk)

        return Route(forward, self._memory, ids_that_fit(score, self._memory))


def _agrees(forward: Forward, last: LastLayer, query: Batch, memory: int) -> bool:
    ids, expanded = null_ids(_TRIAL_IDS), replace(forward, broadcast=False)
    full_values = forward.full_values(query)
    with expanded.chunk(ids) as chunk:
        reference = expanded.scores(query, full_values, chunk).cpu()
    scores = LastLayerScorer(forward, last, [query], memory).scores(ids)[:, 0]
    return torch.allclose(scores, reference, rtol=forward.tolerance, atol=forward.tolerance, equal_nan=True)


def _sample(queries: Sequence[Batch]) -> list[Batch]:
    """Return the first query, the last, some between, and one of every size: what holds for them, holds for all."""
    step = max(1, len(queries) // _SAMPLE)
    by_size = {_size(query): query for query in queries[::-1]}
    chosen = [queries[0], *queries[1:-1:step][:_SAMPLE], queries[-1], *list(by_size.values())[:_SAMPLE]]
    return list({id(query): query for query in chosen}.values())


def _size(query: Batch) -> int:
    return sum(tensor.numel() for tensor in tensors_in((query.args, query.kwargs)))


def _settled(forward: Forward, queries: Sequence[Batch]) -> Forward:
    """Return the forward pass with broadcast where that equals the expanded batch, and the shared product where it can.

    What is wrong with the loss shows here, before the work.
    """
    expanded = replace(forward, broadcast=False)
    full_values = forward.full_values(queries[0])
    with expanded.chunk(null_ids(_TRIAL_IDS)) as chunk:
        expanded.scores(queries[0], full_values, chunk)
        reference = [expanded.outputs(query, chunk).float() for query in queries]
    if not _same_outputs(forward, queries, reference):
        return expanded
    if forward.against == "full" or forward.sites is not None:
        return forward
    product = find_shared_product(forward.member, queries[0])
    shared = None if product is None else replace(forward, shared=product)
    return shared if shared is not None and _same_outputs(shared, queries, reference) else forward


def broadcast_or_expanded(forward: Forward, query: Batch) -> Forward:
    """Return the forward pass with broadcast at the first site where that equals the expanded batch."""
    expanded = replace(forward, broadcast=False)
    with expanded.chunk(null_ids(_TRIAL_IDS)) as chunk:
        reference = expanded.outputs(query, chunk).float()
    return forward if _same_outputs(forward, [query], [reference]) else expanded


def _same_outputs(forward: Forward, queries: Sequence[Batch], reference: Sequence[Tensor]) -> bool:
    """Return whether a faster path gives the outputs of the reference for all queries; one that raises does not."""
    tolerance = forward.tolerance
    try:
        with forward.chunk(null_ids(_TRIAL_IDS)) as chunk:
            for query, expected in zip(queries, reference, strict=True):
                outputs = forward.outputs(query, chunk).float()
                finite = expected[expected.isfinite()]
                scale = float(finite.abs().max()) if len(finite) else 0.0
                if outputs.shape != expected.shape or not torch.allclose(
                    outputs, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True
                ):
                    return False
    except Exception:  # noqa: BLE001 - a model that cannot broadcast fails in its own way
        return False
    return True


def ids_that_fit(compute: Callable[[Tensor], None], memory: int) -> int:
    """Return how many instances fit into the memory, by the peaks of two small chunks of null ids."""
    peaks = []
    for count in (_SMALL, _LARGE):
        with _PeakMemory() as measured:
            compute(null_ids(count))
        peaks.append(measured.peak)
    per_id = max(1, (peaks[1] - peaks[0]) // (_LARGE - _SMALL))
    fixed = max(0, peaks[0] - _SMALL * per_id)
    return int(max(1, min(_MOST_IDS, (memory - fixed) // per_id)))


class _PeakMemory(TorchDispatchMode):
    """Counts the bytes of every new tensor while it lives; `peak` is the most at one time, on any device."""

    def __init__(self) -> None:
        """Start at zero."""
        super().__init__()
        self.peak = 0
        # By the address of the memory: its bytes, and the tensors that are or were views of it.
        self._alive: dict[int, tuple[int, list[weakref.ref[Tensor]]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and note what it made."""
        result = func(*args, **(kwargs or {}))
        made = [value for value in tree_leaves(result) if isinstance(value, Tensor)]
        if not made:
            return result
        given = {
            value.untyped_storage().data_ptr() for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)
        }
        self._alive = {key: entry for key, entry in self._alive.items() if any(view() is not None for view in entry[1])}
        for value in made:
            storage = value.untyped_storage()
            key = storage.data_ptr()
            if key in self._alive:
                self._alive[key][1].append(weakref.ref(value))
            elif key not in given:
                self._alive[key] = storage.nbytes(), [weakref.ref(value)]
        self.peak = max(self.peak, sum(size for size, _ in self._alive.values()))
        return result
