"""Which instances and which view are active in a forward pass, and the hooks by which a wrapped root tells of passes.

The active instances live in a context variable, so threads and asyncio tasks do not see each other's.

A factor is bit / keep in keep view, (1 - bit) / (1 - keep) in flip view, else 1. The paper writes the flipped mask as
1/p - m, which has the right scale at p = 0.5 only. Two ways to the same numbers: `factors_by_table` for eager code,
where one gather of eight units at a time is fastest, and `factors_by_shift` for compiled graphs, where plain arithmetic
fuses with what surrounds it.
"""

import copy
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from turnover.errors import InstanceIdError, InstancesError, SiteNotReachedError
from turnover.ids import FIRST_RESERVED_ID
from turnover.masks import WORD_BITS, rounded_keep, words_for

from .masking import MASKING_ATTRIBUTE, Masking, Site, masking_of
from .recipe import RECIPE_KEY, to_tensor
from .tensors import map_tensors, tensors_in

View = Literal["keep", "flip", "full"]
VIEWS: tuple[View, ...] = ("keep", "flip", "full")
KEEP, FLIP, FULL = range(3)
VIEW_CODES: dict[str, int] = {"keep": KEEP, "flip": FLIP, "full": FULL}

_BYTE = 8
_BYTE_VALUES = 1 << _BYTE


def _view_codes(view: Any, rows: int) -> int | Tensor:
    """Return one number for all rows, or int32 numbers [rows] where they differ."""
    views = list(view) if isinstance(view, Iterable) and not isinstance(view, str) else []
    unknown = [v for v in views if not isinstance(v, str) or v not in VIEWS]
    if unknown or len(views) != rows:
        got = f"{len(views)} entries{f', among them {unknown[0]!r}' if unknown else ''}" if views else repr(view)
        raise InstancesError(
            f"`view` must be 'keep', 'flip' or 'full', or a list with one of them for every id ({rows}), got {got}."
        )
    codes = [VIEW_CODES[v] for v in views]
    return codes[0] if len(set(codes)) == 1 else torch.tensor(codes, dtype=torch.int32)


def factors_by_table(words: Tensor, width: int, views: int | Tensor, keep: float, dtype: torch.dtype) -> Tensor:
    """Return factors [rows, width] by looking up every byte of the packed words [rows, words].

    `views` is a view code for all rows, or int32 codes [rows]; `keep` is the site's keep rate.
    """
    table, places = _table(keep, dtype, words.device)
    values = (words.unsqueeze(-1) >> places).bitwise_and_(_BYTE_VALUES - 1)
    if isinstance(views, Tensor):
        values.add_((views * _BYTE_VALUES)[:, None, None])
    elif views != KEEP:
        values.add_(views * _BYTE_VALUES)
    factors = functional.embedding(values, table)
    return factors.view(len(words), -1)[:, :width]


