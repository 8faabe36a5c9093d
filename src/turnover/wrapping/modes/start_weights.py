"""The start weights of mode "mixout": which they are, so that trained weights never meet others unnoticed."""

import hashlib
from dataclasses import replace

from torch import nn

from turnover.layers import Recipe
from turnover.wrapping.adapters.file import tensor_bytes


def with_start(recipe: Recipe, model: nn.Module) -> Recipe:
    """Return the recipe with a checksum of the weights that a model has now, where its mode starts from them."""
    if recipe.mode != "mixout":
        return recipe
    digest = hashlib.sha256()
    for site in recipe.sites:
        for name, parameter in model.get_submodule(site.path).named_parameters():
            digest.update(f"{site.path}.{name} {parameter.dtype} {list(parameter.shape)} ".encode())
            digest.update(tensor_bytes(parameter))
    return replace(recipe, start=digest.hexdigest())
