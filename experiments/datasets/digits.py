"""Handwritten digits of 8 × 8 pixels, which ship with scikit-learn."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Digits:
    """Digits and their labels.

    Attributes:
        pixels: float32 [digits, 64], within [0, 1].
        labels: [digits], 0 to 9.
    """

    pixels: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of digits."""
        return len(self.pixels)


def load_digits(*, seed: int = 0) -> Digits:
    """Return all 1,797 digits in an order drawn from a seed.

    Example:
        >>> load_digits().pixels.shape
        (1797, 64)
    """
    pixels, labels = _raw_digits()
    order = np.random.default_rng(seed).permutation(len(labels))
    return Digits(np.asarray(pixels / 16.0, np.float32)[order], np.asarray(labels, np.int64)[order])


@lru_cache(maxsize=1)  # every training of an experiment reads them
def _raw_digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits as load

    return load(return_X_y=True)
