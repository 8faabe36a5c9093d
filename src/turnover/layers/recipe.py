"""The mask recipe: all that determines the masks of a wrapped model, as one uint8 tensor of its state dict.

The tensor has two parts. The first is what the model has learned about itself so far (how many training passes its
sites saw, the width and batch dimension of each site), of fixed size so that the tensor's shape never changes. The
second is the recipe proper, as JSON; it is fixed when the model is wrapped and must agree wherever the weights go.
"""

import hashlib
import json
import struct
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from turnover.errors import ModelError
from turnover.masks import MaskSource, source_from
from turnover.storage import wrong_types

RECIPE_KEY = "turnover_recipe"
RECIPE_FORMAT = 1
_MAGIC = b"TURNOVER"
_SHOWN = 12  # digits of a checksum, enough to compare by eye
_HEAD = struct.Struct("<8sIQ")  # magic, number of sites, training passes
_SITE = struct.Struct("<IB")  # width (0: not seen yet), batch dimension + 1 (0: not seen yet)

Dim = Literal["features", "channels"]
Place = Literal["output", "replaced", "layer", "input"]
Mode = Literal["forward", "backward", "mixout"]


@dataclass(frozen=True)
class SiteRecipe:
    """One site: where the mask acts and how.

    The place is the "output" of a module, a "replaced" dropout, a "layer" that was placed by hand, or the "input" of
    the last layer in the modes "backward" and "mixout".
    """

    path: str  # module path at wrap time; the key of the site's masks
    place: Place
    dim: Dim  # "features" (last dimension) or "channels" (dimension 1)
    keep: float  # share of units that an instance trains
    batch_dim: int = 0  # 1 below a module with batch_first=False, else 0
    batch_told: bool = False  # an enclosing module's batch_first says so; if not, a training pass may find another
    told: bool = True  # whether the user or the module's type says which dimension has the units
    replicated: bool = False  # whether every replica has masks of its own here; a site in the trunk has one for all


@dataclass(frozen=True)
class AdapterRecipe:
    """Where a model has adapters and what of it learns: all that is needed to put them onto the same base again."""

    after: tuple[str, ...]  # paths of the modules whose outputs go through an adapter
    size: int  # units of each bottleneck
    activation: str = "gelu"  # "gelu" or "relu"
    bias: bool = False  # whether the up-projections have a bias
    inputs: tuple[str, ...] = ()  # paths of the output layers whose inputs are masked
    head: tuple[str, ...] = ()  # paths of the modules that learn beside the adapters
    frozen: tuple[str, ...] = ()  # names of parameters within the head that do not learn
    norms: bool = False  # whether the normalization layers learn


