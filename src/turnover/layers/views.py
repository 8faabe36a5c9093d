"""The three views of a network, by name and by number."""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from turnover.errors import ViewError

View = Literal["keep", "flip", "full"]
VIEWS: tuple[View, ...] = ("keep", "flip", "full")
KEEP, FLIP, FULL = range(3)


def view_codes(view: Any, rows: int) -> int | Tensor:
    """Return one number for all rows, or int32 numbers [rows] where they differ."""
    if isinstance(view, str) and view in VIEWS:
        return VIEWS.index(view)
    if isinstance(view, str) or not isinstance(view, Iterable):
        raise ViewError(f"view={view!r} is no view. Give 'keep', 'flip' or 'full', or one of them for every row.")
    views = list(view)
    unknown = sorted({repr(v) for v in views if v not in VIEWS})
    if unknown or len(views) != rows:
        raise ViewError(
            f"view has {len(views)} entries for {rows} ids"
            + (f", among them {', '.join(unknown)}" if unknown else "")
            + ". Give 'keep', 'flip' or 'full', or a list with one of them for every id."
        )
    if len(set(views)) == 1:
        return VIEWS.index(views[0])
    return torch.tensor([VIEWS.index(v) for v in views], dtype=torch.int32)
