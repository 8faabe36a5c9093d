"""Sites for the modes "backward" and "mixout": every module that learns, the last one by its input."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import nn

from turnover.layers import SiteRecipe

from .adapters_checks import quantised_in, some
from .flow import flow_of
from .leaks import EMBEDDINGS, NORMS, Leak
from .replicate import learns, units_of
from .sites import At, Choice, choose_sites

MODES = ("forward", "backward", "mixout")
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
    learning = [path for path in units_of(model) if learns(modules[path])]
    choice = choose_sites(model, learning if at is None else at, keep)
    last = _last_layer(model, learning)
    problems = [*_against(model, mode), *choice.problems]
    sites: list[SiteRecipe] = []
    for site in choice.sites:
        module = modules[site.path]
        if not isinstance(module, _MASKED):
            problems.append(
                f"site {site.path!r} is a {type(module).__name__}: mode={mode!r} masks linear layers, convolutions, "
                "normalisation and embeddings. Leave it out and freeze it, or name the layers inside."
            )
        elif site.path == last:
            sites.append(replace(site, place="input", dim="features", told=True))
        else:
            sites.append(site)
    return Choice(tuple(sites), tuple(problems), ())


def _against(model: nn.Module, mode: str) -> Iterator[str]:
    """Yield what of a model no mask of these modes can keep apart."""
    if quantised_in(model):
        yield (
            f"{some(quantised_in(model))}: quantised already, so they cannot learn. Load the weights in float32 or "
            "bfloat16, wrap the model, and quantise nothing."
        )
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
    """Yield the parameters that learn and that no mask covers."""
    place = {site.path: site.place for site in sites}
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            covered = place.get(path) == "output" or (place.get(path) == "input" and name != "bias")
            if parameter.requires_grad and not covered:
                cause = "bias without a mask" if path in place else "no mask near"
                yield Leak(f"{path}.{name}" if path else name, cause)


def _last_layer(model: nn.Module, learning: Sequence[str]) -> str | None:
    """Return the linear layer that makes the outputs: the last to run, else the last that is registered."""
    flow = flow_of(model, list(learning))
    order = [path for path in (learning if flow is None else flow.order()) if path in learning]
    linear = [path for path in order if isinstance(model.get_submodule(path), nn.Linear)]
    return linear[-1] if linear else None
