"""Slow twin of a masked forward pass: one instance and one unit at a time, plain modules, masks multiplied by hand."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from turnover.masks import Counter, MaskSource, Stream, unpack

Sites = Mapping[str, tuple[str, float]]
"""Path of a module to ("features" or "channels", keep)."""


def unit_bits(source: MaskSource, site: str, width: int, keep: float, id: int) -> list[bool]:
    (words,) = source.words(torch.tensor([id]), [Stream(site, width, keep)])
    return unpack(words, width)[0].tolist()


def unit_factors(source: MaskSource, site: str, width: int, keep: float, id: int, view: str) -> list[float]:
    rate = round(keep * 2**24) / 2**24
    factors: list[float] = []
    for bit in unit_bits(source, site, width, keep, id):
        if view == "keep":
            factors.append(bit / rate)
        elif view == "flip":
            factors.append((1 - bit) / (1 - rate))
        else:
            factors.append(1.0)
    return factors


def mask(x: Tensor, source: MaskSource, site: str, dim: str, keep: float, id: int, view: str) -> Tensor:
    axis = 1 if dim == "channels" else x.dim() - 1
    factors = unit_factors(source, site, x.shape[axis], keep, id, view)
    units = [
        x.select(axis, unit) * torch.tensor(factor, dtype=torch.float64).to(x.dtype)
        for unit, factor in enumerate(factors)
    ]
    return torch.stack(units, axis)


def forward(
    net: nn.Sequential,
    x: Tensor,
    *,
    ids: Sequence[int],
    views: Sequence[str] | str,
    sites: Sites,
    source: MaskSource | None = None,
) -> Tensor:
    """Return the output of a plain Sequential with masks on the outputs of the named modules, row by row."""
    source = source or Counter(seed=0)
    views = [views] * len(ids) if isinstance(views, str) else views
    outputs: list[Tensor] = []
    for row, (id, view) in enumerate(zip(ids, views, strict=True)):
        h = x[row : row + 1]
        for name, module in net.named_children():
            h = module(h)
            if name in sites:
                h = mask(h, source, name, *sites[name], id, view)
        outputs.append(h)
    return torch.cat(outputs)
