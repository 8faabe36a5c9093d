"""Which instances and which view are active in this forward pass.

The active instances live in a context variable, so threads and asyncio tasks do not see each other's.
"""

import copy
from collections.abc import Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import (
    NestedInstancesError,
    RecomputationError,
    RepeatBeforeForwardError,
    ReplicaError,
    SiteNotReachedError,
)
from turnover.masks import Stream, words_for

from .as_ids import as_ids
from .masking import Masking, Site
from .scale import factors_by_table
from .tensors import map_tensors
from .views import FULL, KEEP, View, view_codes

Call = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
T = TypeVar("T")

_active: ContextVar["Instances | None"] = ContextVar("turnover_instances", default=None)


def active_instances() -> "Instances | None":
    """Return the instances of this thread or task, or None outside `turnover.instances`."""
    return _active.get()


def active_count() -> int | None:
    """Return how many instances are active, or None outside `turnover.instances`."""
    now = _active.get()
    return None if now is None else len(now)


def instances(ids: Any, view: View | Sequence[View] = "keep") -> "Instances":
    """Return a context in which the rows of a batch are the given training instances.

    Args:
        ids: one id a row: int tensor on any device, NumPy array, list or range of ints in [0, 2**63).
        view: "keep" (the part of the network that learns these instances), "flip" (the part that never did), "full"
            (the whole network), or one of them for every row.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances([7, 8, 9]):
        ...     net(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
    """
    return Instances(as_ids(ids), view)


