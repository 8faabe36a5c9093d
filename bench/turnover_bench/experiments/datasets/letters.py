"""Letters of 12 × 12 pixels, rendered with the fonts that ship inside matplotlib: moved, turned and noisy."""

import string
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .cifar10 import Images

# By name, since later versions of matplotlib may bring others. Its symbol fonts have no letters.
FONTS = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
    *("cmr10", "cmb10", "cmmi10", "cmss10", "cmtt10"),
)
_SIDE, _FONT_SIZE = 24, 18
_MOST_TURNED, _MOST_MOVED, _MOST_SCALED, _NOISE = 0.25, 0.15, 0.15, 0.1


def load_letters(count: int, *, classes: int = 26, seed: int = 0) -> Images:
    """Return as many images of every letter as possible, float32 [count, 12, 12], in an order drawn from a seed.

    Half of them are capitals. Which letters there are where `classes` is below 26 depends on the seed, too.

    Example:
        >>> letters = load_letters(52)
        >>> letters.pixels.shape, np.bincount(letters.labels).tolist() == [2] * 26
        ((52, 12, 12), True)
    """
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(26)[:classes]
    labels = rng.permutation(np.arange(count) % classes)
    capital, font = rng.integers(2, size=count), rng.integers(len(FONTS), size=count)
    glyphs = _glyphs()[torch.from_numpy(font), torch.from_numpy(capital), torch.from_numpy(chosen[labels])]
    moved = functional.avg_pool2d(_moved(glyphs.unsqueeze(1), rng), 2)[:, 0].numpy()
    noisy = moved + _NOISE * rng.standard_normal(moved.shape)
    return Images(noisy.astype(np.float32), labels.astype(np.int64))


def _moved(images: Tensor, rng: np.random.Generator) -> Tensor:
    """Return images turned, scaled and shifted at random, by the shares of a side that are most."""
    count = len(images)
    angle = rng.uniform(-_MOST_TURNED, _MOST_TURNED, count)
    scale = np.exp(rng.uniform(-_MOST_SCALED, _MOST_SCALED, count))
    shift = rng.uniform(-_MOST_MOVED, _MOST_MOVED, (count, 2, 1))
    turned = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], 1).reshape(count, 2, 2)
    maps = torch.from_numpy(np.concatenate([turned * scale[:, None, None], shift], 2)).float()
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


@lru_cache(maxsize=1)
def _glyphs() -> Tensor:
    """Return every letter of every font, in its middle: float32 [fonts, small or capital, letters, 24, 24]."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    cases = (string.ascii_lowercase, string.ascii_uppercase)
    found = np.zeros((len(FONTS), 2, 26, _SIDE, _SIDE), np.float32)
    for number, name in enumerate(FONTS):
        font = ImageFont.truetype(str(folder / f"{name}.ttf"), _FONT_SIZE)
        for case, letters in enumerate(cases):
            for place, letter in enumerate(letters):
                image = Image.new("L", (_SIDE, _SIDE))
                ImageDraw.Draw(image).text((_SIDE / 2, _SIDE / 2), letter, fill=255, font=font, anchor="mm")
                found[number, case, place] = np.asarray(image) / 255
    return torch.from_numpy(found)
