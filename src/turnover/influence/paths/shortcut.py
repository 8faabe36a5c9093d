"""The first-site shortcut: where the first site feeds a Linear or a convolution, the flipped product is free.

The kept and the flipped part of an activation add up to the whole, so the product of the flipped part with the
weights is the product of the whole (one row) minus that of the kept part. Only kept rows go through the product; the
flipped rows are added behind it. Equal up to rounding, and half of the work of what is often the most expensive
layer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from turnover.batches import Batch
from turnover.influence.members import Member
from turnover.layers import active_instances, scales
from turnover.masks import rounded_keep

from .chunk import Chunk
from .watch import Seen, watch_sites

_PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_LINEAR_FORWARDS = {kind.forward for kind in _PRODUCTS}
_HIGHEST_KEEP = 0.95
"""Beyond it the flipped product is a small difference of large numbers, and float32 is too coarse."""


@dataclass(frozen=True)
class Shortcut:
    """The first site and the module whose product it shares."""

    site: int
    keep: float
    module: nn.Module


def find_shortcut(member: Member, query: Batch) -> Shortcut | None:
    """Return the shortcut of a model: its first site's output is directly the input of a product."""
    seen: Seen = watch_sites(member, query, consumers=_PRODUCTS)
    if not seen.order:
        return None
    first = seen.order[0]
    module = seen.consumer.get(first)
    # A class derived from these may do something else in forward, and not be linear at all.
    if module is None or seen.order.count(first) > 1 or type(module).forward not in _LINEAR_FORWARDS:
        return None
    keep = member.masking.recipe.sites[first].keep
    return Shortcut(first, keep, module) if keep <= _HIGHEST_KEEP else None


@contextmanager
def shortcut_in(now: Chunk, shortcut: Shortcut | None) -> Iterator[None]:
    """Let the first site hand on kept rows only, and add the flipped rows behind the product."""
    if shortcut is None:
        yield
        return
    now.half_site = shortcut.site
    rate, (_, flip_scale) = rounded_keep(shortcut.keep), scales(shortcut.keep)

    def add_flipped(module: nn.Module, args: tuple[Any, ...], kept: Tensor) -> Tensor | None:
        # Another thread may ask the same model: its rows are not ours.
        if active_instances() is not now or now.unmasked is None:
            return None
        whole, now.unmasked = now.unmasked, None
        # (total - rate * (kept - bias)) * flip_scale + bias, gathered so that only one operation runs over all rows.
        total, bias = module.forward(whole), _bias(module, kept)
        constant = (
            total * flip_scale if bias is None else total * flip_scale + bias * (1 + rate * flip_scale - flip_scale)
        )
        both = kept.new_empty((2 * kept.shape[0], *kept.shape[1:]))
        both[: now.count] = kept
        torch.sub(constant, kept, alpha=rate * flip_scale, out=both[now.count :])
        return both

    # First of all hooks: what others do to the product, a mask on it for example, they do to all rows.
    handle = shortcut.module.register_forward_hook(add_flipped, prepend=True)
    try:
        yield
    finally:
        handle.remove()
        now.half_site = None


def _bias(module: nn.Module, output: Tensor) -> Tensor | None:
    """Return the bias in a shape that broadcasts against the output."""
    bias = getattr(module, "bias", None)
    if not isinstance(bias, Tensor):
        return None
    bias = bias.to(output.dtype)
    return bias if isinstance(module, nn.Linear) else bias.view(-1, *[1] * (output.dim() - 2))
