"""The generic path: one query, many instances, both views, one forward pass.

The query enters as a batch of one and is broadcast at the first site; everything before it runs once. Where the model
does not allow that (torch.cat with something that stayed at one row, padding masks of nn.TransformerEncoder, additions
in place), the batch is expanded before the model instead.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from turnover.batches import Batch, logits_of
from turnover.errors import InfluenceError
from turnover.influence.measures import Measure
from turnover.influence.members import Member
from turnover.layers import (
    VIEWS,
    Instances,
    Site,
    View,
    active_instances,
    factors_by_table,
    map_tensors,
    scales,
)
from turnover.masks import rounded_keep, words_for

from ._packed import PackedLinears
from ._sites import SharedProduct


class Chunk(Instances):
    """Active instances whose factors are made once and serve every query: all rows of one view, then of the next.

    Views are ("keep", "flip"), ("full", "flip") or only one. Sites that are not in `flip_sites` stay in keep view;
    None: all are flipped. `once` are the same ids with mask words that were hashed before; None: they are hashed here.
    """

    def __init__(
        self,
        ids: Tensor,
        views: Iterable[View],
        *,
        flip_sites: frozenset[int] | None = None,
        once: Instances | None = None,
    ) -> None:
        """Lay the views one after the other."""
        self._row_views: list[View] = list(views)
        count = len(self._row_views)
        codes = _row_codes(tuple(self._row_views), len(ids)) if count > 1 else self._row_views[0]
        super().__init__(ids.repeat(count), codes)
        self.count = len(ids)
        self._flip_sites = flip_sites
        # Words of the instances themselves: both views share them.
        self._once = once or Instances(ids, "keep")
        # For a shared product: the site that hands on kept rows only, and what it saw before masking.
        self.half_site: int | None = None
        self.unmasked: Tensor | None = None
        self._made: dict[tuple[int, int, torch.dtype, torch.device, bool], Tensor] = {}

    def factors(self, site: Site, x: Tensor, width: int) -> Tensor:
        """Return the factors [rows, width] of a site; of kept rows only at the half site."""
        half = site.index == self.half_site
        if half:
            self.unmasked = x
        key = (site.index, width, x.dtype, x.device, half)
        if key not in self._made:
            self._made[key] = self._fresh_factors(site, x, width, ["keep"] if half else self._row_views)
        return self._made[key]

    def _fresh_factors(self, site: Site, x: Tensor, width: int, views: list[View]) -> Tensor:
        words = self._once.words(site, x.device, width)[:, : words_for(width)]
        flips = self._flip_sites is None or site.index in self._flip_sites
        rows: list[View] = [view if flips or view != "flip" else "keep" for view in views]
        if len(rows) > 1:
            # Every replica has its own rows in all views, then comes the next.
            by_replica = words.view(site.replicas, 1, self.count, -1)
            words = by_replica.expand(-1, len(rows), -1, -1).reshape(len(rows) * len(words), -1)
            codes: int | Tensor = _row_codes(tuple(rows), self.count).to(x.device).repeat(site.replicas)
        else:
            codes = VIEWS.index(rows[0])
        return factors_by_table(words, width, codes, site.recipe.keep, x.dtype)


@lru_cache(maxsize=16)
def _ids_with_words(masks: int, ids: bytes) -> Instances:
    """Return instances that keep their mask words; `masks` is the handle of a model's masks.

    Words depend on nothing else. On few rows hashing them takes a third of a pass, and questions to one model are
    mostly about the same ids.
    """
    return Instances(torch.frombuffer(bytearray(ids), dtype=torch.int64), "keep")


@lru_cache(maxsize=64)
def _row_codes(views: tuple[View, ...], count: int) -> Tensor:
    """Return the view codes of so many rows of each view, one view after the other."""
    with torch.inference_mode(False):
        return torch.tensor([VIEWS.index(view) for view in views], dtype=torch.int32).repeat_interleave(count)


_BROADCAST, _EXPANDED, _SHARED = "broadcast at the first site", "expanded batch", ", first product shared"


@dataclass(frozen=True)
class Forward:
    """How one model's rows are computed."""

    member: Member
    measure: Measure
    against: Literal["keep", "full"] = "keep"  # what the flipped subnetwork is compared with
    sites: frozenset[int] | None = None  # numbers of the sites that are flipped; None: all
    dtype: torch.dtype | None = None  # run under autocast in this type
    broadcast: bool = True  # a query is broadcast at the first site; else its batch is expanded before the model
    shared: SharedProduct | None = None  # the first product, where only kept rows go through it
    compiled: Any = None  # the compiled model; None: the model itself runs
    packed: PackedLinears | None = None  # layers over tokens, where their weights are packed
    keeps_words: bool = False  # the mask words of the last few ids are kept for the next question

    @property
    def path(self) -> str:
        """Return the path as scores name it."""
        name = _BROADCAST if self.broadcast else _EXPANDED
        return f"{name}{_SHARED}" if self.shared else name

    @property
    def views(self) -> tuple[View, ...]:
        """Return the views that every instance is seen in; the full network is the same for all."""
        return ("keep", "flip") if self.against == "keep" else ("flip",)

    @property
    def tolerance(self) -> float:
        """Return how far a faster path may be off, relative to the size of the outputs."""
        return 1e-4 if self.dtype in (None, torch.float32, torch.float64) else 0.1

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context of a lower precision where one is set."""
        if self.dtype is None or self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.member.device.type, dtype=self.dtype)

    @contextmanager
    def chunk(self, ids: Tensor) -> Iterator[Chunk]:
        """Make a chunk of instances active: kept rows first, then flipped ones."""
        once = _ids_with_words(self.member.masking.handle, ids.numpy().tobytes()) if self.keeps_words else None
        chunk = Chunk(ids, self.views, flip_sites=self.sites, once=once)
        if self.shared is None:
            with chunk:
                yield chunk
            return
        chunk.half_site = self.shared.site
        # First of all hooks: what others do to the product, a mask on it for example, they do to all rows.
        hook = self.shared.module.register_forward_hook(_adding_flipped_rows(self.shared, chunk), prepend=True)
        try:
            with chunk:
                yield chunk
        finally:
            hook.remove()
            chunk.half_site = None

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int) -> Tensor:
        """Return the model's outputs [rows, ...] in the precision of this path, or say what is wrong with them."""
        model = self.compiled or self.member.model
        with self.precision(), self.packed or nullcontext():
            outputs = logits_of(model(*args, **kwargs))
        if not isinstance(outputs, Tensor):
            raise InfluenceError(
                f"the model returned a {type(outputs).__name__}. Return a tensor, a tuple that begins with one, or "
                "something with .logits."
            )
        if outputs.dim() == 0 or outputs.shape[0] != rows:
            raise InfluenceError(
                f"the model returned outputs of shape {list(outputs.shape)} for {rows} rows. "
                "Their first dimension must be the batch."
            )
        return outputs

    def outputs(self, query: Batch, chunk: Chunk) -> Tensor:
        """Return the model's outputs [rows, ...] for one query and the active chunk."""
        rows = len(chunk)
        if self.broadcast:
            return self.run(query.args, query.kwargs, rows)
        args, kwargs = map_tensors((query.args, query.kwargs), lambda tensor: _expanded(tensor, rows))
        return self.run(args, kwargs, rows)

    def full_values(self, query: Batch) -> Tensor | None:
        """Return the measure of the full network on a query where scores are taken against it, else None."""
        if self.against == "keep":
            return None
        outputs = replace(self, compiled=None).run(query.args, query.kwargs, query.rows)
        return self.measure(outputs, query.target)

    def scores(self, query: Batch, full_values: Tensor | None, chunk: Chunk) -> Tensor:
        """Return the scores [instances] of one query in the active chunk: positive where the instance helps."""
        return self.scores_of(self.outputs(query, chunk), query, full_values, chunk)

    def scores_of(self, outputs: Tensor, query: Batch, full_values: Tensor | None, chunk: Chunk) -> Tensor:
        """Return the scores [instances] of one query by the outputs in the active chunk."""
        targets = map_tensors(query.target, lambda tensor: _expanded(tensor, len(outputs)))
        values = self.measure(outputs, targets)
        if full_values is not None:
            return full_values - values
        return values[: chunk.count] - values[chunk.count :]


