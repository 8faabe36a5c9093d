"""A checksum of data: the same content gives the same text, in any process."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def fingerprint_of(value: Any) -> str:
    """Return a SHA-256 of nested tensors, arrays, strings and numbers."""
    whole = hashlib.sha256()
    _feed(whole, value)
    return whole.hexdigest()


def _feed(whole: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        whole.update(f"tensor {value.dtype} {list(value.shape)}".encode())
        whole.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b"")
    elif isinstance(value, np.ndarray):
        whole.update(f"array {value.dtype} {list(value.shape)}".encode())
        whole.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        for name in sorted(value, key=str):
            whole.update(f"key {name!r}".encode())
            _feed(whole, value[name])
    elif isinstance(value, tuple | list):
        whole.update(f"sequence {len(value)}".encode())
        for item in value:
            _feed(whole, item)
    else:
        whole.update(f"{type(value).__name__} {value!r}".encode())
