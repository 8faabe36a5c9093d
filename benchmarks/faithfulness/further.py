"""A step after scoring that was tried: shrinkage across queries."""

import numpy as np


def shrunk_across_queries(scores: np.ndarray, null: np.ndarray) -> np.ndarray:
    """Return the posterior mean of scores, rows being draws of one normal distribution over the queries.

    The covariance of the noise is that of never-trained ids; what the covariance of the scores has beyond it is signal.

    Args:
        scores: [rows, queries].
        null: scores of never-trained ids, [ids, queries].
    """
    both = scores.T @ scores / len(scores)
    values, vectors = np.linalg.eigh(both - null.T @ null / len(null))
    signal = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return scores @ np.linalg.solve(both + 1e-9 * np.trace(both) * np.eye(len(both)), signal)
