"""The three views of a network: by name, by number, and as the factors that units are multiplied by.

A factor is bit / keep in keep view, (1 - bit) / (1 - keep) in flip view, else 1. The paper writes the flipped mask as
1/p - m, which has the right scale at p = 0.5 only. Two ways to the same numbers: `factors_by_table` for eager code,
where one gather of eight units at a time is fastest, and `factors_by_shift` for compiled graphs, where plain arithmetic
fuses with what surrounds it.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from turnover.errors import InstancesError
from turnover.masks import WORD_BITS, rounded_keep

View = Literal["keep", "flip", "full"]
VIEWS: tuple[View, ...] = ("keep", "flip", "full")
KEEP, FLIP, FULL = range(3)

_BYTE = 8
_BYTE_VALUES = 1 << _BYTE


def view_codes(view: Any, rows: int) -> int | Tensor:
    """Return one number for all rows, or int32 numbers [rows] where they differ."""
    if isinstance(view, str) and view in VIEWS:
        return VIEWS.index(view)
    if isinstance(view, str) or not isinstance(view, Iterable):
        raise InstancesError(
            f"`view` must be 'keep', 'flip' or 'full', or a list with one of them per row, got {view!r}."
        )
    views = list(view)
    unknown = sorted({repr(v) for v in views if not isinstance(v, str) or v not in VIEWS})
    if unknown or len(views) != rows:
        raise InstancesError(
            f"view has {len(views)} entries for {rows} ids"
            + (f", among them {', '.join(unknown)}" if unknown else "")
            + ". Give 'keep', 'flip' or 'full', or a list with one of them for every id."
        )
    if len(set(views)) == 1:
        return VIEWS.index(views[0])
    return torch.tensor([VIEWS.index(v) for v in views], dtype=torch.int32)


def factors_by_table(words: Tensor, width: int, views: int | Tensor, keep: float, dtype: torch.dtype) -> Tensor:
    """Return factors [rows, width] by looking up every byte of the packed words [rows, words].

    `views` is a view code for all rows, or int32 codes [rows]; `keep` is the site's keep rate.
    """
    table, places = _table(keep, dtype, words.device)
    values = (words.unsqueeze(-1) >> places).bitwise_and_(_BYTE_VALUES - 1)
    if isinstance(views, Tensor):
        values.add_((views * _BYTE_VALUES)[:, None, None])
    elif views != KEEP:
        values.add_(views * _BYTE_VALUES)
    factors = functional.embedding(values, table)
    return factors.view(len(words), -1)[:, :width]


@lru_cache(maxsize=64)
def _table(keep: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the factors [3 * 256, 8] of every byte in every view, and where bytes of a word begin."""
    with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
        keep_scale, flip_scale = scales(keep)
        byte = torch.arange(_BYTE_VALUES).unsqueeze(1)
        bits = ((byte >> torch.arange(_BYTE)) & 1).double()
        views = [bits * keep_scale, (1 - bits) * flip_scale, torch.ones_like(bits)]
        table = torch.cat(views).to(dtype)  # not every device has float64
        places = torch.arange(0, WORD_BITS, _BYTE, dtype=torch.int32)
        return table.to(device), places.to(device)


def factors_by_shift(words: Tensor, width: int, views: Tensor, keep: float, dtype: torch.dtype) -> Tensor:
    """Return the same factors as `factors_by_table`, in operations that a compiler can fuse.

    A factor is slope * bit + offset with slope and offset of the row's view; in flip view both are the same number up
    to sign, so a kept unit is 0 exactly.
    """
    keep_scale, flip_scale = scales(keep)
    places = torch.arange(WORD_BITS, device=words.device, dtype=torch.int32)
    bits = ((words.unsqueeze(-1) >> places) & 1).flatten(-2)[:, :width].to(dtype)

    def number(value: float) -> Tensor:  # as a tensor: a plain number in torch.where is rounded to float32
        return torch.full((), value, dtype=dtype, device=words.device)

    zero, is_keep, is_flip = number(0.0), views == KEEP, views == FLIP
    slope = torch.where(is_keep, number(keep_scale), torch.where(is_flip, number(-flip_scale), zero))
    offset = torch.where(is_keep, zero, torch.where(is_flip, number(flip_scale), number(1.0)))
    return bits * slope.unsqueeze(1) + offset.unsqueeze(1)


def scales(keep: float) -> tuple[float, float]:
    """Return 1 / keep and 1 / (1 - keep) for the rate that the masks really have."""
    rate = rounded_keep(keep)
    return 1.0 / rate, 1.0 / (1.0 - rate)
