"""Putting the masks of a recipe into a model and taking them out again; each replica alone; masks at fewer sites."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from torch import nn

from turnover.errors import ModelError, PlanError
from turnover.layers import (
    Learned,
    MaskedOutput,
    Masking,
    ModeHook,
    Recipe,
    Replicated,
    Site,
    TurnOverDropout,
    attach,
    detach,
    detach_replicas,
    drop_start,
    find_root,
    is_sharded,
    masking_of,
    remove_hooks,
    whole_model,
)

from ._code import Flow, exchange, listed
from ._replicas import put_replicas, replica_of
from .adapters import bottleneck_of, find_blocks, put_adapters, site_width

Model = TypeVar("Model", bound=nn.Module)  # what is done to a model leaves its class as it is
_UNFUSED = "_turnover_unfused"


def build(root: Model, recipe: Recipe, flow: Flow | None = None) -> Model:
    """Put the masks of a recipe into a model, which is changed, and return it; `flow` is that of the plan, if any."""
    if recipe.adapters is not None:
        put_adapters(root, recipe.adapters)
    masking = Masking(recipe)
    masking.learned.widths = [site_width(root, site) for site in recipe.sites]
    if recipe.replicas > 1:
        put_replicas(root, masking, flow)
    for index, made in enumerate(recipe.sites):
        module, site = root.get_submodule(made.path), Site(masking, index)
        if recipe.mode != "forward":
            module.register_forward_hook(ModeHook(site, module, recipe.mode), with_kwargs=True)
        elif made.place == "output":
            module.register_forward_hook(MaskedOutput(site))
        elif made.place == "replaced":
            layer = TurnOverDropout(made.keep, made.dim).train(module.training)
            layer.site = site
            layer.replaced = (module,)
            exchange(root, module, layer)
        elif isinstance(module, TurnOverDropout):
            module.site = site
        else:
            raise ModelError(f"site {site} must be a TurnOverDropout placed by hand, got a {type(module).__name__}.")
    # The nested-tensor path of an encoder would hand its layers tensors that no mask fits.
    for path, module in root.named_modules():
        nested = isinstance(module, nn.TransformerEncoder) and getattr(module, "use_nested_tensor", False)
        if nested and any(site.path.startswith(f"{path}." if path else "") for site in recipe.sites):
            setattr(module, "use_nested_tensor", False)  # noqa: B010 - no tensor, whatever the type checker thinks
            module.__dict__[_UNFUSED] = True
    attach(root, masking)
    return root


def without_masks(root: Model) -> Model:
    """Take the masks out of a model, which is changed, and return it."""
    for module in list(root.modules()):
        remove_hooks(module._forward_hooks, lambda hook: isinstance(hook, MaskedOutput | ModeHook))
        drop_start(module)
        if isinstance(module, TurnOverDropout) and module.site is not None:
            if module.replaced:
                exchange(root, module, module.replaced[0].train(module.training))
            else:
                module.site = None
        if module.__dict__.pop(_UNFUSED, False):
            setattr(module, "use_nested_tensor", True)  # noqa: B010
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


def _sharing(model: Model, others: dict[int, Any] | None = None) -> Model:
    """Return a copy of a model that shares its tensors; `others` stand in for parts of it, by their `id`."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {**{id(tensor): tensor for tensor in tensors}, **(others or {})})


def unwrap(model: Model, *, in_place: bool = False) -> Model:
    """Return a copy of a wrapped model without masks: the full network, with its own dropouts back in place.

    A model with replicas keeps them: the full network is their mean.

    Example:
        >>> import torch, turnover
        >>> net = turnover.wrap(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.1)))
        >>> turnover.unwrap(net)[1]
        Dropout(p=0.1, inplace=False)
    """
    root = wrapped_root(model)
    if root is not model:
        path = next(path for path, module in model.named_modules() if module is root)
        raise ModelError(
            f"this {type(model).__name__} only contains a wrapped model. Give that one: turnover.unwrap(model.{path})."
        )
    return without_masks(model if in_place else copy_of(model))


