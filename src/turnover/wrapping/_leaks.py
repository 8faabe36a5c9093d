"""Which parameters an instance reaches although its flipped network uses them, and why.

Two ways to know: `expected_leaks` reads the order of the modules (for a plan), `turnover.audit` measures gradients.
Both name the cause by the same rule (`cause_of`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from ._flow import ZeroFlow
from ._modules import EMBEDDINGS, NORMS, has_own_parameters, join

Cause = Literal[
    "normalization", "embedding", "before the first site", "bias without a mask", "zero is not kept", "no mask near",
    "BatchNorm statistics", "tied weights",
]  # fmt: skip

CURES: dict[Cause, str] = {
    "normalization": "freeze its weight and bias (requires_grad_(False)), or build it without them",
    "embedding": "freeze it: embedding.requires_grad_(False)",
    "before the first site": "freeze it, or put a site on an earlier module",
    "bias without a mask": "use bias=False, or freeze the bias",
    "zero is not kept": "mask after the function instead; turnover.plan names the module",
    "no mask near": "put a site before or after it, or freeze it",
    "tied weights": "untie them (Hugging Face: config.tie_word_embeddings = False), or freeze them",
    "BatchNorm statistics": "keep BatchNorm in eval mode while training, or use GroupNorm",
}

SITE = ":"
"""Begins a site's path in an order of events; modules with parameters stand by their path alone."""


@dataclass(frozen=True)
class Leak:
    """A parameter that carries an instance into its flipped network.

    Attributes:
        name: of the parameter (or buffer).
        cause: why.
        share: part of its elements that leak, averaged over instances; None where only expected.
        gradient_share: part of the instance's squared gradient that lies there; None where only expected.
    """

    name: str
    cause: Cause
    share: float | None = None
    gradient_share: float | None = None

    @property
    def cure(self) -> str:
        """Return what to change."""
        return CURES[self.cause]


def expected_leaks(model: nn.Module, zero_flows: Mapping[str, ZeroFlow]) -> Iterator[Leak]:
    """Yield the leaks that the order in which modules are registered lets expect; frozen parameters do not learn."""
    zero = {path: flow.keeps for path, flow in zero_flows.items()}
    events = _registered_events(model, set(zero))
    names = names_of_parameters(model)
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if len(names[parameter]) > 1:
                yield Leak(join(path, name), "tied weights")
                continue
            masked_input, masked_output = _neighbors(events, path)
            clean = masked_output or (masked_input and name != "bias")
            if isinstance(module, NORMS + EMBEDDINGS) or not clean:
                yield Leak(join(path, name), cause_of(module, name, path, events))
            elif masked_input and not masked_output and _fed_by_breaking_site(path, events, zero):
                yield Leak(join(path, name), "zero is not kept")


def names_of_parameters(model: nn.Module) -> dict[nn.Parameter, list[str]]:
    """Return the names of every parameter, one for each module that has it; a module that is used twice counts once."""
    names: dict[nn.Parameter, list[str]] = {}
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            names.setdefault(parameter, []).append(join(path, name))
    return names


def tied_weights(model: nn.Module) -> list[str]:
    """Return a note for every parameter that learns in several modules."""
    return [
        f"{names[0]!r} is tied to {', '.join(map(repr, names[1:]))}: each of these modules stands at masks of its own "
        f"or at none, and what one of them drops the other trains. If that matters, {CURES['tied weights']}."
        for parameter, names in names_of_parameters(model).items()
        if len(names) > 1 and parameter.requires_grad
    ]


def _registered_events(model: nn.Module, sites: set[str]) -> list[str]:
    """Return modules with parameters of their own and sites in the order in which the model registers them."""
    events: list[str] = []
    for path, module in model.named_modules():
        if has_own_parameters(module):
            events.append(path)
        if path in sites:
            events.append(SITE + path)
    return events


def _is_site(event: str) -> bool:
    return event.startswith(SITE)


def _neighbors(events: Sequence[str], path: str) -> tuple[bool, bool]:
    """Return whether a site comes right before and right after a module."""
    if path not in events:
        return False, False
    first = events.index(path)
    last = len(events) - 1 - list(reversed(events)).index(path)
    before = first > 0 and _is_site(events[first - 1])
    after = last + 1 < len(events) and _is_site(events[last + 1])
    return before, after


def cause_of(module: nn.Module, name: str, path: str, events: Sequence[str]) -> Cause:
    """Return why a parameter leaks, from its module and its place among the sites."""
    if isinstance(module, EMBEDDINGS):
        return "embedding"
    if isinstance(module, NORMS) or "norm" in type(module).__name__.lower():
        return "normalization"
    first_site = next((place for place, event in enumerate(events) if _is_site(event)), len(events))
    masked_input, masked_output = _neighbors(events, path)
    if path not in events or (events.index(path) < first_site and not masked_output):
        return "before the first site"
    if name.endswith("bias") and masked_input and not masked_output:
        return "bias without a mask"
    if masked_input or masked_output:
        return "zero is not kept"
    return "no mask near"


def _fed_by_breaking_site(path: str, events: Sequence[str], zero: dict[str, bool | None]) -> bool:
    event = events[events.index(path) - 1]
    return zero.get(event.removeprefix(SITE)) is False
