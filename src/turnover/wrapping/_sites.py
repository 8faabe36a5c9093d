"""Choosing sites: from `at` (paths, globs, a mapping, or None) to a list of modules and how each is masked.

In the modes "backward" and "mixout" that is every module that learns, the last one by its input.
"""

import difflib
import fnmatch
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from turnover.layers import DIMS, Dim, Place, SiteRecipe, TurnOverDropout

from ._code import (
    CHANNELS,
    EMBEDDINGS,
    FEATURES,
    NORMS,
    Flow,
    is_called,
    is_transposed_linear,
    is_vector_norm,
    is_within,
    join,
    listed,
    quantized_in,
)

At = str | Sequence[str] | Mapping[str, Dim] | None
MODES = ("forward", "backward", "mixout")

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_NEVER_CALLED = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
_ONCE_A_BATCH = ("relative_attention_bias",)  # of MPNet and T5: [positions, positions, heads], no row for an instance
_MASKED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *NORMS, *EMBEDDINGS)


@dataclass(frozen=True)
class Choice:
    """The sites that `at` asks for, what is wrong with it, and dropouts that were left alone."""

    sites: tuple[SiteRecipe, ...]
    problems: tuple[str, ...]
    never_called: tuple[str, ...]


def choose_sites(model: nn.Module, at: At, keep: float) -> Choice:
    """Return the sites for `at`; all problems are collected, none is raised."""
    problems: list[str] = []
    never_called: list[str] = []
    modules = dict(model.named_modules())
    chosen = {} if at is None else _matching(model, at, problems)
    for path, module in modules.items():
        if isinstance(module, TurnOverDropout):
            chosen.setdefault(path, None)
        elif at is None and isinstance(module, _DROPOUTS):
            if is_called(model, path):
                chosen[path] = None
            else:
                never_called.append(path)
    if not chosen and not problems:
        skipped = f" ({listed(never_called)} are read as numbers and never called)" if never_called else ""
        problems.append(
            f"the model has no nn.Dropout that is called as a module{skipped} and no TurnOverDropout. "
            f"Name the modules to mask: at=[...], for example {listed(_maskable(model))}."
        )
    # In the order of the model, so that the same sites asked for in another order are the same recipe.
    sites = [_site(model, path, chosen[path], keep) for path in modules if path in chosen]
    return Choice(tuple(sites), tuple(problems), tuple(never_called))


def _matching(model: nn.Module, at: Any, problems: list[str]) -> dict[str, Dim | None]:
    """Return the modules that the patterns name, and what units they are told to have."""
    given = list(at) if isinstance(at, Iterable) and not isinstance(at, str) else [at]
    if not given:
        problems.append(
            "`at` is empty. Name the modules to mask, or leave `at` out to replace every nn.Dropout. "
            f"Modules that could be masked: {listed(_maskable(model))}."
        )
    everywhere = dict(model.named_modules(remove_duplicate=False))
    del everywhere[""]
    chosen: dict[str, Dim | None] = {}
    for pattern in given:
        dim = at[pattern] if isinstance(at, Mapping) else None
        if not isinstance(pattern, str):
            problems.append(
                f"`at` must hold module paths, got {pattern!r}. Give strings: at=['fc1', 'encoder.*.linear1']."
            )
            continue
        if dim is not None and dim not in DIMS:
            problems.append(
                f"at={{{pattern!r}: {dim!r}}}: give 'features' (last dimension) or 'channels' (dimension 1)."
            )
        matching = [path for path in everywhere if _fits(path.split("."), pattern.split("."))]
        if not matching:
            problems.append(_no_match(model, pattern, list(everywhere)))
        for path in matching:
            if isinstance(everywhere[path], _NEVER_CALLED):
                inside = [inner for inner in _maskable(model) if inner.startswith(f"{path}.")]
                problems.append(
                    f"{path!r} is a {type(everywhere[path]).__name__}, which is never called itself. "
                    f"Name modules inside it: {listed(inside)}."
                )
            else:
                first = next(name for name, module in model.named_modules() if module is everywhere[path])
                chosen[first] = dim
    return chosen


def _fits(parts: list[str], globs: list[str]) -> bool:
    """Tell whether a dotted path fits a glob: * within one part, ** across parts."""
    if not globs:
        return not parts
    if globs[0] == "**":
        return any(_fits(parts[skip:], globs[1:]) for skip in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], globs[0]) and _fits(parts[1:], globs[1:])


def _no_match(model: nn.Module, pattern: str, paths: list[str]) -> str:
    near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.6)
    near += [path for path in paths if path.rpartition(".")[2] == pattern.rpartition(".")[2]][:3]
    hint = f"Near misses: {listed(list(dict.fromkeys(near)))}." if near else f"Modules: {listed(_maskable(model))}."
    return f"at={pattern!r} matches no module. {hint} (* stays within one part of a path, ** crosses parts.)"


def _maskable(model: nn.Module) -> list[str]:
    leaves = [(path, module) for path, module in model.named_modules() if path and not module._modules]
    return [path for path, module in leaves if not isinstance(module, nn.Flatten | nn.Identity)]


