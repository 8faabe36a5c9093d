"""`plan` and `wrap`: the dry run, which says what there would be, what would leak and what is wrong, and doing it."""

import hashlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from turnover.batches import logits_of
from turnover.errors import (
    MaskError,
    ModelError,
    PlanError,
    SiteNotReachedError,
    TooLargeError,
    TurnOverError,
    TurnOverWarning,
)
from turnover.layers import Mode, Recipe, find_root, instances, is_sharded, masking_of, tensor_bytes
from turnover.masks import MaskSource, check_keep, source_named
from turnover.storage import check_memory
from turnover.tables import aligned, html_table

from ._code import UNINITIALIZED, Flow, ZeroFlow, compiled_in, lazy_in, listed, quantized_in
from ._replicas import plan_replicas, units_of
from ._sites import MODES, At, Choice, choose_for_mode, choose_sites, mode_problems
from .adapters import Adapters, input_of, plan_adapters, site_width
from .audit import CURES, Cause, Leak, expected_leaks, measure_leaks, tied_weights
from .build import Model, build, copy_of

_BROADCAST = "broadcast at the first site"
_REFERENCE_ROWS, _REFERENCE_WIDTH = 1437, 512
_REFERENCE_SIGNAL = 0.45  # of one pair in the digits network (two masked layers, one replica); docs/results/laws.md
_DEFAULT_KEEP = 0.5
_NARROW = 64  # units
_EXAMPLE_ROWS = 4
_MOST_NAMES = 6