class Instances:
    """The instances of one context; made by `turnover.instances`."""

    def __init__(self, ids: Tensor, view: View | Sequence[View]) -> None:
        """Check the view against the ids."""
        self.ids = ids
        self.view = view
        self._views = view_codes(view, len(ids))
        self._trains = bool(np.any(np.asarray(self._views) == KEEP))
        self._recomputing = False
        self._token: Token[Instances | None] | None = None
        self._forget()

    def _forget(self) -> None:
        self.calls: dict[Masking, Call] = {}
        self._model_trains: dict[Masking, bool] = {}
        self._in_pass: dict[Masking, set[int]] = {}
        self._reached: dict[Masking, set[int]] = {}
        self._ids_on: dict[torch.device, Tensor] = {}
        self._views_on: dict[torch.device, Tensor] = {}
        self._words: dict[tuple[Masking, torch.device], dict[int, Tensor]] = {}

    def __len__(self) -> int:
        """Return how many instances there are."""
        return len(self.ids)

    def __enter__(self) -> "Instances":
        """Make these the instances of this thread or task."""
        if _active.get() is not None:
            raise NestedInstancesError(
                "turnover.instances was entered inside another one. Leave the first before the second; for several "
                "views at once give one view a row: turnover.instances(ids, view=['keep', 'flip', ...])."
            )
        self._forget()
        self._token = _active.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave, and raise if a site of a model that ran was never reached."""
        if self._token is not None:
            _active.reset(self._token)
            self._token = None
        reached, self._words = self._reached, {}
        unfinished, self.calls = self.calls, {}
        counts = [masking.recipe.replicas for masking in unfinished if masking.recipe.replicas > 1]
        if isinstance(error, RuntimeError) and counts:
            error.add_note(
                f"This model has {counts[0]} replicas: behind the split there are {counts[0]} times as many rows as "
                "before it. A residual connection across the split, or a size read before it, cannot work: split "
                "earlier or later, turnover.wrap(model, replicas=..., split='module')."
            )
        if kind is not None or self.all_full:
            return
        if not reached:
            raise SiteNotReachedError(
                "no masked module ran inside turnover.instances(...). Wrap the model first, "
                "model = turnover.wrap(model, at=[...]), and call the wrapped model inside the context."
            )
        for masking, sites in reached.items():
            check_all_reached(masking, sites)

    def repeat(self, rows: T) -> T:
        """Do to targets what the model does to rows: repeat them for each replica; with one, or in full view, nothing.

        Call it after the forward pass: only then is it known which model runs in this context.
        """
        if not self._reached:
            raise RepeatBeforeForwardError(
                "repeat was called before a forward pass in this context. Call the model first: "
                "outputs = model(x); loss = loss_fn(outputs, now.repeat(y))."
            )
        counts = {masking.recipe.replicas for masking in self._reached}
        if len(counts) > 1:
            raise ReplicaError(
                f"models with {', '.join(map(str, sorted(counts)))} replicas ran in one context. Give each its own."
            )
        replicas = 1 if self.all_full else counts.pop()
        return rows if replicas == 1 else map_tensors(rows, lambda x: x.repeat(replicas, *[1] * (x.dim() - 1)))

    # For the layers

    @property
    def all_full(self) -> bool:
        """Tell whether every row sees the full network."""
        return self.one_view == FULL

    @property
    def one_view(self) -> int | None:
        """Return the view code that all rows share, or None where they differ."""
        return self._views if isinstance(self._views, int) else None

    def views_on(self, device: torch.device) -> Tensor:
        """Return one int32 view code a row, on a device."""
        if device not in self._views_on:
            views = self._views
            if isinstance(views, int):
                views = torch.full((len(self),), views, dtype=torch.int32)
            self._views_on[device] = views.to(device)
        return self._views_on[device]

    def words(self, site: Site, device: torch.device, width: int) -> Tensor:
        """Return the packed mask words [instances, words] of a site, of its replicas one after the other.

        The first site that asks has the words of all sites hashed in one go.
        """
        masking = site.masking
        known = self._words.setdefault((masking, device), {})
        if site.index not in known:
            alike = [other.replicated == site.recipe.replicated for other in masking.recipe.sites]
            streams = {index: s for index, s in masking.streams().items() if index not in known and alike[index]}
            parts = masking.words(site.index, self._on(device), list(streams.values()))
            known.update(zip(streams, parts, strict=True))
        words = known[site.index]
        if words.shape[1] * 32 < width:  # one dropout called with a second, larger width
            stream = Stream(site.recipe.path, width, site.recipe.keep)
            (words,) = masking.words(site.index, self._on(device), [stream])
            known[site.index] = words
        return words

    def factors(self, site: Site, x: Tensor, width: int) -> Tensor:
        """Return what the units of a site are multiplied by [replicas * instances, width]."""
        words = self.words(site, x.device, width)[:, : words_for(width)]
        views = self.views_on(x.device).repeat(site.replicas) if self.one_view is None else self.one_view
        return factors_by_table(words, width, views, site.recipe.keep, x.dtype)

    def _on(self, device: torch.device) -> Tensor:
        if device not in self._ids_on:
            self._ids_on[device] = self.ids.to(device)
        return self._ids_on[device]

    def begin(self, masking: Masking, call: Call) -> None:
        """Note that a forward pass of a whole model starts."""
        if not self._recomputing:
            self._in_pass[masking] = set()
            self.calls[masking] = call
            self._model_trains[masking] = call[0].training

    def trains(self, masking: Masking, module: nn.Module) -> bool:
        """Tell whether the model that runs is in training mode; by a module of it where only a part was called.

        A part may be in eval mode while its model trains: BatchNorm that shall gather no statistics.
        """
        return self._model_trains.get(masking, module.training)

    def end(self, masking: Masking) -> None:
        """Check that the forward pass which ends has reached every site."""
        if not self._recomputing:
            self.calls.pop(masking, None)
            reached = self._in_pass.pop(masking, None)
            if reached is not None and not self.all_full:
                check_all_reached(masking, reached)

    def first_visit(self, site: Site) -> bool:
        """Tell whether a site runs for the first time in this pass."""
        seen = self._in_pass.get(site.masking, self._reached.get(site.masking, ()))
        return site.index not in seen

    def reach(self, site: Site, *, training: bool) -> None:
        """Note that a site ran."""
        if self._recomputing:
            return
        masking = site.masking
        if training and self._trains and site.index == 0 and self.first_visit(site):
            masking.learned.passes += 1
        self._in_pass.setdefault(masking, set()).add(site.index)
        self._reached.setdefault(masking, set()).add(site.index)

    def check_not_in_backward(self, site: Site) -> None:
        """Raise where a site runs inside a backward pass without `checkpoint_contexts`."""
        if in_backward() and not self._recomputing:
            raise RecomputationError(recomputation_message(site))

    def for_recomputation(self) -> "Instances":
        """Return these instances as the recomputation of a checkpoint sees them."""
        twin = copy.copy(self)
        twin._recomputing = True
        return twin


class Recomputation:
    """Context of `turnover.checkpoint_contexts`: brings the instances of the forward pass back."""

    def __init__(self, now: Instances | None) -> None:
        """Keep the instances that were active in the forward pass."""
        self._now = None if now is None else now.for_recomputation()
        self._token: Token[Instances | None] | None = None

    def __enter__(self) -> None:
        """Make them active, also in a thread of autograd."""
        self._token = _active.set(self._now)

    def __exit__(self, *_: object) -> None:
        """Restore what was active before."""
        if self._token is not None:
            _active.reset(self._token)
            self._token = None


class Hidden:
    """Context in which no instances are active; for a dry run inside another pass."""

    def __enter__(self) -> None:
        """Hide the active instances."""
        self._token = _active.set(None)

    def __exit__(self, *_: object) -> None:
        """Show them again."""
        _active.reset(self._token)


def in_backward() -> bool:
    """Tell whether autograd is running a backward pass in this thread."""
    return torch._C._current_graph_task_id() != -1


def recomputation_message(site: Site) -> str:
    """Return what to do when a checkpointed site is recomputed without its ids."""
    return (
        f"site {site} is recomputed in a backward pass (activation checkpointing) without its instance ids. "
        "Give them along: torch.utils.checkpoint.checkpoint(fn, x, use_reentrant=False, "
        "context_fn=turnover.checkpoint_contexts)."
    )


def check_all_reached(masking: Masking, reached: set[int]) -> None:
    """Raise unless all sites of a model ran."""
    missed = [site.path for index, site in enumerate(masking.recipe.sites) if index not in reached]
    if missed:
        raise SiteNotReachedError(
            f"{len(missed)} of {len(masking.recipe.sites)} sites did not run in this forward pass: "
            f"{', '.join(map(repr, missed))}. Likely causes: the module is never called (an attention that reads "
            "dropout.p as a number, a fused encoder path), a branch was skipped, or only a part of the model was "
            "called. Leave these modules out of `at`; turnover.plan(model, at=..., example=x) shows which sites run."
        )
