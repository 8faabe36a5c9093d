"""Images side by side on a terminal, with words below each."""

from collections.abc import Iterable

import numpy as np
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.text import Text

from .pictures import picture


def gallery(title: str, entries: Iterable[tuple[np.ndarray, list[Text]]], console: Console) -> RenderableType:
    """Return images side by side, as many as fit, with the lines below each.

    Args:
        title: above all of them.
        entries: an image and the lines below it, each.
        console: that they are for.
    """
    shown = [Group(picture(image, console), *lines) for image, lines in entries]
    return Group(Text(title, style="bold"), Columns(shown, padding=(1, 3), expand=False))
