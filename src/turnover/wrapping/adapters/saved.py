"""What of a model with adapters goes to disk: all that learned, and fingerprints of the base that did not.

The base is much larger than the adapters and the same for all of them. It is not saved; its weights are recognized by
their checksums, so that adapters never come onto a base they were not trained with.
"""

import hashlib
from collections.abc import Mapping

from torch import Tensor, nn

from turnover.errors import SavedModelError
from turnover.layers import AdapterRecipe, Recipe

from .file import tensor_bytes
from .module import NAME, adapters_in, bottleneck_of, input_of, is_norm

_SHOWN = 4


def own_state(root: nn.Module, recipe: AdapterRecipe) -> dict[str, Tensor]:
    """Return the part of the state dict that is not the base's: adapters, head, whatever else learns, and buffers."""
    base = set(_base(root, recipe))
    return {name: value.detach().cpu() for name, value in root.state_dict().items() if name not in base}


def base_checksums(root: nn.Module, recipe: AdapterRecipe) -> dict[str, str]:
    """Return a checksum of every parameter of the base."""
    return {name: _checksum(parameter) for name, parameter in _base(root, recipe).items()}


def check_base(root: nn.Module, recipe: AdapterRecipe, saved: Mapping[str, str], folder: str) -> None:
    """Raise unless the frozen parameters of a model with adapters are those that the saved ones were trained on."""
    parameters = dict(root.named_parameters(remove_duplicate=False))
    missing = [name for name in saved if name not in parameters]
    other = [
        name for name, checksum in saved.items() if name not in missing and _checksum(parameters[name]) != checksum
    ]
    if missing or other:
        found = f"{_some(missing)} is missing" if missing else f"{_some(other)} differs"
        raise SavedModelError(
            f"the adapters in {folder!r} were trained on another base: {found} ({len(missing) + len(other)} of "
            f"{len(saved)} frozen tensors). Give the model that was wrapped, from the same checkpoint and in the same "
            "dtype. If these weights were drawn at random when the base was built, set the seed before, or let them "
            "learn with the head: Adapters(head=[...])."
        )


def modules_needed(recipe: Recipe, adapters: AdapterRecipe) -> list[str]:
    """Return the paths that a base must have: those with adapters or masks, less what comes with the adapters."""
    added = {*map(bottleneck_of, adapters.after), *map(input_of, adapters.inputs)}
    sites = [site.path for site in recipe.sites if site.path not in added]
    return list(dict.fromkeys([*adapters.after, *adapters.inputs, *adapters.head, *sites]))


def check_plain(model: nn.Module) -> None:
    """Raise where a model already has adapters."""
    if adapters_in(model):
        raise SavedModelError(
            "the model already has adapters. Give the plain base; adapters and masks come from the folder."
        )


def _base(root: nn.Module, recipe: AdapterRecipe) -> dict[str, nn.Parameter]:
    """Return the parameters that were frozen since the model was wrapped."""
    norms = [path for path, module in root.named_modules() if recipe.norms and is_norm(module)]
    # By place, not by requires_grad alone: a model that is frozen for use is saved like one in training.
    own = tuple(f"{path}." for path in (*recipe.head, *norms, *(f"{path}.{NAME}" for path in recipe.after)))
    return {
        name: parameter
        for name, parameter in root.named_parameters(remove_duplicate=False)
        if not parameter.requires_grad and not name.startswith(own)
    }


def _checksum(parameter: nn.Parameter) -> str:
    digest = hashlib.sha256(f"{parameter.dtype} {list(parameter.shape)} ".encode())
    digest.update(tensor_bytes(parameter))
    return digest.hexdigest()[:16]


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
