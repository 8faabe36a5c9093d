"""Choosing sites: from `at` (paths, globs, a mapping, or None) to a list of modules and how each is masked."""

import difflib
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from turnover.layers import DIMS, Dim, Place, SiteRecipe, TurnOverDropout

from ._modules import CHANNELS, FEATURES, is_called, listed

At = str | Sequence[str] | Mapping[str, Dim] | None

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_NEVER_CALLED = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


@dataclass(frozen=True)
class Choice:
    """The sites that `at` asks for, what is wrong with it, and dropouts that were left alone."""

    sites: tuple[SiteRecipe, ...]
    problems: tuple[str, ...]
    never_called: tuple[str, ...]


def choose_sites(model: nn.Module, at: At, keep: float) -> Choice:
    """Return the sites for `at`; all problems are collected, none is raised."""
    problems: list[str] = []
    chosen: dict[str, Dim | None] = {}
    never_called: list[str] = []
    modules = dict(model.named_modules())
    if at is None:
        dropouts = [path for path, module in modules.items() if isinstance(module, _DROPOUTS)]
        never_called = [path for path in dropouts if not is_called(model, path)]
        chosen = {path: None for path in dropouts if path not in never_called}
    else:
        _match(model, at, chosen, problems)
    for path, module in modules.items():
        if isinstance(module, TurnOverDropout):
            chosen.setdefault(path, None)
    if not chosen and not problems:
        problems.append(_nothing_to_mask(model, never_called))
    # In the order of the model, so that the same sites asked for in another order are the same recipe.
    sites = tuple(_site(model, path, chosen[path], keep) for path in modules if path in chosen)
    return Choice(sites, tuple(problems), tuple(never_called))


def _match(model: nn.Module, at: At, chosen: dict[str, Dim | None], problems: list[str]) -> None:
    """Fill `chosen` with the modules that the patterns name."""
    patterns: list[tuple[str, Dim | None]]
    if isinstance(at, Mapping):
        patterns = list(at.items())
    else:
        given: list[Any] = list(at or ()) if isinstance(at, Iterable) and not isinstance(at, str) else [at]
        patterns = [(pattern, None) for pattern in given]
    if not patterns:
        problems.append(
            "`at` is empty. Name the modules to mask, or leave `at` out to replace every nn.Dropout. "
            f"Modules that could be masked: {listed(_maskable(model))}."
        )
    by_identity = {id(module): path for path, module in model.named_modules()}
    everywhere = {path: by_identity[id(module)] for path, module in model.named_modules(remove_duplicate=False) if path}
    for pattern, dim in patterns:
        if not isinstance(pattern, str):
            problems.append(
                f"`at` must hold module paths, got {pattern!r}. Give strings: at=['fc1', 'encoder.*.linear1']."
            )
            continue
        if dim is not None and dim not in DIMS:
            problems.append(
                f"at={{{pattern!r}: {dim!r}}}: give 'features' (last dimension) or 'channels' (dimension 1)."
            )
        matching = [path for path in everywhere if _matches(path, pattern)]
        if not matching:
            problems.append(_no_match(model, pattern, list(everywhere)))
        for path in matching:
            module = model.get_submodule(path)
            if isinstance(module, _NEVER_CALLED):
                inside = [p for p in _maskable(model) if p.startswith(path + ".")]
                problems.append(
                    f"{path!r} is a {type(module).__name__}, which is never called itself. "
                    f"Name modules inside it: {listed(inside)}."
                )
            else:
                chosen[everywhere[path]] = dim


def _matches(path: str, pattern: str) -> bool:
    """Tell whether a dotted path fits a glob: * within one part, ** across parts."""
    return _fits(path.split("."), pattern.split("."))


def _fits(parts: list[str], globs: list[str]) -> bool:
    if not globs:
        return not parts
    if globs[0] == "**":
        return any(_fits(parts[skip:], globs[1:]) for skip in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], globs[0]) and _fits(parts[1:], globs[1:])


def _no_match(model: nn.Module, pattern: str, paths: list[str]) -> str:
    near = difflib.get_close_matches(pattern, paths, n=3, cutoff=0.6)
    near += [path for path in paths if _matches(path, f"**.{pattern}")][:3]
    near += [path for path in paths if path.rsplit(".", 1)[-1] == pattern.rsplit(".", 1)[-1]][:3]
    hint = f"Near misses: {listed(list(dict.fromkeys(near)))}." if near else f"Modules: {listed(_maskable(model))}."
    return f"at={pattern!r} matches no module. {hint} (* stays within one part of a path, ** crosses parts.)"


def _nothing_to_mask(model: nn.Module, never_called: list[str]) -> str:
    skipped = f" ({listed(never_called)} are read as numbers and never called)" if never_called else ""
    return (
        f"the model has no nn.Dropout that is called as a module{skipped} and no TurnOverDropout. "
        f"Name the modules to mask: at=[...], for example {listed(_maskable(model))}."
    )


def _maskable(model: nn.Module) -> list[str]:
    """Return paths worth suggesting: leaves that make activations."""
    return [
        path
        for path, module in model.named_modules()
        if path and not any(True for _ in module.children()) and not isinstance(module, nn.Flatten | nn.Identity)
    ]


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
    batch_first = _batch_first(model, path)
    batch_dim = 1 if batch_first is False and dim == "features" else 0
    return SiteRecipe(path, place, dim, float(keep), batch_dim, batch_told=batch_first is not None, told=told)


def _batch_first(model: nn.Module, path: str) -> bool | None:
    """Return the batch_first of the nearest enclosing module that has one, the module itself included."""
    parts = path.split(".") if path else []
    for end in range(len(parts), -1, -1):
        module = model.get_submodule(".".join(parts[:end]))
        # torch's transformer layers keep it in their attention.
        for owner in (module, getattr(module, "self_attn", None)):
            value = getattr(owner, "batch_first", None)
            if isinstance(value, bool):
                return value
    return None
