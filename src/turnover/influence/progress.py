"""A bar with the speed and the time left, on a terminal only."""

import sys

from tqdm import tqdm


class Progress:
    """Counts finished work; shows a bar where asked to, or on a terminal."""

    def __init__(self, total: int | None, wanted: bool | None, unit: str) -> None:
        """Start at zero; `wanted` None means: on a terminal."""
        show = sys.stderr.isatty() if wanted is None else wanted
        self._bar = tqdm(total=total, unit=f" {unit}", unit_scale=True, disable=not show, smoothing=0.1)

    def add(self, count: int) -> None:
        """Note finished work."""
        self._bar.update(count)

    def __enter__(self) -> "Progress":
        """Show the bar."""
        return self

    def __exit__(self, *_: object) -> None:
        """Finish the bar."""
        self._bar.close()