def replica_models(model: nn.Module, *, masked: bool = True) -> list[nn.Module]:
    """Return every replica of a wrapped model as a wrapped model of its own: views that share its weights, no copies.

    Each call makes all of them anew; whoever asks several questions keeps them. What one learns of its widths and
    batches the others do not see. Without masks (`masked=False`) they are the full network of each, and made faster.
    """
    inner = getattr(model, "_orig_mod", getattr(model, "module", model))  # within torch.compile and DDP
    whole = whole_model(inner if isinstance(inner, nn.Module) and find_root(inner) is not None else model)
    masking = masking_of(wrapped_root(whole))
    models: list[nn.Module] = []
    if not masked:
        whole = _sharing(whole, {id(masking): masking})  # which is taken out at once
        detach_replicas(without_masks(wrapped_root(whole)))
        stacked = [module for module in whole.modules() if isinstance(module, Replicated)]
        for number in range(masking.recipe.replicas):
            models.append(_sharing(whole, {id(module): module.replica(number) for module in stacked}))
        return models
    for number in range(masking.recipe.replicas):
        view = _sharing(whole)
        root = wrapped_root(view)
        replica = build(replica_of(without_masks(root), number), masking.recipe.of_replica(number))
        masking_of(replica).adopt_learned(masking.learned)
        if view is root:
            view = replica
        else:
            exchange(view, root, replica)
        models.append(view)
    return models


def top_sites(model: nn.Module, layers: int) -> list[str]:
    """Return the sites of a model with adapters in its top blocks, and those behind the blocks.

    Args:
        model: from `turnover.wrap(model, adapters=...)`.
        layers: how many of the blocks that have adapters; 0: none, the output layer alone.

    Example:
        >>> import torch, turnover
        >>> layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        >>> net = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 3), torch.nn.Flatten(), torch.nn.Linear(96, 2))
        >>> from turnover.wrapping import top_sites
        >>> top_sites(turnover.wrap(net, adapters=8), 0)
        ['2.masked_input']
    """
    root = wrapped_root(model)
    sites = [site.path for site in masking_of(root).recipe.sites]
    blocks = [[bottleneck_of(end) for end in ends] for _, ends in find_blocks(root)]
    masked = [own for own in blocks if any(site in sites for site in own)]
    if not masked:
        raise PlanError([f"no block of this model has a masked adapter. Name the sites yourself: {listed(sites)}."])
    if isinstance(layers, bool) or not isinstance(layers, int) or not 0 <= layers <= len(masked):
        raise PlanError([f"layers={layers!r}: {len(masked)} blocks have masks. Give a number from 0 to {len(masked)}."])
    below = {site for own in masked[: len(masked) - layers] for site in own}
    return [site for site in sites if site not in below]


def only_at(model: nn.Module, sites: Sequence[str]) -> nn.Module:
    """Return a model that shares all weights with a wrapped one and has its masks at some of its sites only.

    For scoring: what lies below the first of these sites is the full network's and runs once per query. The masks that
    stay are those that were trained.

    Args:
        model: a trained, wrapped model, without replicas.
        sites: paths of some of its sites, as `top_sites` gives them.

    Example:
        >>> import torch, turnover
        >>> layers = [torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU()]
        >>> net = torch.nn.Sequential(*layers, torch.nn.Linear(8, 2, bias=False))
        >>> from turnover.wrapping import only_at
        >>> top = only_at(turnover.wrap(net, at=["1", "3"]), ["3"])
        >>> with turnover.instances([0, 1]):
        ...     top(torch.zeros(2, 8)).shape
        torch.Size([2, 2])
    """
    root = wrapped_root(whole_model(model))
    recipe, learned = masking_of(root).recipe, masking_of(root).learned
    paths = [site.path for site in recipe.sites]
    if isinstance(sites, str) or not isinstance(sites, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise PlanError([f"`sites` must be a list of sites of this model ({listed(paths)}), got {sites!r}."])
    unknown = [path for path in sites if path not in paths]
    problems = [f"`sites` must name sites of this model ({listed(paths)}), got {path!r}." for path in unknown]
    if not sites:
        problems.append(f"no site is given. Name one of {listed(paths)}.")
    if recipe.replicas > 1:
        problems.append("the model has replicas. Scoring at fewer sites needs a model without: replicas=1.")
    if recipe.mode != "forward":
        problems.append(f"mode={recipe.mode!r} masks what learns; fewer sites go with mode='forward'.")
    if problems:
        raise PlanError(problems)
    numbers = [number for number, path in enumerate(paths) if path in sites]
    chosen = replace(recipe, sites=tuple(recipe.sites[number] for number in numbers), adapters=None)
    top = build(without_masks(_sharing(root)), chosen)
    widths, batch_dims = ([values[number] for number in numbers] for values in (learned.widths, learned.batch_dims))
    masking_of(top).adopt_learned(Learned(learned.passes, widths, batch_dims))
    return top
