"""The live masks of one wrapped model: its recipe, its source and what it has learned about its sites."""

import copy
import itertools
import re
import weakref
from collections.abc import Container
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from turnover.errors import ModelError
from turnover.masks import Stream, joint_words

from .expansion import Expansion
from .processes import check_same_recipe, groups_of
from .recipe import RECIPE_KEY, Learned, Recipe, SiteRecipe, from_tensor, is_blank, to_tensor

_ROWS_AND_UNITS = 2
_handles = itertools.count(1)
_living: "weakref.WeakValueDictionary[int, Masking]" = weakref.WeakValueDictionary()


class Masking:
    """Shared by all sites of one wrapped model and by its root; a copy of the model has its own.

    Compiled graphs cannot hold Python objects, so they name it by `handle`.
    """

    hugging_face = False
    """Whether the model holds modules of transformers, so that messages can name its trainer."""
    shared = False
    """Whether several processes train the model together, and were found to have the same recipe."""
    root: "weakref.ref[nn.Module] | None" = None
    """The module that was wrapped; None: a copy that never ran."""

    def __init__(self, recipe: Recipe) -> None:
        """Start with nothing learned."""
        self.recipe = recipe
        self.learned = Learned.nothing(len(recipe.sites))
        self.expansions = [Expansion(recipe.replicas, site.path) for site in recipe.sites]
        self._start()

    def _start(self) -> None:
        self.sources = [self.recipe.source(replica) for replica in range(self.recipe.replicas)]
        self.handle = next(_handles)
        self._checked: tuple[Tensor, int] | None = None
        self._streams: dict[tuple[int, int], Stream] = {}
        self._place_batches()
        _living[self.handle] = self

    def _place_batches(self) -> None:
        # Compiled code is made for these and made anew when one changes. What a pass has merely confirmed changes none.
        self.batch_dims = [
            site.batch_dim if learned is None else learned
            for site, learned in zip(self.recipe.sites, self.learned.batch_dims, strict=True)
        ]

    def learn_batch_dim(self, index: int, batch_dim: int) -> None:
        """Keep the batch dimension that was found at a site."""
        self.learned.batch_dims[index] = self.batch_dims[index] = batch_dim

    @staticmethod
    def living(handle: int) -> "Masking":
        """Return the masking with this handle."""
        return _living[handle]

    def __getstate__(self) -> dict[str, Any]:
        """Copy and pickle what counts; source and handle are made anew."""
        kept = ("recipe", "learned", "expansions", "hugging_face")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Give a copy a handle of its own."""
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
        words = joint_words(self.sources, ids, streams) if site.replicas > 1 else self.sources[0].words(ids, streams)
        return dict(zip(widths, words, strict=True))

    def check_processes(self) -> None:
        """Raise where processes that train the model together have other masks than this one; cheap where none do."""
        root = None if self.root is None else self.root()
        groups = groups_of(root)
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
        self._checked = _mark(buffer)

    def adopt(self, tensor: Tensor, *, whence: str) -> None:
        """Take over what another copy of this model has learned, or raise where its recipe is another."""
        self.adopt_learned(self._read(tensor, whence))

    def adopt_learned(self, learned: Learned) -> None:
        """Take over what a model with the same sites has learned."""
        self.learned = copy.deepcopy(learned)
        self._place_batches()

    def _read(self, tensor: Tensor, whence: str) -> Learned:
        recipe, learned = from_tensor(tensor)
        if replace(recipe, start=self.recipe.start) == self.recipe and recipe.start != self.recipe.start:
            raise ModelError(_other_start(recipe, self.recipe, whence))
        if recipe != self.recipe:
            raise ModelError(
                f"{whence} other masks than this model, so its scores would be noise.\n"
                f"  given: {recipe}\n  model: {self.recipe}\n"
                "Wrap the model with the given recipe, or use turnover.load(folder, model=base), which does."
            )
        return learned

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
        self._checked = _mark(buffer)


def _other_start(given: Recipe, model: Recipe, whence: str) -> str:
    """Return what to do where two recipes of mode "mixout" differ in their start weights alone."""
    return (
        f"{whence} other start weights than this model: in mode 'mixout' a dropped unit is as it was when the model "
        "was wrapped, so every network it makes would be another.\n"
        f"  given: sha256 {given.start}\n  model: sha256 {model.start}\n"
        "Wrap the model with the weights that it had then (the same pretrained checkpoint, in the same dtype, before "
        "any trained weights are loaded), or use turnover.save and turnover.load(folder, model=base), which keep them."
    )


def _mark(buffer: Tensor) -> tuple[Tensor, int]:
    """Return the tensor and a number that changes when it is written to."""
    return buffer, -1 if buffer.is_inference() else buffer._version


class Site:
    """One place in a wrapped model where a mask acts; an instance has as many masks here as there are `replicas`."""

    def __init__(self, masking: Masking, index: int) -> None:
        self.masking = masking
        self.index = index
        self.recipe: SiteRecipe = masking.recipe.sites[index]
        self.replicas = masking.recipe.replicas if self.recipe.replicated else 1

    @property
    def expansion(self) -> Expansion:
        """Return whether the rows of the trunk are expanded to replicas here."""
        return self.masking.expansions[self.index]

    def batch_dim(self, dims: int) -> int:
        """Return where the batch is in an activation with so many dimensions: as learned, else by the rule.

        In two dimensions, batch and units, it is always the first, also below a module with batch_first=False.
        """
        return 0 if dims <= _ROWS_AND_UNITS or self.replicas > 1 else self.masking.batch_dims[self.index]

    @property
    def batch_known(self) -> bool:
        """Tell whether the batch dimension is certain, by an enclosing module or a training pass."""
        told = self.recipe.batch_told or self.recipe.dim == "channels"
        return told or self.masking.learned.batch_dims[self.index] is not None

    def __str__(self) -> str:
        """Return the path as messages show it."""
        return repr(self.recipe.path)

    @property
    def shown(self) -> str:
        """Return the mask as the `repr` of its module shows it: number, keep rate, units, replicas and mode."""
        whole = self.masking.recipe
        width = self.masking.learned.widths[self.index]
        facts = [f"keep={self.recipe.keep:g}", f"{width} {self.recipe.dim}" if width else self.recipe.dim]
        facts += [f"{self.replicas} replicas"] if self.replicas > 1 else []
        facts += [f"mode={whole.mode!r}"] if whole.mode != "forward" else []
        return f"[mask {self.index + 1} of {len(whole.sites)}: {', '.join(facts)}]"


SHOWN_MASK = re.compile(r"(, )?\[mask \d+ of \d+: [^\]]*\]")
"""What `Site.shown` adds to the repr of a module."""
