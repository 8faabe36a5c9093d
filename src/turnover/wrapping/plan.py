"""The plan: a dry run of `wrap` that says which sites there would be, what would leak and what is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from turnover.errors import AlreadyWrappedError, MaskError, PlanError
from turnover.layers import Recipe
from turnover.layers.root import find_root
from turnover.masks import MaskSource, source_named

from .leaks import Leak, expected_leaks
from .plan_table import plan_table
from .sites import At, choose_sites, width_of
from .zero_flow import OUTPUTS, ZeroFlow, feeds_output_linear, zero_flows


@dataclass(frozen=True)
class SitePlan:
    """One site as it would be.

    Attributes:
        path: module path, the key of its masks.
        module: type of the module.
        place: "output" of the module, "replaced" dropout or "layer" placed by hand.
        dim: "features" or "channels".
        width: units, where known.
        batch_dim: dimension of the batch.
        keep: share of units that an instance trains.
        zero: whether zero stays zero up to the next weights.
        runs: whether the example reached it; None without an example.
    """

    path: str
    module: str
    place: str
    dim: str
    width: int | None
    batch_dim: int
    keep: float
    zero: ZeroFlow
    runs: bool | None = None


@dataclass(frozen=True)
class Plan:
    """What `turnover.wrap` would do; print it."""

    recipe: Recipe
    sites: tuple[SitePlan, ...]
    leaks: tuple[Leak, ...]
    leaks_measured: bool = False
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    path: str = "grown at the first site"
    parameters: int = 0
    trainable: int = 0

    def raise_problems(self) -> None:
        """Raise one error with all problems, if there are any."""
        if self.problems:
            raise PlanError(list(self.problems))

    def __str__(self) -> str:
        """Return the plan as a table."""
        return plan_table(self)


def plan(
    model: nn.Module,
    *,
    at: At = None,
    keep: float = 0.5,
    seed: int = 0,
    masks: str | MaskSource = "counter",
    in_place: bool = False,
    example: Any = None,
) -> Plan:
    """Return what `wrap` would do with the same arguments; the model is not touched.

    Args:
        model: any module.
        at: as for `wrap`.
        keep: as for `wrap`.
        seed: as for `wrap`.
        masks: as for `wrap`.
        in_place: accepted so that `wrap` can be exchanged for `plan`; a plan changes nothing.
        example: inputs of a few rows (a tensor, a tuple of arguments or a dict of keywords). With it widths, batch
            dimensions, sites that never run and leaks are measured on a copy of the model.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> turnover.plan(net, at=["1"]).sites[0].zero.keeps
        True
    """
    del in_place
    made = make_plan(model, at=at, keep=keep, seed=seed, masks=masks)
    if example is None or made.problems:
        return made
    from .plan_example import with_example

    return with_example(made, model, example)


def make_plan(model: nn.Module, *, at: At, keep: float, seed: int, masks: str | MaskSource) -> Plan:
    """Return the plan without an example: what the code of the model tells."""
    check_model(model)
    choice = choose_sites(model, at, keep)
    problems = list(choice.problems)
    source: MaskSource | None = None
    try:
        source = source_named(masks, seed)
    except MaskError as error:
        problems.append(str(error))
    sites = choice.sites
    recipe = Recipe(source.kind, source.seed, sites, source.options()) if source else Recipe("counter", 0, sites)
    flows = zero_flows(model, [site.path for site in sites])
    site_plans = tuple(
        SitePlan(
            path=site.path,
            module=type(model.get_submodule(site.path)).__name__,
            place=site.place,
            dim=site.dim,
            width=width_of(model.get_submodule(site.path)),
            batch_dim=site.batch_dim,
            keep=site.keep,
            zero=flows[site.path],
        )
        for site in sites
    )
    notes = list(source.notes(keep)) if source and not problems else []
    if choice.never_called:
        notes.append(f"left alone, because never called as modules: {', '.join(choice.never_called)}")
    outputs = [site.path for site in site_plans if site.zero.reason == OUTPUTS]
    if outputs:
        notes.append(
            f"{', '.join(outputs)}: masks the outputs of the model themselves. Mask the input of its last layer."
        )
    recurrent = [site.path for site in sites if isinstance(model.get_submodule(site.path), nn.RNNBase)]
    if recurrent:
        notes.append(
            f"{', '.join(recurrent)}: the sequence of outputs is masked, the last hidden state is not. A head that "
            "reads h_n goes around the mask; read output[:, -1] instead."
        )
    return Plan(
        recipe=recipe,
        sites=site_plans,
        leaks=tuple(expected_leaks(model, site_plans)),
        problems=tuple(problems),
        warnings=tuple(_warnings(site_plans)),
        notes=tuple(notes),
        path=_expected_path(model, site_plans),
        parameters=sum(p.numel() for p in model.parameters()),
        trainable=sum(p.numel() for p in model.parameters() if p.requires_grad),
    )


def check_model(model: Any) -> None:
    """Raise for anything that cannot be wrapped at all."""
    if not isinstance(model, nn.Module):
        raise PlanError([f"a {type(model).__name__} is no torch.nn.Module. Give the model itself."])
    if find_root(model) is not None:
        raise AlreadyWrappedError(
            "this model already has masks. Start from turnover.unwrap(model), or from the plain model, to wrap it anew."
        )
    outer = {
        torch.jit.ScriptModule: "a scripted module cannot take hooks. Wrap the Python model before torch.jit.script",
        nn.parallel.DistributedDataParallel: "wrap the model first, then DistributedDataParallel(model)",
        nn.DataParallel: "nn.DataParallel runs replicas in threads that see no ids. Use DistributedDataParallel",
    }
    for kind, cure in outer.items():
        if isinstance(model, kind):
            raise PlanError([f"the model is a {type(model).__name__}: {cure}."])
    if hasattr(model, "_orig_mod"):
        raise PlanError(["the model is compiled. Wrap it first, then torch.compile(model)."])


def _expected_path(model: nn.Module, sites: Sequence[SitePlan]) -> str:
    """Return how scores will be computed, as far as the code of the model tells; the engine settles it."""
    if len(sites) == 1 and sites[0].dim == "features" and feeds_output_linear(model, sites[0].path):
        return "last layer, one matrix product"
    return "grown at the first site"


def _warnings(sites: Sequence[SitePlan]) -> list[str]:
    found: list[str] = []
    for site in sites:
        if site.zero.keeps is False:
            instead = f" Use {site.zero.instead!r} instead." if site.zero.instead else ""
            found.append(
                f"site {site.path!r}: {site.zero.reason}, so zero does not stay zero up to the next weights and they "
                f"learn every instance.{instead}"
            )
    return found
