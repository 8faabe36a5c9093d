"""Wrapped models made from others: `wrap` and its undoing, each replica alone, and masks at fewer sites."""

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

from torch import nn

from turnover.errors import ModelError, PlanError, TurnOverWarning
from turnover.layers import Learned, Masking, Mode, Recipe, find_root, masking_of, tensor_bytes, whole_model
from turnover.masks import MaskSource

from ._modules import exchange, listed
from ._replicas import replica_of
from ._sites import At
from .adapters import Adapters, bottleneck_of, find_blocks
from .build import Model, build, copy_of, sharing, without_masks, wrapped_root
from .plan import plan


def wrap(
    model: Model,
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
) -> Model:
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
    planned = plan(
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
    planned.raise_problems()
    for warning in planned.warnings:
        warnings.warn(warning, TurnOverWarning, stacklevel=2)
    return build(model if in_place else copy_of(model), _with_start(planned.recipe, model))


def _with_start(recipe: Recipe, model: nn.Module) -> Recipe:
    """Return the recipe with a checksum of the weights that a model has now, where its mode starts from them.

    By it trained weights are never put onto other start weights unnoticed.
    """
    if recipe.mode != "mixout":
        return recipe
    digest = hashlib.sha256()
    for site in recipe.sites:
        for name, parameter in model.get_submodule(site.path).named_parameters():
            digest.update(f"{site.path}.{name} {parameter.dtype} {list(parameter.shape)} ".encode())
            digest.update(tensor_bytes(parameter))
    return replace(recipe, start=digest.hexdigest())


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


def replica_models(model: nn.Module) -> list[nn.Module]:
    """Return every replica of a wrapped model as a wrapped model of its own that shares its weights."""
    inner = getattr(model, "_orig_mod", getattr(model, "module", model))  # within torch.compile and DDP
    whole = whole_model(inner if isinstance(inner, nn.Module) and find_root(inner) is not None else model)
    masking = masking_of(wrapped_root(whole))
    return [_one_replica(sharing(whole), masking, number) for number in range(masking.recipe.replicas)]


def _one_replica(whole: nn.Module, masking: Masking, number: int) -> nn.Module:
    root = wrapped_root(whole)
    replica = build(replica_of(without_masks(root), number), masking.recipe.of_replica(number))
    masking_of(replica).adopt_learned(masking.learned)
    if whole is root:
        return replica
    exchange(whole, root, replica)
    return whole


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
    blocks = [[bottleneck_of(end) for end in block.ends] for block in find_blocks(root)]
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
    masking = masking_of(root)
    recipe, learned = masking.recipe, masking.learned
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
    top = build(without_masks(sharing(root)), chosen)
    widths, batch_dims = ([values[number] for number in numbers] for values in (learned.widths, learned.batch_dims))
    masking_of(top).adopt_learned(Learned(learned.passes, widths, batch_dims))
    return top
