"""Seeing where activations go: in which order sites run, and which module takes a site's output as it is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from turnover.wrapping.rows import logits_of

from .members import Member
from .queries import Batch


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
    passed: dict[int, int] = {}
    made: dict[int, tuple[nn.Module, Tensor]] = {}  # with the tensor, so that its address is not used again
    paths = {site.path: index for index, site in enumerate(member.masking.recipe.sites)}
    hooks = []

    def after_site(index: int) -> Callable[..., None]:
        def note(module: nn.Module, args: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            if isinstance(value, Tensor):
                seen.order.append(index)
                seen.site_input[index] = value
                passed[id(value)] = index

        return note

    def before_consumer(module: nn.Module, args: tuple[Any, ...]) -> None:
        if args and id(args[0]) in passed:
            seen.consumer.setdefault(passed[id(args[0])], module)

    def after_consumer(module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            made[id(output)] = module, output

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
    seen.last = made.get(id(seen.output), (None, None))[0]
    return seen
