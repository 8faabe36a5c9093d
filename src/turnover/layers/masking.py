"""The live masks of one wrapped model: its recipe and sources, its sites, and where its rows are expanded to replicas.

A model with replicas computes its trunk once. At an expansion point the rows are repeated, one replica after the other;
everything behind it sees replicas x b rows. Whether a module or a site is such a point is a property of the model, not
of a batch: it is detected the first time it runs, from the rows that reach it, and kept.

The gradient: a loss averaged over replicas x b rows gives each replica 1/replicas of the gradient it would have alone.
The outputs multiply it by the number of replicas (see `replicas.py`), and an expansion point divides what flows into
the trunk by it, so that the trunk gets the mean.
"""

import copy
import itertools
import weakref
from collections.abc import Container
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo

from turnover.errors import InstancesError, ModelError
from turnover.masks import Stream, joint_words

from .processes import check_same_recipe, groups_of
from .recipe import RECIPE_KEY, Learned, Recipe, SiteRecipe, from_tensor, is_blank, to_tensor

# Models with replicas whose forward passes run, the innermost last: root, and rows at its first expansion point.
_running: ContextVar[tuple[list[Any], ...]] = ContextVar("turnover_running_models", default=())


def begin_model(root: nn.Module, args: Any = ()) -> None:
    """Note that a forward pass of a model with replicas begins; a hook of its root."""
    if torch.compiler.is_dynamo_compiling():
        return
    outer = _running.get()
    if outer and outer[-1][0] is root:  # it failed and did not end
        outer = outer[:-1]
    _running.set((*outer, [root, None]))


def note_trunk_rows(rows: int) -> None:
    """Note how many rows the trunk of the running model has, unless that is known."""
    running = _running.get()
    if running and running[-1][1] is None:
        running[-1][1] = rows


def end_model() -> int | None:
    """Note that it ends, and return how many rows its trunk had; None if no expansion point ran."""
    running = _running.get()
    _running.set(running[:-1])
    return running[-1][1] if running else None


class Expansion:
    """One place where rows may have to be expanded; `expands` None: detected when it first runs."""

    def __init__(self, replicas: int, path: str, expands: bool | None = None) -> None:
        self.replicas = replicas
        self.path = path
        self.expands = expands

    def expands_at(self, x: Tensor, *, training: bool, ids: int | None) -> bool:
        """Tell whether the rows of `x` have to be expanded here, and check that they can.

        In training mode there is one id per row; `ids` is the number of active instances, if any.
        """
        if self.expands is None:
            self._learn(len(x), training, ids)
        if torch.compiler.is_dynamo_compiling():
            return bool(self.expands)
        rows = len(x)
        if self.expands:
            note_trunk_rows(rows)
        elif rows % self.replicas or (training and ids is not None and rows != self.replicas * ids):
            raise InstancesError(
                f"{self.path!r} got a batch of {rows} rows (shape {list(x.shape)}), which are not {self.replicas} "
                "replicas one after the other: the model changes or mixes its rows behind the split, or the batch is "
                "not dimension 0. Split it elsewhere: turnover.wrap(model, replicas=..., split='module')."
            )
        return bool(self.expands)

    @_disable_dynamo
    def _learn(self, rows: int, training: bool, ids: int | None) -> None:
        running = _running.get()
        known = ids if training and ids is not None else running[-1][1] if running else None
        self.expands = known is None or rows == known


class _ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, None]:
        return gradients[0] * ctx.factor, None


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """Return `x`; what flows back through it is multiplied by the factor."""
    return _ScaledGradient.apply(x, factor) if x.requires_grad else x  # pyright: ignore[reportReturnType]


def expanded(x: Tensor, replicas: int) -> Tensor:
    """Return the rows of `x` once for each replica, one replica after the other; the trunk gets the mean gradient."""
    return scaled_gradient(x, 1 / replicas).repeat(replicas, *[1] * (x.dim() - 1))


MASKING_ATTRIBUTE = "_turnover_masking"
_handles = itertools.count(1)
_living: "weakref.WeakValueDictionary[int, Masking]" = weakref.WeakValueDictionary()


def find_root(model: nn.Module) -> nn.Module | None:
    """Return the module that was wrapped, the model itself or below it (DDP, compile, Lightning); else None."""
    for module in model.modules():
        if MASKING_ATTRIBUTE in module.__dict__:
            return module
    return None


def masking_of(root: nn.Module) -> "Masking":
    """Return the masking of the module that was wrapped."""
    return root.__dict__[MASKING_ATTRIBUTE]


