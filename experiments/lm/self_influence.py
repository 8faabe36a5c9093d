"""Self-influence of every position, model by model, and of ids that were never trained."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import turnover
from turnover.batches import FIRST_RESERVED_ID
from turnover.layers import View

from .corpus import Positions
from .training import device_of

_AT_ONCE = 1024


def self_influence(model: nn.Module, positions: Positions) -> np.ndarray:
    """Return what each position does to its own loss, [positions]."""
    data = turnover.with_instance_ids(TensorDataset(positions.contexts, positions.words))
    return np.asarray(turnover.Influence(model, center=False).self_influence(data, progress=False).values)


def never_trained(model: nn.Module, positions: Positions) -> np.ndarray:
    """Return the same for ids that no training saw, one a position: what masks alone make of it."""
    ids = torch.arange(FIRST_RESERVED_ID, FIRST_RESERVED_ID + len(positions))
    return (_losses(model, positions, ids, "flip") - _losses(model, positions, ids, "keep")).numpy()


@torch.no_grad()
def _losses(model: nn.Module, positions: Positions, ids: Tensor, view: View) -> Tensor:
    parts, where = [], device_of(model)
    for rows in torch.arange(len(positions)).split(_AT_ONCE):
        with turnover.instances(ids[rows], view=view):
            outputs = model(positions.contexts[rows].to(where))
        parts.append(functional.cross_entropy(outputs, positions.words[rows].to(where), reduction="none").cpu())
    return torch.cat(parts)