def _expanded(tensor: Tensor, rows: int) -> Tensor:
    """Return a tensor of one row repeated, any other as it is."""
    one_row = tensor.dim() > 0 and tensor.shape[0] == 1
    return tensor.expand(rows, *tensor.shape[1:]).contiguous() if one_row else tensor


def _adding_flipped_rows(shared: SharedProduct, chunk: Chunk) -> Any:
    """Return the hook that adds the flipped rows behind a product that only kept rows went through."""
    rate, (_, flip_scale) = rounded_keep(shared.keep), scales(shared.keep)

    def add_flipped(module: nn.Module, args: tuple[Any, ...], kept: Tensor) -> Tensor | None:
        # Another thread may use the same model: its rows are not ours.
        if active_instances() is not chunk or chunk.unmasked is None:
            return None
        whole, chunk.unmasked = chunk.unmasked, None
        # (total - rate * (kept - bias)) * flip_scale + bias, gathered so that only one operation runs over all rows.
        constant, bias = module.forward(whole) * flip_scale, shared.bias(kept)
        if bias is not None:
            constant = constant + bias * (1 + rate * flip_scale - flip_scale)
        both = kept.new_empty((2 * kept.shape[0], *kept.shape[1:]))
        both[: chunk.count] = kept
        torch.sub(constant, kept, alpha=rate * flip_scale, out=both[chunk.count :])
        return both

    return add_flipped


def with_predicted_target(forwards: Sequence[Forward], query: Batch) -> Batch:
    """Return the query with the label that the full network gives it, the mean of all members, as its target."""
    outputs = [query.logits(forward.member.model) for forward in forwards]
    if not all(isinstance(output, Tensor) and output.dim() > 1 for output in outputs):
        raise InfluenceError("at_label='predicted' needs class scores [rows, classes]. Give the queries targets.")
    return replace(query, target=torch.stack([output.float() for output in outputs]).mean(0).argmax(-1))
