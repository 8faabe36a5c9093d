"""One query under the masks of many instances, in both views, in one forward pass.

The query enters as a batch of one and is broadcast at the first site; everything before it runs once. Where the model
does not allow that (torch.cat with something that stayed at one row, padding masks of nn.TransformerEncoder, additions
in place), the batch is expanded before the model instead.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from turnover.batches import Batch, null_ids
from turnover.influence.ensemble import Member
from turnover.influence.measures import Measure
from turnover.layers import VIEWS, Instances, Site, View, factors_by_table, map_tensors, tensors_in
from turnover.masks import words_for

_TRIAL_IDS = 2
_SAMPLE, _PAIRS_PER_SAMPLE = 8, 1024
_MOST_IDS = 2048
_LEAST_IDS = 8  # in a chunk, where one instance fills the cache: products of fewer rows are slow
_CACHE = 24 * 2**20
"""Bytes of a chunk that a processor's cache holds: beyond it, activations of convolutions go through the memory.

A constant, so that the same bytes come out on any machine."""


class Chunk(Instances):
    """Active instances whose factors are made once and serve every query: all rows of one view, then of the next.

    Views are ("keep", "flip"), ("full", "flip") or only one. Sites that are not in `flips` stay in keep view; None:
    all are flipped.
    """

    def __init__(self, ids: Tensor, views: Iterable[View], *, flips: frozenset[int] | None = None) -> None:
        """Lay the views one after the other."""
        self._row_views: list[View] = list(views)
        count = len(self._row_views)
        codes = _row_codes(tuple(self._row_views), len(ids)) if count > 1 else self._row_views[0]
        super().__init__(ids.repeat(count), codes)
        self.count = len(ids)
        self._flips = flips
        self._once = Instances(ids, "keep")  # words of the instances themselves: both views share them
        self._made: dict[tuple[int, int, torch.dtype, torch.device], Tensor] = {}

    def factors(self, site: Site, x: Tensor, width: int) -> Tensor:
        """Return the factors [rows, width] of a site."""
        key = (site.index, width, x.dtype, x.device)
        if key not in self._made:
            words = self._once.words(site, x.device, width)[:, : words_for(width)]
            flips = self._flips is None or site.index in self._flips
            rows: list[View] = [view if flips or view != "flip" else "keep" for view in self._row_views]
            if len(rows) > 1:
                # Every replica has its own rows in all views, then comes the next.
                by_replica = words.view(site.replicas, 1, self.count, -1)
                words = by_replica.expand(-1, len(rows), -1, -1).reshape(len(rows) * len(words), -1)
                codes: int | Tensor = _row_codes(tuple(rows), self.count).to(x.device).repeat(site.replicas)
            else:
                codes = VIEWS.index(rows[0])
            self._made[key] = factors_by_table(words, width, codes, site.recipe.keep, x.dtype)
        return self._made[key]


@lru_cache(maxsize=64)
def _row_codes(views: tuple[View, ...], count: int) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor([VIEWS.index(view) for view in views], dtype=torch.int32).repeat_interleave(count)


@dataclass(frozen=True)
class Subnetworks:
    """One member as its kept and flipped subnetworks."""

    member: Member
    measure: Measure
    against: Literal["keep", "full"] = "keep"  # what the flipped subnetwork is compared with
    flips: frozenset[int] | None = None  # numbers of the sites that are flipped; None: all
    compiled: Any = None  # the compiled model; None: the model itself runs
    broadcast: bool = False  # a query is broadcast at the first site; else its batch is expanded before the model

    @property
    def path(self) -> str:
        return "broadcast at the first site" if self.broadcast else "expanded batch"

    @property
    def views(self) -> tuple[View, ...]:
        """Return the views that every instance is seen in; the full network is the same for all."""
        return ("keep", "flip") if self.against == "keep" else ("flip",)

    @property
    def tolerance(self) -> float:
        return 1e-4 if self.member.dtype in (None, torch.float32) else 0.1

    @contextmanager
    def chunk(self, ids: Tensor) -> Iterator[Chunk]:
        """Make a chunk of instances active: kept rows first, then flipped ones."""
        chunk = Chunk(ids, self.views, flips=self.flips)
        with chunk:
            yield chunk

    def outputs(self, query: Batch, chunk: Chunk) -> Tensor:
        """Return the model's outputs [rows, ...] for one query and the active chunk."""
        rows, args, kwargs = len(chunk), query.args, query.kwargs
        if not self.broadcast:
            args, kwargs = map_tensors((args, kwargs), lambda tensor: _expanded(tensor, rows))
        return self.member.run(args, kwargs, rows, compiled=self.compiled)

    def full_values(self, query: Batch) -> Tensor | None:
        if self.against == "keep":
            return None
        return self.measure(self.member.run(query.args, query.kwargs, query.rows), query.target)

    def scores(self, query: Batch, full_values: Tensor | None, chunk: Chunk) -> Tensor:
        """Return the scores [instances] of one query in the active chunk: positive where the instance helps."""
        outputs = self.outputs(query, chunk)
        targets = map_tensors(query.target, lambda tensor: _expanded(tensor, len(outputs)))
        values = self.measure(outputs, targets)
        if full_values is not None:
            return full_values - values
        return values[: chunk.count] - values[chunk.count :]

    def broadcasts(self, queries: Sequence[Batch]) -> bool:
        """Tell whether broadcasting gives the outputs of the expanded batch for some queries, under a few null ids."""
        plain, fast = (replace(self, broadcast=broadcast) for broadcast in (False, True))
        with self.chunk(null_ids(_TRIAL_IDS)) as chunk:
            references = [plain.outputs(query, chunk).float() for query in queries]
        try:
            with self.chunk(null_ids(_TRIAL_IDS)) as chunk:
                outputs = [fast.outputs(query, chunk).float() for query in queries]
        except Exception:  # noqa: BLE001 - a model that cannot broadcast fails in its own way
            return False
        return all(self._same(*pair) for pair in zip(outputs, references, strict=True))

    def _same(self, outputs: Tensor, reference: Tensor) -> bool:
        finite = reference[reference.isfinite()]
        scale = float(finite.abs().max()) if len(finite) else 0.0
        tolerance = {"rtol": self.tolerance, "atol": self.tolerance * scale, "equal_nan": True}
        return outputs.shape == reference.shape and torch.allclose(outputs, reference, **tolerance)

    def ids_per_chunk(self, memory: int, compute: Callable[[Tensor], Any]) -> int:
        """Return how many instances a chunk holds: as many as fit into the memory and, on a processor, its cache."""
        small, large = (_peak_of(compute, count) for count in (2, 4))
        per_id = max(1, (large - small) // 2)
        fixed = max(0, small - 2 * per_id)
        count = int(max(1, min(_MOST_IDS, (memory - fixed) // per_id)))
        if self.member.device.type == "cpu":
            count = min(count, max(_LEAST_IDS, (_CACHE - fixed) // per_id))
        return count


def _expanded(tensor: Tensor, rows: int) -> Tensor:
    one_row = tensor.dim() > 0 and tensor.shape[0] == 1
    return tensor.expand(rows, *tensor.shape[1:]).contiguous() if one_row else tensor


def size_of(query: Batch) -> int:
    return sum(tensor.numel() for tensor in tensors_in((query.args, query.kwargs)))


def sample(queries: Sequence[Batch], pairs: int) -> list[Batch]:
    """Return the first query, the last, one of every size and, the more pairs there are, some between."""
    by_size = {size_of(query): query for query in queries[::-1]}
    between = min(_SAMPLE, pairs // _PAIRS_PER_SAMPLE)
    step = max(1, len(queries) // max(between, 1))
    chosen = [queries[0], *queries[1:-1:step][:between], queries[-1], *list(by_size.values())[:_SAMPLE]]
    return list({id(query): query for query in chosen}.values())


class _Counting(TorchDispatchMode):
    """Counts the bytes of new tensors while they live; `peak` is the most at one time, on any device."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        # By the address of the memory: its bytes, and the tensors that are or were views of it.
        self._alive: dict[int, tuple[int, list[weakref.ref[Tensor]]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {
            value.untyped_storage().data_ptr() for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)
        }
        self._alive = {key: entry for key, entry in self._alive.items() if any(view() is not None for view in entry[1])}
        for value in tree_leaves(result):
            if not isinstance(value, Tensor):
                continue
            key = value.untyped_storage().data_ptr()
            if key in self._alive:
                self._alive[key][1].append(weakref.ref(value))
            elif key not in given:
                self._alive[key] = value.untyped_storage().nbytes(), [weakref.ref(value)]
        self.peak = max(self.peak, sum(size for size, _ in self._alive.values()))
        return result


def _peak_of(compute: Callable[[Tensor], Any], count: int) -> int:
    with _Counting() as counting:
        compute(null_ids(count))
    return counting.peak
