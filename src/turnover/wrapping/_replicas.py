"""Which modules every replica has for itself, and putting them into a model.

The unit is the largest module with parameters of its own and a trainable one among them; frozen weights are shared by
all replicas. From the split on, all units are replicated. Where the code can be traced (torch.fx), "from the split on"
is what its output flows into and what is registered behind it; elsewhere the order of registration decides.

In a model with adapters, residual connections lead around every adapter, so that rows of one replica and rows of none
must never meet: the rows are expanded before the model, and all of it runs once for each replica. Each replica has its
own adapters and output layers. In a transformer whose first block has adapters hardly anything would be saved by
expanding later.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from turnover.layers import (
    AdapterRecipe,
    Expansion,
    Masking,
    Replicated,
    SiteRecipe,
    attach_replicas,
    detach_replicas,
)

from ._code import Flow, exchange, has_own_parameters, is_within, listed
from .adapters import NAME, Adapter, mask_input, output_layers, take_input

_FEWEST_WEIGHTS = 16
_ALIKE = 0.15
_ROUNDING = 1 + 1e-5


@dataclass(frozen=True)
class ReplicaPlan:
    """What would be replicated."""

    sites: tuple[SiteRecipe, ...]  # each knows whether it has masks for every replica
    replicated: tuple[str, ...] = ()  # paths of all modules that are
    problems: tuple[str, ...] = ()  # why it cannot be done, and what to do
    warnings: tuple[str, ...] = ()  # what would leak from one replica into another
    notes: tuple[str, ...] = ()  # what is worth knowing


def plan_replicas(
    flow: Flow, sites: tuple[SiteRecipe, ...], replicas: int, split: str | None, adapters: AdapterRecipe | None
) -> ReplicaPlan:
    """Return what `replicas` and `split` ask for; all problems are collected, none is raised."""
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        problem = f"`replicas` must be an integer >= 1, got {replicas!r}. Give replicas=8, or leave it out."
        return ReplicaPlan(sites, problems=(problem,))
    if replicas == 1:
        problems = () if split is None else (f"split={split!r} needs replicas: give replicas=8, or leave split out.",)
        return ReplicaPlan(sites, problems=problems)
    if adapters is not None:
        return _plan_adapter_replicas(flow.model, adapters, sites, replicas, split)
    if not sites:
        return ReplicaPlan(sites)
    if split is not None and (not isinstance(split, str) or split not in flow.modules):  # pyright: ignore[reportUnnecessaryIsInstance]
        problem = f"`split` must be the path of a module of this model, got {split!r}. {_where(flow)}"
        return ReplicaPlan(sites, problems=(problem,))
    start = flow.first() if split is None else split
    chosen, own = flow.from_split(start)
    marked = tuple(replace(site, replicated=site.path in own) for site in sites)
    problems = list(_problems(flow, marked, chosen))
    mixed = flow.entries({*chosen, *own})[1]
    if mixed is not None:
        problems.append(
            f"the model does not split at {start!r}: {mixed} takes rows from before and from behind it. " + _where(flow)
        )
    note = f"{replicas} replicas of {', '.join(chosen)}; what runs before is shared by all"
    warnings: list[str] = []
    for site in own:
        for unit in flow.feeders(site):
            if unit not in chosen:
                warnings.append(
                    f"{unit!r} feeds site {site!r} and is shared by all replicas: what one of them drops there, "
                    f"another trains. Split earlier: split={unit!r}, or leave split out."
                )
    return ReplicaPlan(marked, chosen, tuple(problems), tuple(warnings), (note,))


def _plan_adapter_replicas(
    model: nn.Module, adapters: AdapterRecipe, sites: tuple[SiteRecipe, ...], replicas: int, split: str | None
) -> ReplicaPlan:
    layers = output_layers(model, adapters.head)
    parts = [f"{path}.{NAME}.{part}" for path in adapters.after for part in ("down", "up")]
    replicated = (*parts, *layers.paths)
    marked = tuple(replace(site, replicated=True) for site in sites)
    problems = list(_batch_problems(marked))
    if split is not None:
        problems.append(f"split={split!r}: with adapters, replicas begin at the model's input. Leave split out.")
    learning = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    other = [name for name in learning if not is_within(name, replicated)]
    if adapters.norms:
        problems.append("Adapters(norms=True): all replicas would train the same normalization layers. Leave it out.")
    elif other:
        problems.append(
            f"{listed(other, 4)} learns beside the adapters and belongs to no linear layer, so all replicas would "
            "train it. Name linear layers only: Adapters(head=['path', ...])."
        )
    note = (
        f"{replicas} replicas of the adapters{' and of ' if layers.paths else ''}{', '.join(layers.paths)}; the frozen "
        f"model's weights are shared, and it runs once for each replica"
    )
    return ReplicaPlan(marked, replicated, tuple(problems), notes=(note,))


def put_replicas(root: nn.Module, masking: Masking, flow: Flow | None) -> None:
    """Give every replica its own weights, in a model that is changed; `flow` is that of the plan, if there was one.

    The first replica gets the weights that are there. The others get weights of their own where those that are there
    are freshly drawn ones; weights that were trained are copied.
    """
    recipe = masking.recipe
    if recipe.adapters is not None:
        _put_adapter_replicas(root, masking, recipe.adapters)
        return
    own = [site.path for site in recipe.sites if site.replicated]
    entries, _ = (flow or Flow(root, own, recipe.replicated)).entries({*recipe.replicated, *own})
    for site, expansion in zip(recipe.sites, masking.expansions, strict=True):
        expansion.expands = entries.get(site.path) if site.path not in recipe.replicated else False
    stacked: dict[nn.Parameter, nn.Parameter] = {}
    for path in recipe.replicated:
        module = root.get_submodule(path)
        expansion = Expansion(recipe.replicas, path, entries.get(path))
        exchange(root, module, Replicated(_copies(module, recipe.replicas), expansion, stacked))
    attach_replicas(root, recipe.replicas)


def _put_adapter_replicas(root: nn.Module, masking: Masking, adapters: AdapterRecipe) -> None:
    """Give every replica its own adapters and output layers."""
    replicas = masking.recipe.replicas
    for expansion in masking.expansions:
        expansion.expands = False
    for path in adapters.after:
        adapter = root.get_submodule(f"{path}.{NAME}")
        assert isinstance(adapter, Adapter)
        every = [adapter, *(adapter.drawn_anew() for _ in range(replicas - 1))]
        for part in ("down", "up"):
            copies = [copied.get_submodule(part) for copied in every]
            expansion = Expansion(replicas, f"{path}.{NAME}.{part}", expands=False)
            exchange(root, copies[0], Replicated(copies, expansion))
    for path in output_layers(root, adapters.head).paths:
        layer = root.get_submodule(path)
        masked = take_input(layer)
        stacked = Replicated(_copies(layer, replicas), Expansion(replicas, path, expands=False))
        exchange(root, layer, stacked)
        if masked:
            mask_input(stacked)
    attach_replicas(root, replicas, expand_inputs=True)


def replica_of(root: nn.Module, number: int) -> nn.Module:
    """Turn a model with replicas and without masks into one of its replicas, which shares the weights; return it."""
    detach_replicas(root)
    for module in list(root.modules()):
        if isinstance(module, Replicated):
            replica = module.replica(number).train(module.training)
            exchange(root, module, replica)
            if take_input(module):
                mask_input(replica)
    return root


def units_of(model: nn.Module) -> Iterator[str]:
    """Yield the largest modules with parameters of their own."""
    inside: list[str] = []
    for path, module in model.named_modules():
        if is_within(path, inside) or "" in inside:
            continue
        if has_own_parameters(module):
            inside.append(path)
            yield path


def _where(flow: Flow) -> str:
    candidates = flow.candidates()
    if not candidates:
        return "No module was found at which it would; train separate models: Influence([m1, m2, m3])."
    return f"It could split at {listed(candidates)}."


def _problems(flow: Flow, sites: Sequence[SiteRecipe], chosen: Sequence[str]) -> Iterator[str]:
    if not chosen:
        yield "replicas: no module with trainable parameters comes behind the split. Split earlier."
    if "" in chosen:
        yield "replicas: the model is a single module. Put it into nn.Sequential(model) first."
    for site in sites:
        for unit in chosen:
            if unit and site.path.startswith(f"{unit}."):
                yield (
                    f"site {site.path!r} lies inside {unit!r}, which has parameters of its own and is replicated as "
                    f"one. Mask the output of {unit!r}, or train separate models: Influence([m1, m2, m3])."
                )
    yield from _batch_problems(sites)
    own = set[nn.Parameter]()
    for path in chosen:
        own.update(flow.modules[path].parameters())
    rest: list[str] = []
    for path, module in flow.modules.items():
        if not is_within(path, chosen) and not own.isdisjoint(module._parameters.values()):
            rest.append(repr(path))
    if rest:
        yield (
            f"{', '.join(rest)} is tied to weights behind the split: replicas would untie them. Split at an "
            "earlier module, or untie the weights first."
        )


def _batch_problems(sites: Sequence[SiteRecipe]) -> Iterator[str]:
    for site in sites:
        if site.replicated and site.batch_told and site.batch_dim != 0:
            yield (
                f"site {site.path!r} has its batch in dimension {site.batch_dim}; replicas need it in dimension 0. "
                "Build the module with batch_first=True."
            )


# Weights for further replicas are drawn anew where those that are there are fresh, and copied where they were trained.
# A layer of torch draws its weights uniformly within bounds that its size sets. Weights that still fill these bounds,
# and none beyond, are fresh; a pretrained or trained layer never looks like that.


def _copies(module: nn.Module, count: int) -> list[nn.Module]:
    """Return a module and further ones like it: with new random weights where its own are fresh, else with the same."""
    fresh = list(map(is_fresh, module.modules()))
    copies = [module]
    for _ in range(count - 1):
        copies.append(copy.deepcopy(module))
        for part, drawn in zip(copies[-1].modules(), fresh, strict=True):
            if drawn:
                part.reset_parameters()  # pyright: ignore[reportCallIssue]
    return copies


def is_fresh(module: nn.Module) -> bool:
    """Tell whether a linear, convolutional or recurrent layer still has weights as it draws them."""
    if not isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.RNNBase | nn.Bilinear):
        return False
    drawn = copy.deepcopy(module)
    with torch.random.fork_rng(devices=[]):
        drawn.reset_parameters()
    pairs = list(zip(module.parameters(recurse=False), drawn.parameters(recurse=False), strict=True))
    largest = max(module.parameters(recurse=False), key=Tensor.numel)
    return largest.numel() >= _FEWEST_WEIGHTS and False not in [_alike(given, fresh) for given, fresh in pairs]


def _alike(given: Tensor, drawn: Tensor) -> bool:
    """Tell whether numbers could come from the uniform distribution that others come from."""
    if drawn.numel() < _FEWEST_WEIGHTS:
        return True  # too few to tell; the weights of the layer decide
    # The bound of a uniform distribution is sqrt(3) of its standard deviation; the largest of many comes close to it.
    bound = float(drawn.detach().abs().max()) * (1 + _FEWEST_WEIGHTS / drawn.numel())
    largest, spread = float(given.detach().abs().max()), float(given.detach().std())
    return largest <= bound * _ROUNDING and abs(spread / float(drawn.detach().std()) - 1) < _ALIKE