class Masking:
    """Shared by all sites of one wrapped model and by its root; a copy of the model has its own.

    Compiled graphs cannot hold Python objects, so they name it by `handle`. `hugging_face` says whether the model holds
    modules of transformers, so that messages can name its trainer; `shared`, whether several processes train the model
    together and were found to have the same recipe. `root` is the module that was wrapped; None: a copy that never ran.
    """

    hugging_face = False
    shared = False
    root: "weakref.ref[nn.Module] | None" = None

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.learned = Learned.nothing(len(recipe.sites))
        self.expansions = [Expansion(recipe.replicas, site.path) for site in recipe.sites]
        self._start()

    def _start(self) -> None:
        self.sources = list(map(self.recipe.source, range(self.recipe.replicas)))
        self.handle = next(_handles)
        self._checked: tuple[Tensor, int] | None = None
        self._streams: dict[tuple[int, int], Stream] = {}
        self._place_batches()
        _living[self.handle] = self

    def _place_batches(self) -> None:
        # Compiled code is made for these and made anew when one changes. What a pass has merely confirmed changes none.
        self.batch_dims: list[int] = []
        for site, learned in zip(self.recipe.sites, self.learned.batch_dims, strict=True):
            self.batch_dims.append(site.batch_dim if learned is None else learned)

    def learn_batch_dim(self, index: int, batch_dim: int) -> None:
        """Keep the batch dimension that was found at a site."""
        self.learned.batch_dims[index] = self.batch_dims[index] = batch_dim

    @staticmethod
    def living(handle: int) -> "Masking":
        """Return the masking with this handle."""
        return _living[handle]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("recipe", "learned", "expansions", "hugging_face")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def words(self, site: "Site", ids: Tensor, width: int, known: Container[int]) -> dict[int, Tensor]:
        """Return mask words by site number: of a site, and of all like it that are not known, hashed in one go.

        Of a site with masks for every replica, the words are those of all replicas, one after the other.
        """
        widths: dict[int, int] = {site.index: width}
        if site.index not in known:
            for index, other in enumerate(self.recipe.sites):
                other_width = self.learned.widths[index]
                if other_width is not None and index not in known and other.replicated == site.recipe.replicated:
                    widths.setdefault(index, other_width)
        streams: list[Stream] = []
        for key in widths.items():
            if key not in self._streams:
                other = self.recipe.sites[key[0]]
                self._streams[key] = Stream(other.path, key[1], other.keep)
            streams.append(self._streams[key])
        words = joint_words(self.sources[: site.replicas], ids, streams)
        return dict(zip(widths, words, strict=True))

    def check_processes(self) -> None:
        """Raise where processes that train the model together have other masks than this one; cheap where none do."""
        groups = groups_of(None if self.root is None else self.root())
        if groups:
            check_same_recipe(self.recipe, groups)
        self.shared = bool(groups)

    # The state dict

    def write_buffer(self, root: nn.Module) -> None:
        """Bring the recipe tensor of the root up to date."""
        buffer = root._buffers[RECIPE_KEY]
        content = to_tensor(self.recipe, self.learned)
        if buffer is None or buffer.shape != content.shape or buffer.is_inference() or buffer.is_meta:
            root._buffers[RECIPE_KEY] = buffer = content
        else:
            buffer.copy_(content)
        self._checked = buffer, -1 if buffer.is_inference() else buffer._version

    def adopt(self, tensor: Tensor, *, whence: str) -> None:
        """Take over what another copy of this model has learned, or raise where its recipe is another."""
        self.adopt_learned(self._read(tensor, whence))

    def adopt_learned(self, learned: Learned) -> None:
        """Take over what a model with the same sites has learned."""
        self.learned = copy.deepcopy(learned)
        self._place_batches()

    def _read(self, tensor: Tensor, whence: str) -> Learned:
        recipe, learned = from_tensor(tensor)
        if recipe == self.recipe:
            return learned
        if replace(recipe, start=self.recipe.start) == self.recipe:
            raise ModelError(
                f"{whence} other start weights than this model: in mode 'mixout' a dropped unit is as it was when the "
                f"model was wrapped.\n  given: sha256 {recipe.start}\n  model: sha256 {self.recipe.start}\n"
                "Wrap the model with the weights that it had then (the same pretrained checkpoint, in the same dtype, "
                "before any trained weights are loaded), or use turnover.save and turnover.load(folder, model=base), "
                "which keep them."
            )
        raise ModelError(
            f"{whence} other masks than this model, so its scores would be noise.\n"
            f"  given: {recipe}\n  model: {self.recipe}\n"
            "Wrap the model with the given recipe, or use turnover.load(folder, model=base), which does."
        )

    def check_buffer(self, root: nn.Module) -> None:
        """Notice weights that were put into the model without `load_state_dict` (as some libraries do)."""
        buffer = root._buffers.get(RECIPE_KEY)
        if buffer is None or buffer.is_meta:
            return
        known = self._checked
        if known is not None and known[0] is buffer and (buffer.is_inference() or known[1] == buffer._version):
            return
        if is_blank(buffer):  # as `to_empty` leaves it, before weights are made
            self.write_buffer(root)
            return
        learned = self._read(buffer, "the weights in this model were trained with")
        # A copied or moved model has a new tensor as well, which may be older than what was learned since.
        self.adopt_learned(learned.completed_by(self.learned))
        self._checked = buffer, -1 if buffer.is_inference() else buffer._version


class Site:
    """One place in a wrapped model where a mask acts; an instance has as many masks here as there are `replicas`."""

    def __init__(self, masking: Masking, index: int) -> None:
        self.masking = masking
        self.index = index
        self.recipe: SiteRecipe = masking.recipe.sites[index]
        self.replicas = masking.recipe.replicas if self.recipe.replicated else 1
        self.expansion = masking.expansions[index]

    def batch_dim(self, dims: int) -> int:
        """Return where the batch is in an activation with so many dimensions: as learned, else by the rule.

        In two dimensions, batch and units, it is always the first, also below a module with batch_first=False.
        """
        return 0 if dims <= 2 or self.replicas > 1 else self.masking.batch_dims[self.index]

    @property
    def batch_known(self) -> bool:
        """Tell whether the batch dimension is certain, by an enclosing module or a training pass."""
        told = self.recipe.batch_told or self.recipe.dim == "channels"
        return told or self.masking.learned.batch_dims[self.index] is not None

    def __str__(self) -> str:
        return repr(self.recipe.path)
