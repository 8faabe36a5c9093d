"""Handwritten digits of 8 × 8 pixels, which ship with scikit-learn."""

from functools import lru_cache

import numpy as np

from .cifar10 import Images


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
