"""Putting masks into a model and taking them out again."""

import copy
import warnings
from collections.abc import Iterator

from torch import nn

from turnover.errors import NotWrappedError, PlanError, TurnOverWarning
from turnover.layers import (
    MODE_HOOKS,
    MaskedOutput,
    Masking,
    Mode,
    Recipe,
    Site,
    SiteRecipe,
    TurnOverDropout,
    attach,
    detach,
    drop_start,
    find_root,
    masking_of,
    put_mode,
    remove_hooks,
)
from turnover.masks import MaskSource

from .adapters.adapters import Adapters
from .adapters.module import put_adapters, site_width
from .adapters.replicas import put_adapter_replicas
from .exchange import exchange
from .modes.start_weights import with_start
from .plan.plan import make_plan
from .plan.sites import At
from .replicas.replicate import put_replicas, replica_of

_UNFUSED = "_turnover_unfused"


def wrap(
    model: nn.Module,
    *,
    at: At = None,
    keep: float = 0.5,
    seed: int = 0,
    masks: str | MaskSource = "counter",
    replicas: int = 1,
    split: str | None = None,
    adapters: int | Adapters | None = None,
    mode: Mode = "forward",
    in_place: bool = False,
) -> nn.Module:
    """Return a copy of the model with instance masks on the outputs of the named modules.

    Everything is checked before anything is changed; all problems are reported together.

    Args:
        model: any module; its parameters keep their names.
        at: module paths or globs (`*` within one part of a path, `**` across), or a mapping from them to "features"
            (last dimension) or "channels" (dimension 1). None: every nn.Dropout that is called as a module is replaced.
        keep: share of units that an instance trains.
        seed: of all masks.
        masks: "counter", "volatile" or "codebook", or a source object with options of its own.
        replicas: how many masked parts to train over one shared trunk; outputs in keep and flip view are
            [replicas * batch, ...], one replica after the other, and their mean in full view.
        split: path of the module from which on everything is replicated; None: the one that feeds the first site.
        adapters: freeze a transformer and give its blocks adapters with bottlenecks of so many units; their
            bottlenecks and the input of the output layer are masked, `at` adds further sites. `Adapters` has options.
        mode: what masks act on. "forward": the outputs of the named modules. For whole pretrained networks, on every
            module that learns: "backward", the gradients of training alone, or "mixout", the difference from the
            weights that the model has now.
        in_place: change the model itself and return it.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2, bias=False))
        >>> net = turnover.wrap(net, at=["1"])
        >>> with turnover.instances([0, 1, 2]):
        ...     net(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
    """
    plan = make_plan(
        model,
        at=at,
        keep=keep,
        seed=seed,
        masks=masks,
        replicas=replicas,
        split=split,
        adapters=adapters,
        mode=mode,
    )
    plan.raise_problems()
    for warning in plan.warnings:
        warnings.warn(warning, TurnOverWarning, stacklevel=2)
    return build(model if in_place else copy_of(model), with_start(plan.recipe, model))


def build(root: nn.Module, recipe: Recipe) -> nn.Module:
    """Put the masks of a recipe into a model, which is changed, and return it."""
    if recipe.adapters is not None:
        put_adapters(root, recipe.adapters)
    masking = Masking(recipe)
    masking.learned.widths = [_width(root, site) for site in recipe.sites]
    if recipe.replicas > 1:
        (put_replicas if recipe.adapters is None else put_adapter_replicas)(root, masking)
    for index, site in enumerate(recipe.sites):
        module = root.get_submodule(site.path)
        if recipe.mode == "forward":
            _PLACES[site.place](root, module, Site(masking, index))
        else:
            put_mode(module, Site(masking, index), recipe.mode)
    # The nested-tensor path of an encoder would hand its layers tensors that no mask fits.
    for encoder in _encoders_with_sites(root, recipe.sites):
        if getattr(encoder, "use_nested_tensor", False):
            encoder.use_nested_tensor = False
            encoder.__dict__[_UNFUSED] = True
    attach(root, masking)
    return root


def _width(root: nn.Module, site: SiteRecipe) -> int | None:
    module = root.get_submodule(site.path)
    if site.place == "input" and isinstance(module, nn.Linear):
        return module.in_features
    return site_width(root, site.path)


def _mask_output(root: nn.Module, module: nn.Module, site: Site) -> None:
    module.register_forward_hook(MaskedOutput(site))


def _replace(root: nn.Module, module: nn.Module, site: Site) -> None:
    layer = TurnOverDropout(site.recipe.keep, site.recipe.dim).train(module.training)
    layer.site = site
    layer.replaced = (module,)
    exchange(root, module, layer)


def _claim(root: nn.Module, module: nn.Module, site: Site) -> None:
    assert isinstance(module, TurnOverDropout)  # the plan saw to it
    module.site = site


_PLACES = {"output": _mask_output, "replaced": _replace, "layer": _claim}


def _encoders_with_sites(root: nn.Module, sites: tuple[SiteRecipe, ...]) -> Iterator[nn.TransformerEncoder]:
    for path, module in root.named_modules():
        prefix = f"{path}." if path else ""
        if isinstance(module, nn.TransformerEncoder) and any(site.path.startswith(prefix) for site in sites):
            yield module


def unwrap(model: nn.Module, *, in_place: bool = False) -> nn.Module:
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
        raise NotWrappedError(
            f"this {type(model).__name__} only contains a wrapped model. Give that one: "
            f"turnover.unwrap(model.{_path_of(model, root)})."
        )
    return without_masks(model if in_place else copy_of(model))


def replica_models(model: nn.Module) -> list[nn.Module]:
    """Return every replica of a wrapped model as a wrapped model of its own that shares its weights."""
    inner = getattr(model, "_orig_mod", getattr(model, "module", model))  # within torch.compile and DDP
    whole = inner if isinstance(inner, nn.Module) and find_root(inner) is not None else model
    masking = masking_of(wrapped_root(whole))
    return [_one_replica(sharing(whole), masking, number) for number in range(masking.recipe.replicas)]


def _one_replica(whole: nn.Module, masking: Masking, number: int) -> nn.Module:
    root = wrapped_root(whole)
    learned = masking.learned
    one = build(replica_of(without_masks(root), number), masking.recipe.of_replica(number))
    masking_of(one).adopt_learned(learned)
    if whole is root:
        return one
    exchange(whole, root, one)
    return whole


def sharing(model: nn.Module) -> nn.Module:
    """Return a copy of the modules that shares all tensors."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def without_masks(root: nn.Module) -> nn.Module:
    """Take the masks out of a model, which is changed, and return it."""
    for module in list(root.modules()):
        remove_hooks(module._forward_hooks, lambda hook: isinstance(hook, (MaskedOutput, *MODE_HOOKS)))
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
        raise NotWrappedError(
            f"this {type(model).__name__} has no masks. Wrap it before training: turnover.wrap(model, at=[...])."
        )
    return root


def copy_of(model: nn.Module) -> nn.Module:
    """Return a deep copy, or say how to go without one."""
    try:
        return copy.deepcopy(model)
    except Exception as error:
        raise PlanError(
            [f"the model cannot be copied ({type(error).__name__}: {error}). Change it in place: in_place=True."]
        ) from error


def _path_of(model: nn.Module, wanted: nn.Module) -> str:
    return next(path for path, module in model.named_modules() if module is wanted)
