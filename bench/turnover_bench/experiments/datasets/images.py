"""Data sets of images: CIFAR-10 with labels by people and C-scores, digits, rendered letters; changed labels."""

import string
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from .files import data_file

CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()

_IMAGES = (
    "CIFAR-10 is at https://www.cs.toronto.edu/~kriz/cifar.html. Wanted is an .npz of its first 10,000 training and "
    "2,000 test images or more, in their order: x_train and x_test uint8 [n, 32, 32, 3], y_train and y_test."
)
_FEW = {"train": 10_000, "test": 2_000}
_PEOPLE = (
    "CIFAR-10N is at https://github.com/UCSC-REAL/cifar-10-100n (CIFAR-10_human.pt). Wanted is an .npz with aggre, "
    "random1 and clean, [50,000] each."
)
_CSCORES = (
    "C-scores (Jiang et al. 2021) are at https://github.com/pluskid/structural-regularity (CIFAR-10, original order). "
    "Wanted is an .npz with scores float [50,000] and labels [50,000] of the training images in their order."
)


@dataclass(frozen=True)
class Images:
    """Images and their labels.

    Attributes:
        pixels: uint8 [images, 32, 32, 3]; of digits, float32 [digits, 64].
        labels: [images], a place in CLASSES; of digits, 0 to 9.
    """

    pixels: NDArray[Any]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pixels)


def load_cifar10(split: Literal["train", "test"], *, rows: int | None = None) -> Images:
    """Return the first images of a split of CIFAR-10; None: all of the file of 12,000.

    More rows than that file has come from cifar10/cifar10.npz, which has the same arrays of the whole data set.
    """
    name = "cifar10_12k.npz" if rows is None or rows <= _FEW[split] else "cifar10.npz"
    with np.load(data_file(f"cifar10/{name}", source=_IMAGES)) as file:
        return Images(file[f"x_{split}"][:rows], file[f"y_{split}"][:rows].astype(np.int64))


def labels_by_people(kind: Literal["aggre", "random1", "clean"] = "aggre", *, rows: int) -> NDArray[np.int64]:
    """Return labels of the first training images as people gave them.

    Args:
        kind: "aggre": the majority of three people (9.0 % wrong); "random1": one of them (17.2 % wrong); "clean".
        rows: how many.
    """
    with np.load(data_file("cifar10/cifar10n_labels.npz", source=_PEOPLE)) as file:
        return file[kind][:rows].astype(np.int64)


def load_cscores(*, rows: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the C-scores of the first training images, within [0, 1], and the labels that the file gives them.

    The labels are there to check the order: they must be those of the images.
    """
    with np.load(data_file("cifar10/cifar10_cscores.npz", source=_CSCORES)) as file:
        return file["scores"][:rows].astype(np.float32), file["labels"][:rows].astype(np.int64)


def load_digits(*, seed: int = 0) -> Images:
    """Return all 1,797 digits, float32 [digits, 64] within [0, 1], in an order drawn from a seed.

    Example:
        >>> load_digits().pixels.shape
        (1797, 64)
    """
    pixels, labels = _raw_digits()
    order = np.random.default_rng(seed).permutation(len(labels))
    return Images(np.asarray(pixels / 16.0, np.float32)[order], np.asarray(labels, np.int64)[order])


@lru_cache(maxsize=1)  # every training of an experiment reads them
def _raw_digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits as load

    return load(return_X_y=True)


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


@dataclass(frozen=True)
class ChangedLabels:
    """Labels after some were changed.

    Attributes:
        given: [rows]; what a training sees.
        changed: bool [rows]; whose label is wrong now.
    """

    given: NDArray[np.int64]
    changed: NDArray[np.bool_]


def change_labels(labels: NDArray[np.int64], *, share: float, classes: int, seed: int = 0) -> ChangedLabels:
    """Return labels of which a share, rounded to whole rows, was changed, each to one of the other classes at random.

    Example:
        >>> some = change_labels(np.zeros(10, np.int64), share=0.2, classes=3)
        >>> int(some.changed.sum()), bool((some.given[some.changed] > 0).all())
        (2, True)
    """
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(labels), size=round(share * len(labels)), replace=False)
    given = labels.copy()
    # Shifted by 1 to classes − 1, so that no label stays as it was.
    given[rows] = (given[rows] + rng.integers(1, classes, size=len(rows))) % classes
    return ChangedLabels(given, given != labels)
