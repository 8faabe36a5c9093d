"""Every tensor of nested inputs or outputs; the bytes of a tensor; devices of models and of work."""

import copy
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from turnover.errors import ModelError


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


PREFERRED = "TURNOVER_DEVICE"
"""The environment variable that names the device for commands and trainings; worker processes inherit it."""


def preferred_device(device: torch.device | str | None = None) -> torch.device:
    """Return a device that is there: the given one, else that of TURNOVER_DEVICE, else "auto".

    "auto" is the accelerator of this machine, such as CUDA or MPS, and the CPU where there is none.

    Example:
        >>> preferred_device("cpu")
        device(type='cpu')
    """
    given = device or os.environ.get(PREFERRED) or "auto"
    if given == "auto":
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    there = "Give auto, cpu, cuda, cuda:1 or mps."
    try:
        chosen = torch.device(given)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device {given!r} is unknown. {there}") from error
    if chosen.type == "cpu":
        return chosen
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None or accelerator.type != chosen.type:
        usable = "auto or cpu" if accelerator is None else f"auto, cpu or {accelerator.type}"
        have = "no accelerator" if accelerator is None else f"{accelerator.type} only"
        raise ModelError(f"device {given!r} is not there: PyTorch sees {have} on this machine. Give {usable}.")
    if chosen.index is not None and chosen.index >= torch.accelerator.device_count():
        raise ModelError(
            f"device {given!r} is not there: this machine has {chosen.type}:0 to "
            f"{chosen.type}:{torch.accelerator.device_count() - 1}. {there}"
        )
    return chosen


def device_of(model: nn.Module) -> torch.device:
    """Return where a model lives; one without parameters lives on the CPU."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


@cache
def widest_float(device: torch.device) -> torch.dtype:
    """Return the dtype of long sums on a device: float64, or float32 where there is none, as on MPS."""
    try:
        torch.zeros((), dtype=torch.float64, device=device)
    except TypeError:
        return torch.float32
    return torch.float64
