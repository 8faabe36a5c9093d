"""The plan: a dry run of `wrap` that says which sites there would be, what would leak and what is wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from turnover.errors import MaskError, ModelError, PlanError, TooLargeError
from turnover.layers import Mode, Recipe, find_root, is_sharded
from turnover.masks import MaskSource, check_keep, source_named
from turnover.storage import check_memory
from turnover.wrapping._flow import ZeroFlow, feeds_output_linear, zero_flows
from turnover.wrapping._leaks import expected_leaks, tied_weights
from turnover.wrapping._modes import MODES, choose_for_mode, mode_leaks, mode_problems
from turnover.wrapping._modules import UNINITIALIZED, compiled_in, lazy_in, listed, quantized_in
from turnover.wrapping._replicas import plan_replicas
from turnover.wrapping._sites import At, Choice, choose_sites
from turnover.wrapping.adapters import Adapters, adapter_leaks, plan_adapters, site_width

from ._example import narrow_sites, with_example
from .result import BROADCAST, Plan, SitePlan, expected_signal

_DEFAULT_KEEP = 0.5
_NARROW = 64  # units


def plan(
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
    example: Any = None,
    n: int | None = None,
) -> Plan:
    """Return what `wrap` would do with the same arguments; the model is not touched.

    All arguments of `wrap` mean the same here; `in_place` is accepted so that the two can be exchanged. With an
    `example`, inputs of a few rows (a tensor, a tuple of arguments or a dict of keywords), widths, batch dimensions,
    sites that never run and leaks are measured on a copy of the model. With `n`, the number of training rows, the plan
    says how much of one pair's score to expect to be signal.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> turnover.plan(net, at=["1"]).sites[0].zero.keeps
        True
    """
    del in_place
    _check_model(model)
    with_adapters = plan_adapters(model, adapters, at)
    placed = with_adapters.model
    problems = [*mode_problems(mode, replicas, adapters), *with_adapters.problems]
    source: MaskSource | None = None
    try:
        check_keep(keep)
    except MaskError as error:
        problems.append(str(error))
        keep = _DEFAULT_KEEP  # stands in, so that the other problems can be found
    try:
        source = source_named(masks, seed)
    except MaskError as error:
        problems.append(str(error))
    if with_adapters.problems and at is None:  # dropouts, which None means elsewhere, are not meant here
        choice = Choice((), (), ())
    elif mode == "forward" or mode not in MODES:
        choice = choose_sites(placed, with_adapters.at, keep)
    else:
        choice = choose_for_mode(placed, at, keep, mode)
    problems += choice.problems
    compiled = compiled_in(model)
    if compiled:
        problems.append(f"{listed(compiled)}: compiled already. Wrap the model first, then torch.compile(model).")
    parts = plan_replicas(placed, choice.sites, replicas, split, with_adapters.recipe)
    problems += parts.problems
    if not parts.problems:
        problems += _too_large(placed, parts.replicated, replicas)
    sites = parts.sites
    recipe = Recipe("counter", 0, sites)
    if source is not None and not parts.problems:
        recipe = Recipe(
            source.kind, source.seed, sites, source.options(), replicas, parts.replicated, with_adapters.recipe, mode
        )
    flows = zero_flows(placed, [site.path for site in sites]) | dict(with_adapters.zero)
    if mode != "forward":  # a layer's own mask keeps an instance out of its rows, whatever follows
        flows = {site.path: ZeroFlow(True) for site in sites}
    site_plans = tuple(
        SitePlan(
            path=site.path,
            module=type(placed.get_submodule(site.path)).__name__,
            place=site.place,
            dim=site.dim,
            width=site_width(placed, site),
            batch_dim=site.batch_dim,
            keep=site.keep,
            zero=flows[site.path],
        )
        for site in sites
    )
    notes = [*with_adapters.notes, *parts.notes, *(source.notes(keep) if source and not problems else ())]
    notes += [] if problems or mode != "forward" else tied_weights(placed)
    if choice.never_called:
        notes.append(f"left alone, because never called as modules: {', '.join(choice.never_called)}")
    notes += _notes(placed, site_plans)
    if with_adapters.recipe is not None:
        leaks = adapter_leaks(placed, with_adapters.recipe)
    elif mode != "forward":
        leaks = mode_leaks(placed, sites)
    else:
        leaks = expected_leaks(placed, flows)
    planned = Plan(
        recipe=recipe,
        sites=site_plans,
        leaks=tuple(leaks),
        problems=tuple(problems),
        warnings=(*parts.warnings, *_warnings(site_plans), *_nothing_learns(placed)),
        notes=tuple(notes),
        path=_expected_path(placed, site_plans),
        parameters=sum(p.numel() for p in placed.parameters()),
        trainable=sum(p.numel() for p in placed.parameters() if p.requires_grad),
    )
    if example is not None and not problems:
        planned = with_example(planned, model, example)
    if mode == "forward" and adapters is None:  # what bottlenecks of adapters cost was not measured
        planned = replace(planned, notes=(*planned.notes, *_narrow(planned.sites)))
    if n is None or planned.problems:
        return planned
    expected = expected_signal(n, [site.width for site in planned.sites], replicas)
    if isinstance(expected, str):
        return replace(planned, notes=(*planned.notes, expected))
    return replace(planned, signal=expected)


def _notes(model: nn.Module, sites: Sequence[SitePlan]) -> Iterator[str]:
    """Yield what is worth knowing of sites that work but not as one may think."""
    outputs = [site.path for site in sites if site.zero.at_output]
    if outputs:
        yield f"{', '.join(outputs)}: masks the outputs of the model themselves. Mask the input of its last layer."
    recurrent = [site.path for site in sites if isinstance(model.get_submodule(site.path), nn.RNNBase)]
    if recurrent:
        yield (
            f"{', '.join(recurrent)}: the sequence of outputs is masked, the last hidden state is not. A head that "
            "reads h_n goes around the mask; read output[:, -1] instead."
        )


def _narrow(sites: Sequence[SitePlan]) -> list[str]:
    """Return which layers are so narrow that masks cost accuracy; docs/models.md has what was measured."""
    narrow = [
        f"{site.path!r} ({site.width} units)" for site in sites if site.width is not None and site.width < _NARROW
    ]
    if not narrow:
        return []
    return [
        f"{', '.join(narrow)}: masks on layers of fewer than {_NARROW} units cost accuracy. Mask a wider one, at best "
        "the input of the output layer."
    ]


def _check_model(model: Any) -> None:
    """Raise for anything that cannot be wrapped at all."""
    if not isinstance(model, nn.Module):
        raise PlanError([f"`model` must be a torch.nn.Module, got {type(model).__name__}. Give the model itself."])
    if find_root(model) is not None:
        raise ModelError(
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
    if lazy := lazy_in(model):
        raise PlanError([f"{listed(lazy)}: {UNINITIALIZED}"])
    if is_sharded(model):
        raise PlanError(["the model is sharded over processes. Wrap it first, then fully_shard(model)."])


def _too_large(model: nn.Module, replicated: Sequence[str], replicas: int) -> Iterator[str]:
    """Yield that the weights of further replicas do not fit into memory, where they do not."""
    own = sum(
        parameter.numel() * parameter.element_size()
        for path in replicated
        for parameter in model.get_submodule(path).parameters()
        if not parameter.is_meta
    )
    try:
        check_memory((replicas - 1) * own, f"{replicas:,} replicas take", cure="Give fewer: replicas=8.")
    except TooLargeError as error:
        yield str(error)


def _expected_path(model: nn.Module, sites: Sequence[SitePlan]) -> str:
    """Return how scores will be computed, as far as the code of the model tells; the engine settles it."""
    if len(sites) == 1 and sites[0].dim == "features" and feeds_output_linear(model, sites[0].path):
        return "last layer, one matrix product"
    return BROADCAST


def _nothing_learns(model: nn.Module) -> list[str]:
    packed = quantized_in(model)
    if not packed or any(parameter.requires_grad for parameter in model.parameters()):
        return []
    return [
        f"{listed(packed)}: quantized already, and no parameter of this model learns, so its masks cannot be trained. "
        "Load the weights in float32 or bfloat16 and wrap that model, or put LoRA onto this one and mask it: "
        "turnover.integrations.lora_sites(model)."
    ]


def _warnings(sites: Sequence[SitePlan]) -> list[str]:
    breaking = [
        f"site {site.path!r}: {site.zero.reason}, so zero does not stay zero up to the next weights and they "
        f"learn every instance.{f' Use {site.zero.instead!r} instead.' if site.zero.instead else ''}"
        for site in sites
        if site.zero.keeps is False
    ]
    return [*breaking, *narrow_sites(sites)]