@lru_cache(maxsize=64)
def _table(keep: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the factors [3 * 256, 8] of every byte in every view, and where bytes of a word begin."""
    with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
        keep_scale, flip_scale = scales(keep)
        byte = torch.arange(_BYTE_VALUES).unsqueeze(1)
        bits = ((byte >> torch.arange(_BYTE)) & 1).double()
        views = [bits * keep_scale, (1 - bits) * flip_scale, torch.ones_like(bits)]
        table = torch.cat(views).to(dtype)  # not every device has float64
        places = torch.arange(0, WORD_BITS, _BYTE, dtype=torch.int32)
        return table.to(device), places.to(device)


def factors_by_shift(words: Tensor, width: int, views: Tensor, keep: float, dtype: torch.dtype) -> Tensor:
    """Return the same factors as `factors_by_table`, in operations that a compiler can fuse.

    A factor is slope * bit + offset with slope and offset of the row's view; in flip view both are the same number up
    to sign, so a kept unit is 0 exactly.
    """
    keep_scale, flip_scale = scales(keep)
    places = torch.arange(WORD_BITS, device=words.device, dtype=torch.int32)
    bits = ((words.unsqueeze(-1) >> places) & 1).flatten(-2)[:, :width].to(dtype)

    def number(value: float) -> Tensor:  # as a tensor: a plain number in torch.where is rounded to float32
        return torch.full((), value, dtype=dtype, device=words.device)

    zero, is_keep, is_flip = number(0.0), views == KEEP, views == FLIP
    slope = torch.where(is_keep, number(keep_scale), torch.where(is_flip, number(-flip_scale), zero))
    offset = torch.where(is_keep, zero, torch.where(is_flip, number(flip_scale), number(1.0)))
    return bits * slope.unsqueeze(1) + offset.unsqueeze(1)


def scales(keep: float) -> tuple[float, float]:
    """Return 1 / keep and 1 / (1 - keep) for the rate that the masks really have."""
    rate = rounded_keep(keep)
    return 1.0 / rate, 1.0 / (1.0 - rate)


_Call = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
T = TypeVar("T")

ACTIVE: ContextVar["Instances | None"] = ContextVar("turnover_instances", default=None)


def active_instances() -> "Instances | None":
    """Return the instances of this thread or task, or None outside `turnover.instances`."""
    return ACTIVE.get()


def instances(ids: Any, view: View | Sequence[View] = "keep") -> "Instances":
    """Return a context in which the rows of a batch are the given training instances.

    Args:
        ids: one id per row: int tensor on any device, NumPy array, list or range of ints in [0, 2**63). Those from
            2**62 on are the null ids, which tell what scores without training look like; training passes reject them.
        view: "keep" (the subnetwork that trains on these instances), "flip" (the subnetwork that never does), "full"
            (the whole network), or one of them per row.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances([7, 8, 9]):
        ...     net(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
    """
    names: Any = list(view) if isinstance(view, Tensor) else view  # a tensor would be taken as codes
    active = Instances(as_ids(ids), names)
    if bool((active.ids >= FIRST_RESERVED_ID).any()):
        active.null_id = int(active.ids.max())
    return active


def as_ids(ids: Any) -> Tensor:
    """Return ids as an int64 tensor of one dimension, or say what is wrong with them."""
    if isinstance(ids, Tensor):
        if ids.layout is not torch.strided or ids.is_nested or ids.is_meta:
            raise _bad_ids("a meta tensor" if ids.is_meta else "a nested or sparse tensor")
        given = ids.detach()
    else:
        given = _from_sequence(ids)
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise _bad_ids(given.dtype)
    if given.dim() != 1:
        raise _bad_ids(f"shape {list(given.shape)}")
    if len(given) == 0:
        raise _bad_ids("an empty list")
    # A copy: the recomputation of a checkpoint may come after the batch's memory is used again.
    tensor = given.to(torch.int64, copy=True)
    least = int(tensor.min())
    if least < 0:
        raise _bad_ids(least + 2**64 if given.dtype == torch.uint64 else least)
    return tensor


def _from_sequence(ids: Any) -> Tensor:
    """Return ids of another type as a tensor, with whatever shape they have."""
    # A set has an order of its own, by which rows would get the ids of others.
    if isinstance(ids, (set, frozenset, Mapping, bytes, bytearray)):
        raise _bad_ids(f"a {type(ids).__name__}")
    if isinstance(ids, np.ma.MaskedArray) and np.ma.is_masked(ids):
        raise _bad_ids("a masked array, where some are missing")
    if isinstance(ids, range) and len(ids) and max(ids[0], ids[-1]) < 2**63:
        ids = np.arange(ids.start, ids.stop, ids.step, dtype=np.int64)
    if not isinstance(ids, np.ndarray):
        try:
            ids = list(ids)
        except TypeError as error:
            raise _bad_ids(repr(ids)) from error
        for item in ids:
            if isinstance(item, (bool, np.bool_)):  # beside integers NumPy makes integers of them
                raise _bad_ids("bool")
            if isinstance(item, int) and item >= 2**63:  # of which NumPy makes floats or objects
                raise _bad_ids(item)
    try:
        array = np.asarray(ids)
    except ValueError as error:
        raise _bad_ids("a ragged list") from error
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise _bad_ids(array.dtype)
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise _bad_ids(array.max())
    return torch.from_numpy(array.astype(np.int64, order="C"))


def _bad_ids(given: Any) -> InstanceIdError:
    return InstanceIdError(
        f"instance ids must be integers in [0, 2**63), got {given}. Give one for every row of the batch, in the order "
        "of the rows; turnover.with_instance_ids(dataset) gives every example a stable id."
    )


class Instances:
    """The instances of one context, ids int64 [instances]; made by `turnover.instances`.

    The view is that of all rows or one per row, by name or as int32 codes; `shared_view` is the code that all rows
    share, None where they differ. `recomputing` says that a checkpoint's recomputation runs, which was checked and
    counted before. Of each model whose forward pass runs, `calls` are root, arguments and keywords, `in_pass` the sites
    that ran, and `model_trains` is its mode. `null_id` is one of the ids that must not be trained; None: there is none,
    or nobody asked.
    """

    null_id: int | None = None

    def __init__(self, ids: Tensor, view: View | Sequence[View] | Tensor) -> None:
        codes = view if isinstance(view, Tensor) else VIEW_CODES.get(view) if isinstance(view, str) else None
        codes = _view_codes(view, len(ids)) if codes is None else codes
        self.ids = ids
        self.view = view
        self.shared_view = codes if isinstance(codes, int) else None
        self.recomputing = False
        self._views = codes
        self._keeps = codes == KEEP if isinstance(codes, int) else bool((codes == KEEP).any())
        self._token: Token[Instances | None] | None = None
        self._forget()

    def _forget(self) -> None:
        self.calls: dict[Masking, _Call] = {}
        self.model_trains: dict[Masking, bool] = {}
        self.in_pass: dict[Masking, set[int]] = {}
        self._reached: dict[Masking, set[int]] = {}
        self._ids_on: dict[torch.device, Tensor] = {}
        self._views_on: dict[torch.device, Tensor] = {}
        self._words: dict[tuple[Masking, torch.device], dict[int, Tensor]] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def __enter__(self) -> "Instances":
        if ACTIVE.get() is not None:
            raise InstancesError(
                "turnover.instances was entered inside another one. Leave the first before the second; for several "
                "views at once give one view per row: turnover.instances(ids, view=['keep', 'flip', ...])."
            )
        self._forget()
        self._token = ACTIVE.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if self._token is not None:
            ACTIVE.reset(self._token)
            self._token = None
        unfinished, self.calls, self._words = self.calls, {}, {}
        if kind is not None:
            replicas = max((masking.recipe.replicas for masking in unfinished), default=1)
            if isinstance(error, RuntimeError) and replicas > 1:
                error.add_note(
                    f"This model has {replicas} replicas: behind the split there are {replicas} times as many rows as "
                    "before it. A residual connection across the split, or a size read before it, cannot work: split "
                    "earlier or later, turnover.wrap(model, replicas=..., split='module')."
                )
            return
        if self.shared_view == FULL:
            return
        if not self._reached:
            raise SiteNotReachedError(
                "no masked module ran inside turnover.instances(...). Wrap the model first, "
                "model = turnover.wrap(model, at=[...]), and call the wrapped model inside the context."
            )
        for masking, sites in self._reached.items():
            self.check_reached(masking, sites)

    def check_reached(self, masking: Masking, reached: set[int]) -> None:
        """Raise where a pass has left out sites of a model."""
        sites = masking.recipe.sites
        if len(reached) == len(sites) or self.shared_view == FULL:
            return
        missed = [repr(site.path) for index, site in enumerate(sites) if index not in reached]
        raise SiteNotReachedError(
            f"{len(missed)} of {len(sites)} sites did not run in this forward pass: "
            f"{', '.join(missed)}. Likely causes: the module is never called (an attention that reads "
            "dropout.p as a number, a fused encoder path), a branch was skipped, or only a part of the model was "
            "called. Leave these modules out of `at`; turnover.plan(model, at=..., example=x) shows which sites run."
        )

    def repeat(self, rows: T) -> T:
        """Do to targets what the model does to rows: repeat them for each replica; with one, or in full view, nothing.

        Call it after the forward pass: only then is it known which model runs in this context.
        """
        if not self._reached:
            raise InstancesError(
                "repeat was called before a forward pass in this context. Call the model first: "
                "outputs = model(x); loss = loss_fn(outputs, now.repeat(y))."
            )
        replicas = next(iter(self._reached)).recipe.replicas
        for masking in self._reached:
            if masking.recipe.replicas != replicas:
                counts = f"{replicas} and with {masking.recipe.replicas} replicas"
                raise InstancesError(f"models with {counts} ran in one context. Give each its own.")
        if replicas == 1 or self.shared_view == FULL:
            return rows
        if hasattr(rows, "__len__") and next(tensors_in(rows), None) is None:
            raise InstancesError(
                f"repeat was given a {type(rows).__name__} without tensors, whose rows it cannot repeat for {replicas} "
                "replicas. Give tensors: now.repeat(torch.as_tensor(y))."
            )
        return map_tensors(rows, lambda x: x.repeat(replicas, *[1] * (x.dim() - 1)) if x.dim() else x)

    # For the layers

    def views_on(self, device: torch.device) -> Tensor:
        """Return one int32 view code per row, on a device."""
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
        known = self._words.setdefault((site.masking, device), {})
        words = known.get(site.index)
        if words is None or words.shape[1] * WORD_BITS < width:  # or one dropout called with a second, larger width
            ids = self._ids_on.get(device)
            if ids is None:
                ids = self._ids_on[device] = self.ids.to(device)
            known.update(site.masking.words(site, ids, width, known))
            words = known[site.index]
        return words[:, : words_for(width)]

    def factors(self, site: Site, x: Tensor, width: int) -> Tensor:
        """Return what the units of a site are multiplied by [replicas * instances, width]."""
        words = self.words(site, x.device, width)
        views = self.shared_view
        if views is None:
            views = self.views_on(x.device).repeat(site.replicas)
        return factors_by_table(words, width, views, site.recipe.keep, x.dtype)

    def trains(self, masking: Masking, module: nn.Module) -> bool:
        """Tell whether the model that runs is in training mode; by a module of it where only a part was called.

        A part may be in eval mode while its model trains: BatchNorm that shall gather no statistics.
        """
        return self.model_trains.get(masking, module.training)

    def first_visit(self, site: Site) -> bool:
        """Tell whether a site runs for the first time in this pass."""
        seen = self.in_pass.get(site.masking, self._reached.get(site.masking, ()))
        return site.index not in seen

    def reach(self, site: Site, *, training: bool) -> None:
        """Note that a site ran."""
        if self.recomputing:
            return
        if training and self.null_id is not None:
            raise InstanceIdError(
                f"instance id {self.null_id} must be below 2**62 in training: from {FIRST_RESERVED_ID} on they are the "
                "null ids, whose masks say what scores without training look like."
            )
        masking, index = site.masking, site.index
        if training and self._keeps and index == 0 and self.first_visit(site):
            masking.learned.passes += 1
        self.in_pass.setdefault(masking, set()).add(index)
        self._reached.setdefault(masking, set()).add(index)


class _Activated:
    """Context in which given instances are the active ones; may be entered again."""

    def __init__(self, active: Instances | None) -> None:
        self._now = active
        self._token: Token[Instances | None] | None = None

    def __enter__(self) -> None:
        self._token = ACTIVE.set(self._now)

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            ACTIVE.reset(self._token)
            self._token = None


def no_instances() -> _Activated:
    """Return a context in which no instances are active; for a pass inside another one."""
    return _Activated(None)


def recomputation() -> _Activated:
    """Return a context that brings the active instances back, as the recomputation of a checkpoint sees them."""
    active = ACTIVE.get()
    if active is not None:
        active = copy.copy(active)
        active.recomputing = True
    return _Activated(active)


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put all modules into eval mode, and afterwards those back that were in training mode, and no others."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


# The wrapped root: the recipe tensor, and hooks that watch over whole forward passes

_DDP_IGNORE = "_ddp_params_and_buffers_to_ignore"


def attach(root: nn.Module, masking: Masking) -> None:
    """Make a module the root of a wrapped model."""
    root.__dict__[MASKING_ATTRIBUTE] = masking
    masking.root = weakref.ref(root)
    for module in root.modules():
        for kind in type(module).__mro__:  # of transformers, or of a class made of one of its own
            masking.hugging_face |= kind.__module__.partition(".")[0] == "transformers"
    root.register_buffer(RECIPE_KEY, to_tensor(masking.recipe, masking.learned))
    # Every process has the same recipe; broadcasting it before each pass would only cost time.
    root.__dict__[_DDP_IGNORE] = [*getattr(root, _DDP_IGNORE, []), RECIPE_KEY]
    masking.write_buffer(root)
    root.register_forward_pre_hook(_begin, with_kwargs=True)
    root.register_forward_hook(_end)
    root.register_state_dict_pre_hook(_write_recipe)
    root.register_load_state_dict_pre_hook(_check_recipe)


def detach(root: nn.Module) -> None:
    """Undo `attach`."""
    del root.__dict__[MASKING_ATTRIBUTE]
    del root._buffers[RECIPE_KEY]
    remaining = [name for name in root.__dict__.pop(_DDP_IGNORE) if name != RECIPE_KEY]
    if remaining:
        root.__dict__[_DDP_IGNORE] = remaining
    ours = (_begin, _end, _write_recipe, _check_recipe)
    for hooks in (
        root._forward_pre_hooks,
        root._forward_hooks,
        root._state_dict_pre_hooks,
        root._load_state_dict_pre_hooks,
    ):
        remove_hooks(hooks, lambda hook: getattr(hook, "hook", hook) in ours)


def remove_hooks(hooks: dict[int, Any], ours: Callable[[Any], bool]) -> None:
    """Remove the hooks for which `ours` holds."""
    for key in [key for key, hook in hooks.items() if ours(hook)]:
        del hooks[key]


def _begin(root: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if torch.compiler.is_dynamo_compiling():
        return
    active = ACTIVE.get()
    if active is not None:
        masking: Masking = root.__dict__[MASKING_ATTRIBUTE]
        masking.check_buffer(root)
        if masking.root is None:  # of a copy
            masking.root = weakref.ref(root)
        together = torch.distributed.is_available() and torch.distributed.is_initialized()
        if together and root.training and not masking.shared:
            masking.check_processes()
        if not active.recomputing:
            active.in_pass[masking] = set()
            active.calls[masking] = root, args, kwargs
            active.model_trains[masking] = root.training


def _end(root: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    if torch.compiler.is_dynamo_compiling():
        return
    active = ACTIVE.get()
    if active is not None and not active.recomputing:
        masking: Masking = root.__dict__[MASKING_ATTRIBUTE]
        active.calls.pop(masking, None)
        reached = active.in_pass.pop(masking, None)
        if reached is not None:
            active.check_reached(masking, reached)


def _write_recipe(root: nn.Module, prefix: str, keep_vars: bool) -> None:
    masking_of(root).write_buffer(root)


def _check_recipe(root: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    tensor = state_dict.get(prefix + RECIPE_KEY)
    if tensor is not None and not tensor.is_meta:
        masking_of(root).adopt(tensor, whence="the state dict comes from a model with")