@dataclass(frozen=True)
class Recipe:
    """What determines every mask of a wrapped model.

    Masks act in mode "forward" on activations, "backward" on gradients, "mixout" on the difference from the weights at
    the start.
    """

    kind: str  # of the mask source
    seed: int  # of the masks; those of further replicas are derived from it
    sites: tuple[SiteRecipe, ...]  # in the order of the model
    options: dict[str, int] = field(default_factory=dict)  # of the mask source
    replicas: int = 1  # how many masked parts the model has
    replicated: tuple[str, ...] = ()  # paths of the modules that each replica has for itself
    adapters: AdapterRecipe | None = None
    mode: Mode = "forward"
    start: str | None = None  # SHA-256 of the weights at the start, of which the networks of mode "mixout" are made

    def __hash__(self) -> int:
        return hash(self.to_json())

    def source(self, replica: int = 0) -> MaskSource:
        """Return the mask source of a replica."""
        return source_from(self.kind, replica_seed(self.seed, replica), self.options)

    def of_replica(self, replica: int) -> "Recipe":
        """Return the recipe of one replica as a model of its own."""
        sites = tuple(replace(site, replicated=False) for site in self.sites)
        return Recipe(self.kind, replica_seed(self.seed, replica), sites, self.options)

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps({"format": RECIPE_FORMAT, **asdict(self)}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        """Return the recipe of a JSON text."""
        content: dict[str, Any] = dict(json.loads(text))
        version = content.pop("format", None)
        if version != RECIPE_FORMAT:
            raise ModelError(
                f"the recipe has format {version!r}; this version of turnover reads format {RECIPE_FORMAT}. "
                "Load it with the version that wrote it."
            )
        content["sites"] = [SiteRecipe(**site) for site in content["sites"]]
        if content["adapters"] is not None:
            content["adapters"] = AdapterRecipe(**_with_tuples(content["adapters"]))
        recipe = cls(**_with_tuples(content))
        parts = (recipe, *recipe.sites, *(() if recipe.adapters is None else (recipe.adapters,)))
        if wrong := [problem for part in parts for problem in wrong_types(part)]:
            raise TypeError(f"values of the wrong type: {', '.join(wrong)}")
        chosen = [(recipe.mode, Mode), *((s.place, Place) for s in recipe.sites), *((s.dim, Dim) for s in recipe.sites)]
        if unknown := [value for value, kind in chosen if value not in get_args(kind)]:
            raise ValueError(f"unknown values: {', '.join(map(repr, unknown))}")
        return recipe

    def __str__(self) -> str:
        paths = ", ".join(f"{site.path} ({site.dim}, keep {site.keep:g})" for site in self.sites)
        options = "".join(f", {name} {value:,}" for name, value in sorted(self.options.items()))
        replicas = "" if self.replicas == 1 else f", {self.replicas} replicas of {', '.join(self.replicated)}"
        adapters = "" if self.adapters is None else f", adapters of {self.adapters.size} units"
        mode = "" if self.mode == "forward" else f", mode {self.mode}"
        mode += "" if self.start is None else f" from start weights {self.start[:_SHOWN]}"
        return f"{self.kind} masks, seed {self.seed}{options}{replicas}{adapters}{mode}, sites: {paths}"


def _with_tuples(content: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}


def replica_seed(seed: int, replica: int) -> int:
    """Return the mask seed of a replica: the model's own for the first, numbers derived from it for the others."""
    if replica == 0:
        return seed
    digest = hashlib.sha256(f"turnover replica {replica} of seed {seed}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@dataclass
class Learned:
    """What a wrapped model has detected about itself by running."""

    passes: int
    widths: list[int | None]
    batch_dims: list[int | None]

    @classmethod
    def nothing(cls, sites: int) -> "Learned":
        """Return the state of a model that never ran."""
        return cls(0, [None] * sites, [None] * sites)

    def completed_by(self, other: "Learned") -> "Learned":
        """Return this with the gaps filled from another state of the same model."""
        return Learned(
            max(self.passes, other.passes),
            [b if a is None else a for a, b in zip(self.widths, other.widths, strict=True)],
            [b if a is None else a for a, b in zip(self.batch_dims, other.batch_dims, strict=True)],
        )


def to_tensor(recipe: Recipe, learned: Learned) -> Tensor:
    """Return the uint8 tensor that travels in the state dict."""
    parts = [_HEAD.pack(_MAGIC, len(recipe.sites), learned.passes)]
    for width, batch_dim in zip(learned.widths, learned.batch_dims, strict=True):
        parts.append(_SITE.pack(width or 0, 0 if batch_dim is None else batch_dim + 1))
    parts.append(recipe.to_json().encode("utf-8"))
    return torch.frombuffer(bytearray(b"".join(parts)), dtype=torch.uint8)


def from_tensor(tensor: Tensor) -> tuple[Recipe, Learned]:
    """Return the recipe and what was learned from the tensor of a state dict."""
    try:
        if tensor.dtype != torch.uint8 or is_blank(tensor):
            raise ValueError("it does not begin as a recipe does")
        content = _bytes(tensor)
        _, sites, passes = _HEAD.unpack_from(content)
        recipe = Recipe.from_json(content[_HEAD.size + sites * _SITE.size :].decode("utf-8"))
        if len(recipe.sites) != sites:
            raise ValueError(f"{sites} sites announced, {len(recipe.sites)} found")
        learned = Learned(passes, [], [])
        for index in range(sites):
            width, batch_dim = _SITE.unpack_from(content, _HEAD.size + index * _SITE.size)
            learned.widths.append(width or None)
            learned.batch_dims.append(batch_dim - 1 if batch_dim else None)
        return recipe, learned
    except (struct.error, ValueError, TypeError, KeyError) as error:
        raise ModelError(
            f"the entry {RECIPE_KEY!r} of these weights must be a mask recipe of dtype torch.uint8, as it was written, "
            f"got {tensor.numel()} items of dtype {tensor.dtype}. Save the weights of the wrapped model again: "
            "turnover.save(model, folder)."
        ) from error


def is_blank(tensor: Tensor) -> bool:
    """Tell whether a recipe tensor was never written to: it does not begin as a recipe does."""
    return tensor.dtype == torch.uint8 and not _bytes(tensor).startswith(_MAGIC)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()
