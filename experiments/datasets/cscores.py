"""C-scores of CIFAR-10: how consistently an image is recognized by networks that were not trained on it."""

import numpy as np
from numpy.typing import NDArray

from .folder import data_file

_SOURCE = (
    "C-scores (Jiang et al. 2021) are at https://github.com/pluskid/structural-regularity (CIFAR-10, original order). "
    "Wanted is an .npz with scores float [50,000] and labels [50,000] of the training images in their order."
)


def load_cscores(*, rows: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the C-scores of the first training images, within [0, 1], and the labels that the file gives them.

    The labels are there to check the order: they must be those of the images.
    """
    with np.load(data_file("cifar10/cifar10_cscores.npz", source=_SOURCE)) as file:
        return file["scores"][:rows].astype(np.float32), file["labels"][:rows].astype(np.int64)
