"""P-values of scores by their standard errors."""

import numpy as np

from .arrays import Floats, closed
from .tails import normal_tail, student_tail

FEWEST_REPLICAS = 3
"""Replicas that a standard error needs: the spread of two numbers says next to nothing."""


def error_p_values(values: Floats, stderr: Floats, df: int | None) -> Floats:
    """Return two-sided p-values, by Student's distribution with `df` degrees of freedom; None: the normal one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.divide(values, stderr, dtype=np.float64)
    t[(values == 0) & (stderr == 0)] = 0  # all replicas agree that nothing happens
    return closed((normal_tail(t) if df is None else student_tail(t, df)).astype(np.float32))
