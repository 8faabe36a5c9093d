"""The bar of what takes long: as asked for, else on a terminal only."""

import sys
from typing import Any

from tqdm import tqdm


def shown(progress: bool | None) -> bool:
    """Tell whether to show a bar; None: on a terminal."""
    return sys.stderr.isatty() if progress is None else progress


def progress_bar(progress: bool | None, *, unit: str, total: int | None = None) -> "tqdm[Any]":
    """Return a bar that counts units."""
    return tqdm(total=total, unit=f" {unit}", unit_scale=True, disable=not shown(progress))
