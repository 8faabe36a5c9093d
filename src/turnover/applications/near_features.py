"""Near-duplicates by the cosine of features, all pairs, a block at a time."""

import numpy as np
import torch
from numpy.typing import NDArray

from .components import Components

_BLOCK = 2048


def join_near_features(rows: NDArray[np.float32], threshold: float, components: Components) -> None:
    """Join rows [n, d] whose cosine is at least the threshold; a row of zeros is like no other."""
    whole = torch.from_numpy(rows)
    norms = whole.norm(dim=1, keepdim=True)
    unit = whole / norms.clamp(min=1e-30)
    for start in range(0, len(unit), _BLOCK):
        some = unit[start : start + _BLOCK]
        for other in range(start, len(unit), _BLOCK):
            near = some @ unit[other : other + _BLOCK].t() >= threshold
            if other == start:
                near = near.triu(1)
            one, two = (part.numpy() for part in near.nonzero(as_tuple=True))
            if len(one):
                components.join(one + start, two + other)
