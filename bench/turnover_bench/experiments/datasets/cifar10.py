"""CIFAR-10: small photographs of ten classes, the labels that people gave them (CIFAR-10N), and their C-scores."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .folder import data_file

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
        """Return the number of images."""
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
