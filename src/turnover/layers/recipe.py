"""The mask recipe: all that determines the masks of a wrapped model, as one uint8 tensor of its state dict.

The tensor has two parts. The first is what the model has learned about itself so far (how many training passes its
sites saw, the width and batch dimension of each site), of fixed size so that the tensor's shape never changes. The
second is the recipe proper, as JSON; it is fixed when the model is wrapped and must agree wherever the weights go.
"""

import json
import struct
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from turnover.errors import RecipeMismatchError
from turnover.masks import MaskSource, source_from

RECIPE_KEY = "turnover_recipe"
RECIPE_FORMAT = 1
_MAGIC = b"TURNOVER"
_HEAD = struct.Struct("<8sIQ")  # magic, number of sites, training passes
_SITE = struct.Struct("<IB")  # width (0: not seen yet), batch dimension + 1 (0: not seen yet)

Dim = Literal["features", "channels"]
Place = Literal["output", "replaced", "layer"]


@dataclass(frozen=True)
class SiteRecipe:
    """One site: where the mask acts and how.

    Attributes:
        path: module path at wrap time; the key of the site's masks.
        place: "output" of a module, "replaced" dropout, or a "layer" that was placed by hand.
        dim: "features" (last dimension) or "channels" (dimension 1).
        keep: share of units that an instance trains.
        batch_dim: where the batch is: 1 below a module with batch_first=False, else 0.
        batch_told: whether an enclosing module says so by its batch_first; if not, a training pass may find another.
        told: whether the user or the module's type says which dimension has the units.
    """

    path: str
    place: Place
    dim: Dim
    keep: float
    batch_dim: int = 0
    batch_told: bool = False
    told: bool = True


@dataclass(frozen=True)
class Recipe:
    """What determines every mask of a wrapped model."""

    kind: str
    seed: int
    sites: tuple[SiteRecipe, ...]
    options: dict[str, int] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Hash by the JSON text, since the options are a dict."""
        return hash(self.to_json())

    def source(self) -> MaskSource:
        """Return the mask source that this recipe names."""
        return source_from(self.kind, self.seed, self.options)

    def to_json(self) -> str:
        """Return the canonical JSON text."""
        content = {"format": RECIPE_FORMAT, **asdict(self)}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        """Return the recipe of a JSON text."""
        content: dict[str, Any] = json.loads(text)
        version = content.pop("format", None)
        if version != RECIPE_FORMAT:
            raise RecipeMismatchError(
                f"the recipe has format {version!r}; this version of turnover reads format {RECIPE_FORMAT}. "
                "Load it with the version that wrote it."
            )
        sites = tuple(SiteRecipe(**site) for site in content.pop("sites"))
        return cls(sites=sites, **content)

    def __str__(self) -> str:
        """Return a line that a person can compare with another."""
        paths = ", ".join(f"{site.path} ({site.dim}, keep {site.keep:g})" for site in self.sites)
        options = "".join(f", {name} {value:,}" for name, value in sorted(self.options.items()))
        return f"{self.kind} masks, seed {self.seed}{options}, sites: {paths}"


@dataclass
class Learned:
    """What a wrapped model has found out about itself by running."""

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
    if tensor.dtype != torch.uint8 or is_blank(tensor):
        raise _damaged(tensor)
    try:
        return _parse(_bytes(tensor))
    except (struct.error, ValueError, TypeError, KeyError) as error:
        raise _damaged(tensor) from error


def is_blank(tensor: Tensor) -> bool:
    """Tell whether a recipe tensor was never written to: it does not begin as a recipe does."""
    return tensor.dtype == torch.uint8 and not _bytes(tensor).startswith(_MAGIC)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()


def _parse(content: bytes) -> tuple[Recipe, Learned]:
    _, sites, passes = _HEAD.unpack_from(content)
    text = content[_HEAD.size + sites * _SITE.size :].decode("utf-8")
    recipe = Recipe.from_json(text)
    if len(recipe.sites) != sites:
        raise ValueError(f"{sites} sites announced, {len(recipe.sites)} found")
    learned = Learned.nothing(sites)
    learned.passes = passes
    for index in range(sites):
        width, batch_dim = _SITE.unpack_from(content, _HEAD.size + index * _SITE.size)
        learned.widths[index] = width or None
        learned.batch_dims[index] = batch_dim - 1 if batch_dim else None
    return recipe, learned


def _damaged(tensor: Tensor) -> RecipeMismatchError:
    return RecipeMismatchError(
        f"the entry {RECIPE_KEY!r} of these weights is no mask recipe (dtype {tensor.dtype}, {tensor.numel()} items); "
        "a recipe is of dtype torch.uint8 and must stay as it is. Save the weights of the wrapped model again: "
        "turnover.save(model, folder)."
    )
