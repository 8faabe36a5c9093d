"""Every tensor of nested inputs or outputs; the bytes of a tensor."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the value with every tensor in it changed; tuples, lists and mappings keep their types."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        changed = copy.copy(value)
        for key, item in value.items():
            changed[key] = map_tensors(item, change)  # pyright: ignore[reportIndexIssue]
        return changed
    if isinstance(value, (tuple, list)):
        items = [map_tensors(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield every tensor of a nested value."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


def tensor_bytes(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor, in its own dtype and order; numpy itself has no bfloat16."""
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data
