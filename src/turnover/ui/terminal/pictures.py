"""Images on a terminal: two pixels a character in color, or shaded blocks where there is none."""

import numpy as np
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

_SHADES = " ░▒▓█"
_UPPER_HALF = "▀"


def picture(image: np.ndarray, console: Console, *, widest: int = 24) -> Text:
    """Return an image as lines of characters.

    Args:
        image: uint8 [height, width, channels], of 1 or 3 channels.
        console: that it is for; where it has no colors, shades are drawn.
        widest: characters a line at most.

    Example:
        >>> dark_and_light = np.array([[[0], [255]]], np.uint8)
        >>> picture(dark_and_light, Console(color_system=None)).plain
        '  ██'
    """
    if console.color_system is None:
        return _shaded(_shrunk(image, widest // 2))
    pixels = _shrunk(image, widest)
    if 2 * pixels.shape[1] <= widest:
        pixels = pixels.repeat(2, axis=0).repeat(2, axis=1)
    # A character is about twice as high as wide and shows two pixels, one over the other.
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, pixels[-1:]])
    if pixels.shape[2] != 3:
        pixels = np.repeat(pixels[:, :, :1], 3, axis=2)
    drawn = Text(no_wrap=True)
    for row in range(0, len(pixels), 2):
        if row:
            drawn.append("\n")
        for upper, lower in zip(pixels[row].tolist(), pixels[row + 1].tolist(), strict=True):
            drawn.append(_UPPER_HALF, Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
    return drawn


def _shaded(pixels: np.ndarray) -> Text:
    steps = (pixels.mean(axis=2) / 256 * len(_SHADES)).astype(int)
    return Text("\n".join("".join(_SHADES[step] * 2 for step in line) for line in steps.tolist()), no_wrap=True)


def _shrunk(image: np.ndarray, widest: int) -> np.ndarray:
    """Return an image of at most so many pixels a line, each the mean of those it stands for."""
    height, width = image.shape[:2]
    if width <= widest:
        return image
    wide, high = widest, max(1, round(height * widest / width))
    rows = np.linspace(0, height, high + 1).astype(int)
    columns = np.linspace(0, width, wide + 1).astype(int)
    sums = np.add.reduceat(np.add.reduceat(image.astype(float), rows[:-1], axis=0), columns[:-1], axis=1)
    sizes = np.diff(rows)[:, None, None] * np.diff(columns)[None, :, None]
    return (sums / sizes).astype(np.uint8)
