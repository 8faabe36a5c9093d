"""What one pass through the full network shows of its sites: their order, and which module takes a site's output.

Where the first site feeds a Linear or a convolution, the flipped product is free: the kept and the flipped part of an
activation add up to the whole, so the product of the flipped part with the weights is the product of the whole (one
row) minus that of the kept part.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from turnover.batches import Batch
from turnover.influence.members import Member

PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_LINEAR_FORWARDS = {kind.forward for kind in PRODUCTS}
_HIGHEST_KEEP = 0.95
"""Beyond it the flipped product is a small difference of large numbers, and float32 is too coarse."""


@dataclass
class _SiteTrace:
    """What one forward pass of a query showed, by the numbers of the sites."""

    order: list[int] = field(default_factory=list)  # in which sites ran
    consumer: dict[int, nn.Module] = field(default_factory=dict)  # the module that takes a site's output as it is
    activations: dict[int, Tensor] = field(default_factory=dict)  # unmasked
    last: nn.Module | None = None  # the module that made the output; None: not known


def trace_sites(member: Member, query: Batch, *, consumers: tuple[type[nn.Module], ...]) -> _SiteTrace:
    """Return what a pass through the full network shows of its sites."""
    trace = _SiteTrace()
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
                trace.order.append(index)
                trace.activations[index] = value
                passed[id(value)] = index, value, _version(value)

        return note

    def before_consumer(module: nn.Module, args: tuple[Any, ...]) -> None:
        runs[module] += 1
        if args and id(args[0]) in passed:
            index, value, version = passed[id(args[0])]
            if version is not None and value._version == version:
                trace.consumer.setdefault(index, module)

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
        logits = query.logits(member.model)
    finally:
        for hook in hooks:
            hook.remove()
    # A module that runs again elsewhere does more than take the site's output.
    trace.consumer = {index: module for index, module in trace.consumer.items() if runs[module] == 1}
    module, output, version = made.get(id(logits), (None, None, None))
    if output is not None and version is not None and output._version == version:
        trace.last = module
    return trace


def _version(value: Tensor) -> int | None:
    """Return a number that changes when a tensor is written to; None where that is not counted."""
    return None if value.is_inference() else value._version


@dataclass(frozen=True)
class SharedProduct:
    """The first site and the module whose product its kept and flipped rows share."""

    site: int
    keep: float
    module: nn.Module

    def bias(self, output: Tensor) -> Tensor | None:
        """Return the bias in a shape that broadcasts against the output."""
        bias = getattr(self.module, "bias", None)
        if not isinstance(bias, Tensor):
            return None
        bias = bias.to(output.dtype)
        return bias if isinstance(self.module, nn.Linear) else bias.view(-1, *[1] * (output.dim() - 2))


def find_shared_product(member: Member, query: Batch) -> SharedProduct | None:
    """Return the product of a model whose first site's output is directly the input of a Linear or a convolution."""
    trace = trace_sites(member, query, consumers=PRODUCTS)
    first = trace.order[0] if trace.order else -1
    module = trace.consumer.get(first)
    # A class derived from these may do something else in forward, and not be linear at all.
    if module is None or trace.order.count(first) > 1 or type(module).forward not in _LINEAR_FORWARDS:
        return None
    keep = member.masking.recipe.sites[first].keep
    return SharedProduct(first, keep, module) if keep <= _HIGHEST_KEEP else None
