"""Seeing where activations go: in which order sites run, and which module takes a site's output as it is."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from turnover.batches import Batch, logits_of
from turnover.influence.members import Member


@dataclass
class Seen:
    """What one forward pass of a query showed."""

    order: list[int] = field(default_factory=list)
    consumer: dict[int, nn.Module] = field(default_factory=dict)
    site_input: dict[int, Tensor] = field(default_factory=dict)
    output: Any = None
    last: nn.Module | None = None


def watch_sites(member: Member, query: Batch, *, consumers: tuple[type[nn.Module], ...]) -> Seen:
    """Return what a pass through the full network shows of its sites."""
    seen = Seen()
    # With the tensor, so that its address is not used again, and its version, which writing in place changes.
    passed: dict[int, tuple[int, Tensor, int | None]] = {}
    made: dict[int, tuple[nn.Module, Tensor, int | None]] = {}
    runs: Counter[nn.Module] = Counter()
    paths = {site.path: index for index, site in enumerate(member.masking.recipe.sites)}
    hooks = []

    def after_site(index: int) -> Callable[..., None]:
        def note(module: nn.Module, args: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            if isinstance(value, Tensor):
                seen.order.append(index)
                seen.site_input[index] = value
                passed[id(value)] = index, value, _version(value)

        return note

    def before_consumer(module: nn.Module, args: tuple[Any, ...]) -> None:
        runs[module] += 1
        if args and id(args[0]) in passed:
            index, value, version = passed[id(args[0])]
            if _untouched(value, version):
                seen.consumer.setdefault(index, module)

    def after_consumer(module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            made[id(output)] = module, output, _version(output)

    for path, module in member.root.named_modules():
        if path in paths:
            hooks.append(module.register_forward_hook(after_site(paths[path])))
        if isinstance(module, consumers):
            hooks.append(module.register_forward_pre_hook(before_consumer))
            hooks.append(module.register_forward_hook(after_consumer))
    try:
        seen.output = logits_of(member.model(*query.args, **query.kwargs))
    finally:
        for hook in hooks:
            hook.remove()
    # A module that runs again elsewhere does more than take the site's output.
    seen.consumer = {index: module for index, module in seen.consumer.items() if runs[module] == 1}
    module, output, version = made.get(id(seen.output), (None, None, None))
    if output is not None and _untouched(output, version):
        seen.last = module
    return seen


def _version(value: Tensor) -> int | None:
    """Return a number that changes when a tensor is written to; None where that is not counted."""
    return None if value.is_inference() else value._version


def _untouched(value: Tensor, version: int | None) -> bool:
    return version is not None and value._version == version
