"""What is known about the ids of data without reading its rows."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, Subset

from .arrow_rows import is_hugging_face
from .batches import INSTANCE_ID
from .dataset import InstanceIdDataset
from .loader import data_carries_ids


def carries_ids(data: Any) -> bool:
    """Return whether rows or batches of a data set or loader carry ids."""
    if isinstance(data, DataLoader):
        return data_carries_ids(cast(Any, data).dataset)
    return data_carries_ids(data)


def ids_of(data: Any) -> Tensor | None:
    """Return the ids of all rows in order, or None where only reading them would tell."""
    if isinstance(data, DataLoader):
        loader = cast(Any, data)
        everything = isinstance(loader.sampler, RandomSampler | SequentialSampler)
        return ids_of(loader.dataset) if everything else None
    if isinstance(data, Subset):
        subset = cast(Any, data)
        below = ids_of(subset.dataset)
        return None if below is None else below[torch.as_tensor(list(subset.indices))]
    if is_hugging_face(data) and INSTANCE_ID in data.column_names:
        return torch.tensor(list(data[INSTANCE_ID]), dtype=torch.int64)
    if isinstance(data, InstanceIdDataset) and data.counts_rows:
        return torch.tensor(data.numbers(), dtype=torch.int64)
    return None