def _site(model: nn.Module, path: str, dim: Dim | None, keep: float) -> SiteRecipe:
    module = model.get_submodule(path)
    place: Place = "output"
    if isinstance(module, _DROPOUTS):
        place = "replaced"
    elif isinstance(module, TurnOverDropout):
        place, dim = "layer", module.dim
        keep = keep if module.keep is None else module.keep
    told = dim is not None or isinstance(module, CHANNELS + FEATURES)
    if dim is None:
        dim = "channels" if isinstance(module, CHANNELS) else "features"
    # Of the nearest enclosing module that has one; torch's transformer layers keep it in their attention.
    batch_first: bool | None = None
    parts = path.split(".") if path else []
    for end in range(len(parts) + 1):
        outer = model.get_submodule(".".join(parts[:end]))
        for owner in (getattr(outer, "self_attn", None), outer):
            value = getattr(owner, "batch_first", None)
            batch_first = value if isinstance(value, bool) else batch_first
    batch_dim = 1 if batch_first is False and dim == "features" else 0
    return SiteRecipe(path, place, dim, float(keep), batch_dim, batch_told=batch_first is not None, told=told)


def mode_problems(mode: str, replicas: int, adapters: object) -> list[str]:
    """Return why a mode cannot go with the other options."""
    if mode not in MODES:
        return [f"mode={mode!r} is unknown. Give 'forward', 'backward' or 'mixout'."]
    if mode == "forward":
        return []
    problems = []
    if replicas != 1:
        problems.append(f"mode={mode!r} cannot have replicas. Train separate models: Influence([m1, m2, m3]).")
    if adapters is not None:
        problems.append(f"mode={mode!r} masks the network itself and needs no adapters. Give one of the two.")
    return problems


def choose_for_mode(model: nn.Module, at: At, keep: float, mode: str) -> Choice:
    """Return the sites: what `at` names, or every module that learns; the last layer is masked at its input."""
    modules = dict(model.named_modules())
    learning = [path for path, module in modules.items() if _learning(module)]
    masked = [path for path in learning if _can_be_masked(model, path)]
    problems = list(_against(model, mode))
    if at is None:
        problems += _to_freeze(model, [path for path in learning if path not in masked], masked, mode)
    choice = choose_sites(model, masked if at is None else at, keep)
    # Where all that learns has to be frozen, that is what is wrong, and not an empty `at`.
    problems += choice.problems if masked or at is not None or not problems else []
    # The linear layer that makes the outputs: the last to run, else the last that is registered.
    order = [path for path in Flow(model, masked).order if path in masked]
    last = next((path for path in reversed(order) if isinstance(modules[path], nn.Linear)), None)
    sites: list[SiteRecipe] = []
    for site in choice.sites:
        module = modules[site.path]
        if site.path in learning and site.path not in masked:
            problems += _to_freeze(model, [site.path], masked, mode)
        elif not _can_be_masked(model, site.path):
            problems.append(
                f"site {site.path!r} is a {type(module).__name__}: mode={mode!r} masks linear layers, convolutions, "
                "normalization and embeddings. Leave it out, or name the layers inside."
            )
        elif site.path == last:
            sites.append(replace(site, place="input", dim="features", told=True))
        else:
            sites.append(replace(site, told=True))
    return Choice(tuple(sites), tuple(problems), ())


def _learning(module: nn.Module) -> list[str]:
    return [name for name, parameter in module.named_parameters(recurse=False) if parameter.requires_grad]


def _can_be_masked(model: nn.Module, path: str) -> bool:
    module = model.get_submodule(path)
    known = isinstance(module, _MASKED) or is_transposed_linear(module) or is_vector_norm(module)
    return known and is_called(model, path) and path.rpartition(".")[2] not in _ONCE_A_BATCH


def _to_freeze(model: nn.Module, paths: Sequence[str], masked: Sequence[str], mode: str) -> list[str]:
    """Return what to type for the modules that learn and can have no mask: as one problem, for one line of code."""
    whole = [path for path in paths if path and not any(is_within(other, [path]) for other in masked)]
    whole = [path for path in whole if not is_within(path, [outer for outer in whole if outer != path])]
    inside = [path for path in paths if not is_within(path, whole)]
    own = [join(path, name) for path in inside for name in _learning(model.get_submodule(path))]
    kinds = dict.fromkeys(type(model.get_submodule(path)).__name__ for path in (*whole, *inside))
    lines = []
    if whole:
        lines.append(f"for path in {whole!r}: model.get_submodule(path).requires_grad_(False)")
    if own:
        lines.append(f"for name in {own!r}: model.get_parameter(name).requires_grad_(False)")
    if not lines:
        return []
    return [
        f"{listed([*whole, *own])} ({', '.join(kinds)}): mode={mode!r} masks linear layers, convolutions, "
        "normalization and embeddings that are called as modules and make something of every row; nothing keeps an "
        "instance out of other weights. Freeze them before turnover.wrap:\n      " + "\n      ".join(lines)
    ]


def _against(model: nn.Module, mode: str) -> Iterator[str]:
    """Yield what of a model no mask of these modes can keep apart."""
    if quantized_in(model):
        yield (
            f"{listed(quantized_in(model))}: quantized already, so they cannot learn. Load the weights in float32 or "
            "bfloat16, wrap the model, and quantize nothing."
        )
    unmade = [name for name, parameter in model.named_parameters() if parameter.is_meta]
    if mode == "mixout" and unmade:
        yield f"{listed(unmade)}: on the device 'meta', without start values. Load the weights first, then wrap."
    first: dict[nn.Parameter, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owner = first.setdefault(parameter, name)
        if owner != name and parameter.requires_grad:
            yield (
                f"{name!r} is tied to {owner!r}: mode={mode!r} masks each module that learns on its own, so what one "
                "of them drops the other trains. Untie them (Hugging Face: config.tie_word_embeddings = False), or "
                "freeze the weight: requires_grad_(False)."
            )
