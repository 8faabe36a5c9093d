"""Instance ids as users give them, checked and brought into one form."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import InstanceIdError

_CURE = "Give every example a stable id: turnover.with_instance_ids(dataset)."


def as_ids(ids: Any) -> Tensor:
    """Return ids as an int64 tensor of one dimension, or say what is wrong with them."""
    tensor = ids.detach() if isinstance(ids, Tensor) else _from_sequence(ids)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise InstanceIdError(f"instance ids are of type {tensor.dtype}, but must be integers in [0, 2**63). {_CURE}")
    if tensor.dim() != 1:
        raise InstanceIdError(
            f"instance ids have shape {list(tensor.shape)}, but must have one dimension: one id a "
            f"row of the batch. {_CURE}"
        )
    if len(tensor) == 0:
        raise InstanceIdError("no instance ids were given: the list is empty. Give one id for every row of the batch.")
    unsigned = tensor.dtype == torch.uint64
    # A copy: the recomputation of a checkpoint may come after the batch's memory is used again.
    tensor = tensor.to(torch.int64, copy=True)
    if bool((tensor < 0).any()):
        least = int(tensor.min())
        if unsigned:
            raise _too_large(least + 2**64)
        raise InstanceIdError(f"instance id {least} is negative. {_CURE}")
    return tensor


def _from_sequence(ids: Any) -> Tensor:
    """Return ids that are no tensor as one, with whatever shape they have."""
    if not isinstance(ids, np.ndarray):
        try:
            ids = list(ids)
        except TypeError as error:
            raise InstanceIdError(f"ids={ids!r} is not a sequence of ids. {_CURE}") from error
        # NumPy makes floats or objects of a list with numbers beyond 64 bits.
        large = [item for item in ids if isinstance(item, int) and item >= 2**63]
        if large:
            raise _too_large(large[0])
    try:
        array = np.asarray(ids)
    except ValueError as error:
        raise InstanceIdError(f"instance ids are a ragged list: {error}. {_CURE}") from error
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InstanceIdError(f"instance ids are of type {array.dtype}, but must be integers in [0, 2**63). {_CURE}")
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise _too_large(int(array.max()))
    return torch.from_numpy(array.astype(np.int64, order="C"))


def _too_large(number: int) -> InstanceIdError:
    return InstanceIdError(f"instance id {number} is beyond 2**63 - 1. {_CURE}")
