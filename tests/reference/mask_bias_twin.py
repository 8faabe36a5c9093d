"""The mask-bias correction by its definition: every reference under every id's flipped mask, one at a time."""

import numpy as np
from torch import Tensor, nn

from tests.reference.influence_twin import TwinModel


def twin_without_masks(model: nn.Module, x: Tensor, ids: list[int], references: list[int], *, classes: bool):
    """Return outputs [rows, outputs] of flipped subnetworks without the bias of their masks, and the share.

    All ids are compared with each other.
    """
    twin = TwinModel(model)

    def output(row: int, number: int) -> np.ndarray:
        return twin.outputs((x[row : row + 1],), {}, number, "flip")[0].double().numpy()

    def said(row: int, number: int) -> np.ndarray:
        found = output(row, number)
        return found - found.mean() if classes and len(found) > 1 else found

    known = sorted(set(ids))
    center = {row: np.mean([said(row, number) for number in known], 0) for row in references}
    off = np.array([[said(row, number) - center[row] for number in known] for row in references])
    power, noise = np.square(off.mean(0)).mean(), off.var(0, ddof=1).mean() / len(references)
    share = min(max((power - noise) / power, 0.0), 1.0)
    found = []
    for row, number in enumerate(ids):
        effects = [said(one, number) - center[one] for one in references if ids[one] != number]
        found.append(output(row, number) - share * np.mean(effects, 0))
    return np.array(found), share
