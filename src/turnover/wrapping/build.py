"""Putting the masks of a recipe into a model and taking them out again."""

import copy
from typing import TypeVar, cast

from torch import nn

from turnover.errors import ModelError, PlanError
from turnover.layers import (
    MaskedOutput,
    Masking,
    ModeHook,
    Recipe,
    ShownMask,
    Site,
    TurnOverDropout,
    attach,
    detach,
    drop_start,
    find_root,
    is_sharded,
    remove_hooks,
    whole_model,
)

from ._modules import exchange
from ._replicas import put_replicas
from .adapters import put_adapters, site_width

Model = TypeVar("Model", bound=nn.Module)  # what is done to a model leaves its class as it is
_UNFUSED = "_turnover_unfused"


def build(root: Model, recipe: Recipe) -> Model:
    """Put the masks of a recipe into a model, which is changed, and return it."""
    if recipe.adapters is not None:
        put_adapters(root, recipe.adapters)
    masking = Masking(recipe)
    masking.learned.widths = [site_width(root, site) for site in recipe.sites]
    if recipe.replicas > 1:
        put_replicas(root, masking)
    for index in range(len(recipe.sites)):
        _put_mask(root, Site(masking, index))
    # The nested-tensor path of an encoder would hand its layers tensors that no mask fits.
    for path, module in root.named_modules():
        inside = any(site.path.startswith(f"{path}." if path else "") for site in recipe.sites)
        if isinstance(module, nn.TransformerEncoder) and inside and getattr(module, "use_nested_tensor", False):
            module.use_nested_tensor = False
            module.__dict__[_UNFUSED] = True
    attach(root, masking)
    return root


def _put_mask(root: nn.Module, site: Site) -> None:
    module, recipe = root.get_submodule(site.recipe.path), site.recipe
    if site.masking.recipe.mode != "forward" or recipe.place == "output":
        module.__dict__["extra_repr"] = ShownMask(module, site)
    if site.masking.recipe.mode != "forward":
        module.register_forward_hook(ModeHook(site, module, site.masking.recipe.mode), with_kwargs=True)
    elif recipe.place == "output":
        module.register_forward_hook(MaskedOutput(site))
    elif recipe.place == "replaced":
        layer = TurnOverDropout(recipe.keep, recipe.dim).train(module.training)
        layer.site = site
        layer.replaced = (module,)
        exchange(root, module, layer)
    else:
        assert isinstance(module, TurnOverDropout)  # the plan saw to it
        module.site = site


def without_masks(root: Model) -> Model:
    """Take the masks out of a model, which is changed, and return it."""
    for module in list(root.modules()):
        remove_hooks(module._forward_hooks, lambda hook: isinstance(hook, MaskedOutput | ModeHook))
        if isinstance(module.__dict__.get("extra_repr"), ShownMask):
            del module.__dict__["extra_repr"]
        drop_start(module)
        if isinstance(module, TurnOverDropout) and module.site is not None:
            if module.replaced:
                exchange(root, module, module.replaced[0].train(module.training))
            else:
                module.site = None
        if module.__dict__.pop(_UNFUSED, False):
            setattr(module, "use_nested_tensor", True)  # noqa: B010 - no tensor, whatever the type checker thinks
    detach(root)
    return root


def wrapped_root(model: nn.Module) -> nn.Module:
    """Return the module that was wrapped, the model itself or below it (DDP, compile, Lightning), or raise."""
    root = find_root(model) if isinstance(model, nn.Module) else None
    if root is None:
        raise ModelError(
            f"this {type(model).__name__} has no masks. Wrap it before training: turnover.wrap(model, at=[...])."
        )
    return root


def copy_of(model: Model) -> Model:
    """Return a deep copy, of a sharded model a whole one; or say how to go without."""
    if is_sharded(model):
        return cast("Model", whole_model(model))
    try:
        return copy.deepcopy(model)
    except Exception as error:
        raise PlanError(
            [f"the model cannot be copied ({type(error).__name__}: {error}). Change it in place: in_place=True."]
        ) from error


def sharing(model: Model) -> Model:
    """Return a copy of the modules that shares all tensors."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