@dataclass(frozen=True)
class SitePlan:
    """One site as it would be."""

    path: str  # of the module, the key of its masks
    module: str  # its type
    place: str  # "output" of the module, "replaced" dropout or "layer" placed by hand
    dim: str  # "features" or "channels"
    width: int | None  # units, where known
    batch_dim: int
    keep: float  # share of units that an instance trains
    zero: ZeroFlow  # whether zero stays zero up to the next weights
    runs: bool | None = None  # whether the example reached it; None without an example


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
    path: str = _BROADCAST
    parameters: int = 0
    trainable: int = 0
    signal: str = ""  # how much of one pair's score to expect to be signal, where the number of rows is known

    def raise_problems(self) -> None:
        """Raise one error with all problems, if there are any."""
        if self.problems:
            raise PlanError(list(self.problems))

    def __str__(self) -> str:
        header, rows = self._table
        lines = [self._head, "", *aligned(rows, header=header)]
        for title, entries in self._parts:
            lines += ["", title, *(f"  {entry}" for entry in entries)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        header, rows = self._table
        below = [line for title, entries in self._parts for line in (title, *entries)]
        return html_table(self._head, rows, header=header, below=below)

    @property
    def _head(self) -> str:
        recipe, count = self.recipe, len(self.sites)
        return (
            f"turnover plan: {count} site{'' if count == 1 else 's'}, {recipe.kind} masks, "
            f"seed {recipe.seed}; {self.trainable:,} of {self.parameters:,} parameters trainable"
        )

    @property
    def _table(self) -> tuple[list[str], list[list[str]]]:
        header = ["site", "module", "units", "width", "batch dim", "keep", "zero stays zero", "runs"]
        rows: list[list[str]] = []
        for site in self.sites:
            zero = {True: "yes", False: "NO: ", None: "not known: "}[site.zero.keeps]
            row = [site.path or "(the model)", site.module + ("" if site.place == "output" else f" ({site.place})")]
            row += [site.dim, "?" if site.width is None else f"{site.width:,}", str(site.batch_dim), f"{site.keep:g}"]
            row += [
                zero if site.zero.keeps else zero + site.zero.reason,
                {True: "yes", False: "NO", None: "?"}[site.runs],
            ]
            rows.append(row)
        if all(site.runs is None for site in self.sites):
            return header[:-1], [row[:-1] for row in rows]
        return header, rows

    @property
    def _parts(self) -> list[tuple[str, list[str]]]:
        """Return what is said below the sites: titles, each with its entries."""
        parts: list[tuple[str, list[str]]] = []
        if self.leaks:
            how = "measured on the example" if self.leaks_measured else "expected from the order of the modules"
            by_cause: dict[Cause, list[str]] = {}
            for leak in self.leaks:
                share = "" if leak.share is None else f" ({leak.share:.0%})"
                by_cause.setdefault(leak.cause, []).append(leak.name + share)
            lines: list[str] = []
            for cause, names in by_cause.items():
                more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
                lines.append(f"{cause}: {', '.join(names[:_MOST_NAMES])}{more}; {CURES[cause]}")
            parts.append((f"would leak ({how}; frozen parameters cannot):", lines))
        elif self.sites:
            by_order = "by the order of the modules; turnover.audit measures"
            parts.append((f"no leak found ({'measured on the example' if self.leaks_measured else by_order})", []))
        if self.sites:
            settled = "settled on the first query; Scores.path says which way was taken"
            parts.append((f"scores: {self.path} ({settled})", []))
        if self.signal:
            parts.append((f"expected: {self.signal}", []))
        for title, entries in (("problems", self.problems), ("warnings", self.warnings), ("notes", self.notes)):
            if entries:
                parts.append((f"{title}:", [f"- {entry}" for entry in entries]))
        return parts


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
    planned, flow = _planned(model, at, keep, seed, masks, replicas, split, adapters, mode)
    planned.raise_problems()
    for warning in planned.warnings:
        warnings.warn(warning, TurnOverWarning, stacklevel=2)
    recipe = planned.recipe
    if mode == "mixout":
        # A checksum of the weights that the model has now: trained ones never come onto other start weights unnoticed.
        digest = hashlib.sha256()
        for site in recipe.sites:
            for name, parameter in model.get_submodule(site.path).named_parameters():
                digest.update(f"{site.path}.{name} {parameter.dtype} {list(parameter.shape)} ".encode())
                digest.update(tensor_bytes(parameter))
        recipe = replace(recipe, start=digest.hexdigest())
    return build(model if in_place else copy_of(model), recipe, flow)


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
    planned, flow = _planned(model, at, keep, seed, masks, replicas, split, adapters, mode)
    if example is not None and not planned.problems:
        planned = _with_example(planned, model, flow, example)
    if mode == "forward" and adapters is None:  # what bottlenecks of adapters cost was not measured
        narrow = [site for site in planned.sites if site.width is not None and site.width < _NARROW]
        if narrow:  # docs/models.md has what was measured
            note = (
                f"{', '.join(f'{site.path!r} ({site.width} units)' for site in narrow)}: masks on layers of fewer than "
                f"{_NARROW} units cost accuracy. Mask a wider one, at best the input of the output layer."
            )
            planned = replace(planned, notes=(*planned.notes, note))
    if n is None or planned.problems:
        return planned
    widths = [site.width for site in planned.sites]
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        problem = f"`n` must be an integer >= 1, the number of training rows, got {n!r}. Give n=10_000."
    elif None in widths:
        problem = f"n={n:,}: the widths of the sites are not known yet; give an example: plan(..., example=x, n={n})."
    else:
        return replace(planned, signal=_signal(n, min(filter(None, widths)), replicas))
    return replace(planned, notes=(*planned.notes, problem))


def _signal(n: int, width: int, replicas: int) -> str:
    """Return how much of one pair's score to expect to be signal, against a task that was measured.

    Signal divided by noise is taken to grow with the root of width times replicas, as measured (exponents of .65 and
    .54; docs/results/medium/laws.md), and to fall with the number of rows, where it was measured to fall more slowly
    (exponent of -.6): of many rows it expects too little.
    """
    ratio = math.sqrt(width * replicas / _REFERENCE_WIDTH) * _REFERENCE_ROWS / n
    return (
        f"n={n:,}: signal / noise of one pair about {ratio * _REFERENCE_SIGNAL:.2g}, {ratio:.2g} times "
        f"that of digits ({_REFERENCE_ROWS:,} rows, sites of {_REFERENCE_WIDTH}, one replica: {_REFERENCE_SIGNAL}); a "
        f"rule of thumb, √(width × replicas) / n with width {width:,}, too low for many rows. Raise it by "
        "replicas=, wider sites or means over many queries; Scores.noise measures it"
    )


def _planned(
    model: nn.Module,
    at: At,
    keep: float,
    seed: int,
    masks: str | MaskSource,
    replicas: int,
    split: str | None,
    adapters: int | Adapters | None,
    mode: Mode,
) -> tuple[Plan, Flow]:
    """Return the plan by what the code of a model tells, and the flow that was traced for it."""
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
    if compiled := compiled_in(model):
        problems.append(f"{listed(compiled)}: compiled already. Wrap the model first, then torch.compile(model).")
    units = () if replicas == 1 or with_adapters.recipe is not None else tuple(units_of(placed))
    flow = Flow(placed, [site.path for site in choice.sites], units)
    parts = plan_replicas(flow, choice.sites, replicas, split, with_adapters.recipe)
    problems += parts.problems
    if not parts.problems:
        size = 0
        for path in parts.replicated:
            for parameter in placed.get_submodule(path).parameters():
                size += 0 if parameter.is_meta else parameter.numel() * parameter.element_size()
        try:
            check_memory((replicas - 1) * size, f"{replicas:,} replicas take", cure="Give fewer: replicas=8.")
        except TooLargeError as error:
            problems.append(str(error))
    recipe = Recipe("counter", 0, parts.sites)
    if source is not None and not parts.problems:
        options, replicated = source.options(), parts.replicated
        recipe = Recipe(
            source.kind, source.seed, parts.sites, options, replicas, replicated, with_adapters.recipe, mode
        )
    sites: list[SitePlan] = []
    zeros: dict[str, bool | None] = {}
    inputs = () if with_adapters.recipe is None else tuple(map(input_of, with_adapters.recipe.inputs))
    for site in parts.sites:
        # A layer's own mask keeps an instance out of its rows, whatever follows; right behind the input of an output
        # layer are its weights.
        kept = mode != "forward" or site.path in inputs
        zero = ZeroFlow(True) if kept else flow.zero(site.path)
        kind, width = type(placed.get_submodule(site.path)).__name__, site_width(placed, site)
        zeros[site.path] = zero.keeps
        sites.append(SitePlan(site.path, kind, site.place, site.dim, width, site.batch_dim, site.keep, zero))
    notes = [*with_adapters.notes, *parts.notes, *(source.notes(keep) if source and not problems else ())]
    notes += () if problems or mode != "forward" else tied_weights(placed)
    if choice.never_called:
        notes.append(f"left alone, because never called as modules: {', '.join(choice.never_called)}")
    parameters = trainable = 0
    for parameter in placed.parameters():
        parameters += parameter.numel()
        trainable += parameter.numel() if parameter.requires_grad else 0
    alone = len(sites) == 1 and sites[0].dim == "features" and flow.feeds_output_linear(sites[0].path)
    planned = Plan(
        recipe=recipe,
        sites=tuple(sites),
        leaks=tuple(expected_leaks(placed, parts.sites, zeros, with_adapters.recipe, mode)),
        problems=tuple(problems),
        warnings=(*parts.warnings, *_warnings(placed, sites)),
        notes=(*notes, *_notes(placed, sites)),
        path="last layer, one matrix product" if alone else _BROADCAST,
        parameters=parameters,
        trainable=trainable,
    )
    return planned, flow


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


def _warnings(model: nn.Module, sites: Sequence[SitePlan]) -> Iterator[str]:
    for site in sites:
        if site.zero.keeps is False:
            yield (
                f"site {site.path!r}: {site.zero.reason}, so zero does not stay zero up to the next weights and they "
                f"learn every instance.{f' Use {site.zero.instead!r} instead.' if site.zero.instead else ''}"
            )
        if site.width == 1:
            yield (
                f"site {site.path!r} has one unit, of which a mask keeps all or nothing: a share of "
                f"{1 - site.keep:.0%} of the instances trains nothing that passes through it. Mask a wider module."
            )
    packed = quantized_in(model)
    if packed and not any(parameter.requires_grad for parameter in model.parameters()):
        yield (
            f"{listed(packed)}: quantized already, and no parameter of this model learns, so its masks cannot be "
            "trained. Load the weights in float32 or bfloat16 and wrap that model, or put LoRA onto this one and mask "
            "it: turnover.integrations.lora_sites(model)."
        )


def _notes(model: nn.Module, sites: Sequence[SitePlan]) -> Iterator[str]:
    """Yield what is worth knowing of sites that work but not as one may think."""
    for site in sites:
        if site.zero.at_output:
            yield f"{site.path}: masks the outputs of the model themselves. Mask the input of its last layer."
        if isinstance(model.get_submodule(site.path), nn.RNNBase):
            yield (
                f"{site.path}: the sequence of outputs is masked, the last hidden state is not. A head that "
                "reads h_n goes around the mask; read output[:, -1] instead."
            )


# What a forward pass and gradients on an example show


def _with_example(made: Plan, model: nn.Module, flow: Flow, example: Any) -> Plan:
    """Return the plan with widths, batch dimensions, sites that run and leaks measured on a wrapped copy."""
    args: tuple[Any, ...] = tuple(example) if isinstance(example, tuple | list) else (example,)
    kwargs: dict[str, Any] = {}
    if isinstance(example, Mapping):
        args, kwargs = (), dict(example)
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value.dim() > 0]
    if not tensors or not len(tensors[0]):
        raise PlanError(
            ["the example has no rows. Give a few of what the model takes: example=x[:4], (x1, x2) or {name: x}."]
        )
    ids = torch.arange(len(tensors[0]))
    root = build(copy_of(model), made.recipe, flow).train()
    problems = list(made.problems)
    reached: set[str] = set()
    hooks = [
        root.get_submodule(site.path).register_forward_hook(lambda *_, path=site.path: reached.add(path))
        for site in made.sites
    ]
    try:
        with torch.no_grad(), instances(ids):
            root(*args, **kwargs)
    except SiteNotReachedError:
        missed = [site.path for site in made.sites if site.path not in reached]
        problems.append(
            f"never called on this example: {', '.join(map(repr, missed))}. Leave them out of `at`, "
            "or name the modules to mask."
        )
    except TurnOverError as error:
        problems.append(str(error))
    except Exception as error:
        raise PlanError(
            [f"the model fails on the example ({type(error).__name__}: {error}). Give what the model takes."]
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    learned = masking_of(root).learned
    sites = tuple(
        replace(
            site,
            width=learned.widths[index] or site.width,
            batch_dim=site.batch_dim if (dim := learned.batch_dims[index]) is None else dim,
            runs=site.path in reached,
        )
        for index, site in enumerate(made.sites)
    )
    said = dict.fromkeys((*made.warnings, *_warnings(root, sites)))  # widths are known now
    made = replace(made, sites=sites, problems=tuple(problems), warnings=tuple(said))
    if problems:
        return made
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = measure_leaks(
                root,
                ids=ids,
                forward=lambda: logits_of(root(*args, **kwargs)),
                row_loss=lambda outputs, row: outputs[row : row + 1].square().sum(),
                rows=_EXAMPLE_ROWS,
            )
    except TurnOverError:  # outputs that are not rows of numbers: the expected leaks stand
        return made
    return replace(made, leaks=report.leaks, leaks_measured=True)
