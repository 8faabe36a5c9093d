"""What masks say by themselves, by its definition: every reference under every id's flipped mask, one at a time."""

import numpy as np
from torch import Tensor, nn

from tests.reference.influence_twin import TwinModel


def twin_without_masks(model: nn.Module, x: Tensor, ids: list[int], references: list[int], *, classes: bool):
    """Return the outputs [rows, outputs] of flipped parts without what their masks say of the reference rows."""
    twin = TwinModel(model)

    def output(row: int, number: int) -> np.ndarray:
        found = twin.outputs((x[row : row + 1],), {}, number, "flip")[0].double().numpy()
        return found - found.mean() if classes else found

    own = np.array([twin.outputs((x[row : row + 1],), {}, ids[row], "flip")[0].numpy() for row in range(len(ids))])
    said = np.array([[output(row, number) for number in sorted(set(ids))] for row in references])
    said = said - said.mean(1, keepdims=True)
    effect = said.mean(0)
    power, noise = np.square(effect).mean(), said.var(0, ddof=1).mean() / len(references)
    share = min(max((power - noise) / power, 0.0), 1.0)
    by_id = dict(zip(sorted(set(ids)), effect, strict=True))
    return own - share * np.array([by_id[number] for number in ids]), share
