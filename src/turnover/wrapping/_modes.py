"""Sites for the modes "backward" and "mixout": every module that learns, the last one by its input."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import nn

from turnover.layers import SiteRecipe

from ._flow import flow_of
from ._leaks import Leak
from ._modules import (
    EMBEDDINGS,
    NORMS,
    gathers_statistics,
    is_called,
    is_transposed_linear,
    is_vector_norm,
    is_within,
    join,
    listed,
    quantized_in,
)
from ._sites import At, Choice, choose_sites

MODES = ("forward", "backward", "mixout")
_ONCE_A_BATCH = ("relative_attention_bias",)  # of MPNet and T5: [positions, positions, heads], no row for an instance
_MASKED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *NORMS, *EMBEDDINGS)


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
    last = _last_layer(model, masked)
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
    """Return the names of the parameters that learn and are the module's own, not of a module within."""
    return [name for name, parameter in module.named_parameters(recurse=False) if parameter.requires_grad]


def _can_be_masked(model: nn.Module, path: str) -> bool:
    """Tell whether each unit of a module's output has weights of its own, which a mask on it keeps an instance from."""
    module = model.get_submodule(path)
    known = isinstance(module, _MASKED) or is_transposed_linear(module) or is_vector_norm(module)
    return known and is_called(model, path) and path.rpartition(".")[2] not in _ONCE_A_BATCH


def _to_freeze(model: nn.Module, paths: Sequence[str], masked: Sequence[str], mode: str) -> list[str]:
    """Return what to type for the modules that learn and can have no mask: as one problem, for one line of code."""
    whole = [path for path in paths if path and not any(other.startswith(f"{path}.") for other in masked)]
    whole = [path for path in whole if not any(path.startswith(f"{outer}.") for outer in whole)]
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


def mode_leaks(model: nn.Module, sites: Sequence[SiteRecipe]) -> Iterator[Leak]:
    """Yield the parameters that learn and that no mask covers, and the statistics of BatchNorm."""
    place = {site.path: site.place for site in sites}
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            covered = place.get(path) == "output" or (place.get(path) == "input" and name != "bias")
            if parameter.requires_grad and not covered:
                cause = "bias without a mask" if path in place else "no mask near"
                yield Leak(join(path, name), cause)
        if gathers_statistics(module, model):
            yield from (Leak(join(path, name), "BatchNorm statistics") for name in ("running_mean", "running_var"))


def _last_layer(model: nn.Module, learning: Sequence[str]) -> str | None:
    """Return the linear layer that makes the outputs: the last to run, else the last that is registered."""
    flow = flow_of(model, list(learning))
    order = [path for path in (learning if flow is None else flow.order()) if path in learning]
    linear = [path for path in order if isinstance(model.get_submodule(path), nn.Linear)]
    return linear[-1] if linear else None
