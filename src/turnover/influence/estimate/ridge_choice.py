"""How strongly to shrink, query by query: three criteria in closed form.

With the kernel's eigenvalues s and the scores' coordinates z along its eigenvectors, ridge regression of strength λ
multiplies coordinate k by s / (s + λ). Residual, degrees of freedom and likelihood are sums over coordinates.
"""

import numpy as np

from .ridge import Choice

_STRENGTHS = 121
_WEAKEST, _STRONGEST = 1e-4, 10.0


def strengths(spectrum: np.ndarray, rows: int) -> np.ndarray:
    """Return the strengths to choose from: from a small part of the mean eigenvalue to more than all of them."""
    total = float(spectrum.sum())
    return np.geomspace(_WEAKEST * total / rows, _STRONGEST * total, _STRENGTHS)


def choose_strengths(
    how: Choice, spectrum: np.ndarray, squares: np.ndarray, total: np.ndarray, rows: int, noise: np.ndarray
) -> np.ndarray:
    """Return the strength [queries] that a criterion likes best.

    Args:
        how: the criterion.
        spectrum: eigenvalues [k].
        squares: squared coordinates [k, queries] of the scores.
        total: sums of squares [queries] of the scores.
        rows: how many scores a query has.
        noise: variance [queries] of a score without signal.
    """
    tried = strengths(spectrum, rows)
    left = tried[:, None] / (spectrum + tried[:, None])  # what is taken away [strengths, k]
    outside = np.maximum(total - squares.sum(0), 0.0)  # what no feature can express
    freedom = (1.0 - left).sum(1)[:, None]
    if how == "likelihood":
        tiny = np.finfo(np.float64).tiny
        costs = rows * np.log(np.maximum(left @ squares + outside, tiny)) - np.log(left).sum(1)[:, None]
    else:
        residual = np.square(left) @ squares + outside
        if how == "gcv":
            costs = residual / np.square(np.maximum(rows - freedom, 1e-6 * rows))
        else:
            costs = residual + 2.0 * noise * freedom
    return tried[costs.argmin(0)]
