"""Which modules every replica has for itself, and putting them into a model.

The unit is the largest module with parameters of its own and a trainable one among them; frozen weights are shared by
all replicas. From the split on, all units are replicated. Where the code can be traced (torch.fx), "from the split on"
is what its output flows into and what is registered behind it; elsewhere the order of registration decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from turnover.layers import Expansion, Masking, Replicated, SiteRecipe, attach_replicas, detach_replicas
from turnover.wrapping.adapters.module import mask_input, take_input
from turnover.wrapping.exchange import exchange

from .flow import flow_of
from .fresh import drawn_anew

_SHOWN = 8


@dataclass(frozen=True)
class ReplicaPlan:
    """What would be replicated.

    Attributes:
        split: path of the first module that is; None where rows grow at the first site.
        replicated: paths of all modules that are.
        sites: the sites, each knowing whether it has masks for every replica.
        problems: why it cannot be done, and what to do.
        warnings: what would leak from one replica into another.
        notes: what is worth knowing.
    """

    split: str | None
    replicated: tuple[str, ...]
    sites: tuple[SiteRecipe, ...]
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan_replicas(model: nn.Module, sites: tuple[SiteRecipe, ...], replicas: int, split: str | None) -> ReplicaPlan:
    """Return what `replicas` and `split` ask for; all problems are collected, none is raised."""
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        return ReplicaPlan(
            None, (), sites, (f"replicas={replicas!r} is no number of replicas. Give an integer from 1.",)
        )
    if replicas == 1:
        problems = () if split is None else (f"split={split!r} needs replicas: give replicas=8, or leave split out.",)
        return ReplicaPlan(None, (), sites, problems)
    if not sites:
        return ReplicaPlan(None, (), sites)
    modules = dict(model.named_modules())
    if split is not None and split not in modules:
        where = _where(_Order(model, [site.path for site in sites]))
        return ReplicaPlan(None, (), sites, (f"split={split!r} is no module of this model. {where}",))
    order = _Order(model, [site.path for site in sites])
    start = order.first() if split is None else split
    chosen, own = order.from_split(start)
    marked = tuple(replace(site, replicated=site.path in own) for site in sites)
    problems = _problems(modules, marked, chosen)
    mixed = order.mixes(start)
    if mixed is not None:
        problems.append(
            f"the model does not split at {start!r}: {mixed} takes rows from before and from behind it. "
            + _where(order)
        )
    notes = [f"{replicas} replicas of {', '.join(chosen)}; what runs before is shared by all"]
    shared = [(unit, site) for site in own for unit in order.feeders(site) if unit not in chosen]
    warnings = [
        f"{unit!r} feeds site {site!r} and is shared by all replicas: what one of them drops there, another trains. "
        f"Split earlier: split={unit!r}, or leave split out."
        for unit, site in shared
    ]
    return ReplicaPlan(start, chosen, marked, tuple(problems), tuple(warnings), tuple(notes))


def put_replicas(root: nn.Module, masking: Masking) -> None:
    """Give every replica its own weights, in a model that is changed.

    The first replica gets the weights that are there. The others get weights of their own where those that are there
    are freshly drawn ones; weights that were trained are copied.
    """
    recipe = masking.recipe
    own = [site.path for site in recipe.sites if site.replicated]
    flow = flow_of(root, [*recipe.replicated, *own])
    entries = {} if flow is None else flow.entries(recipe.replicated, own)
    for index, site in enumerate(recipe.sites):
        masking.expansions[index].expands = entries.get(site.path) if site.path not in recipe.replicated else False
    stacked: dict[nn.Parameter, nn.Parameter] = {}
    for path in recipe.replicated:
        module = root.get_submodule(path)
        copies = [module, *(drawn_anew(module) for _ in range(recipe.replicas - 1))]
        expansion = Expansion(recipe.replicas, path, entries.get(path))
        exchange(root, module, Replicated(copies, expansion, stacked))
    attach_replicas(root, recipe.replicas)


def replica_of(root: nn.Module, number: int) -> nn.Module:
    """Turn a model with replicas and without masks into one of its replicas, which shares the weights; return it."""
    detach_replicas(root)
    for module in list(root.modules()):
        if isinstance(module, Replicated):
            one = module.replica(number).train(module.training)
            exchange(root, module, one)
            if take_input(module):
                mask_input(one)
    return root


class _Order:
    """The modules of a model in their order, and where it can be split."""

    def __init__(self, model: nn.Module, sites: Sequence[str]) -> None:
        self._modules = dict(model.named_modules())
        self._units = list(units_of(model))
        self._sites = list(sites)
        self._flow = flow_of(model, [*self._units, *sites])

    def first(self) -> str:
        """Return where replicas begin unless told: at what feeds the first site, or at that site if it is frozen."""
        order = list(self._modules) if self._flow is None else self._flow.order()
        site = min(self._sites, key=lambda path: order.index(path) if path in order else len(order))
        feeders = self.feeders(site)
        return feeders[0] if feeders else site

    def feeders(self, site: str) -> list[str]:
        """Return the units that learn and feed a site, in the order of the model."""
        paths = list(self._modules)
        if site in self._units:
            found = [site]
        elif self._flow is not None and site in self._flow.order():
            found = self._flow.feeders(site, self._units)
        else:
            found = [path for path in self._units if paths.index(path) < paths.index(site)][-1:]
        return [path for path in paths if path in found and learns(self._modules[path])]

    def from_split(self, start: str) -> tuple[tuple[str, ...], set[str]]:
        """Return the units that are replicated, and the sites that have masks for every replica."""
        paths = list(self._modules)
        behind = set(paths[paths.index(start) :])
        if self._flow is not None:
            behind = (behind - self._flow.before(start)) | self._flow.behind(start)
        units = tuple(path for path in self._units if path in behind and learns(self._modules[path]))
        return units, {path for path in self._sites if path in behind}

    def mixes(self, start: str) -> str | None:
        """Return where rows of the trunk and of replicas would meet, if that is known."""
        return None if self._flow is None else self._flow.mixes(*self.from_split(start))

    def candidates(self) -> list[str]:
        """Return the modules at which the model could be split so that every site has masks for every replica."""
        found = [path for path in self._units if path and learns(self._modules[path])]
        return [path for path in found if len(self.from_split(path)[1]) == len(self._sites) and not self.mixes(path)]


def units_of(model: nn.Module) -> Iterator[str]:
    """Yield the largest modules with parameters of their own."""
    inside: list[str] = []
    for path, module in model.named_modules():
        if any(path.startswith(f"{outer}.") for outer in inside if outer) or "" in inside:
            continue
        if any(True for _ in module.parameters(recurse=False)):
            inside.append(path)
            yield path


def learns(module: nn.Module) -> bool:
    """Tell whether a module has a parameter that learns."""
    return any(parameter.requires_grad for parameter in module.parameters())


def _where(order: _Order) -> str:
    found = order.candidates()
    if not found:
        return "No module was found at which it would; train separate models: Influence([m1, m2, m3])."
    return f"It could split at {', '.join(map(repr, found[:_SHOWN]))}."


def _problems(modules: Mapping[str, nn.Module], sites: Sequence[SiteRecipe], chosen: Sequence[str]) -> list[str]:
    problems: list[str] = []
    if not chosen:
        problems.append("replicas: no module with trainable parameters comes behind the split. Split earlier.")
    if "" in chosen:
        problems.append("replicas: the model is a single module. Put it into nn.Sequential(model) first.")
    for site in sites:
        inside = [unit for unit in chosen if unit and site.path.startswith(f"{unit}.")]
        problems += [
            f"site {site.path!r} lies inside {unit!r}, which has parameters of its own and is replicated as one. "
            f"Mask the output of {unit!r}, or train separate models: Influence([m1, m2, m3])."
            for unit in inside
        ]
        if site.replicated and site.batch_told and site.batch_dim != 0:
            problems.append(
                f"site {site.path!r} has its batch in dimension {site.batch_dim}; replicas need it in dimension 0. "
                "Build the module with batch_first=True."
            )
    own = {parameter for path in chosen for parameter in modules[path].parameters()}
    rest = [
        path for path, module in modules.items() if not _within(path, chosen) and own & set(module._parameters.values())
    ]
    if rest:
        problems.append(
            f"{', '.join(map(repr, rest))} is tied to weights behind the split: replicas would untie them. Split at an "
            "earlier module, or untie the weights first."
        )
    return problems


def _within(path: str, units: Sequence[str]) -> bool:
    return any(path == unit or path.startswith(f"{unit}.") for unit in units)
