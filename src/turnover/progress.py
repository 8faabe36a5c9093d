"""Bars of progress: text on a terminal, a widget in a notebook."""

import sys
from typing import Any

from tqdm.auto import tqdm

_IN_NOTEBOOK = any(kind.__name__ == "tqdm_notebook" for kind in tqdm.__mro__)


def is_shown(progress: bool | None) -> bool:
    """Tell whether to show a bar; None: on a terminal or in a notebook."""
    return (sys.stderr.isatty() or _IN_NOTEBOOK) if progress is None else progress


def progress_bar(total: int | None, progress: bool | None, unit: str) -> "tqdm[Any]":
    """Return a bar that counts units, with the speed and the time left; `progress` None: where somebody looks."""
    return tqdm(total=total, unit=f" {unit}", unit_scale=True, disable=not is_shown(progress), smoothing=0.1)
