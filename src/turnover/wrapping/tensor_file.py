"""Named tensors in one file of the safetensors format, which needs nothing but torch to be read and written here.

The format: eight bytes with the length of a JSON header, the header with dtype, shape and place of every tensor, then
the bytes of all tensors without gaps.
"""

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from turnover.layers import tensor_bytes

_LENGTH = struct.Struct("<Q")
_ALIGNED = 8
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors to a file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts: list[memoryview] = []
    start = 0
    # Wide dtypes first, as the format's own library writes them: every tensor begins at a multiple of its item size.
    for name in sorted(tensors, key=lambda name: (-tensors[name].element_size(), name)):
        tensor = tensors[name]
        parts.append(tensor_bytes(tensor))
        end = start + len(parts[-1])
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % _ALIGNED)
    with path.open("wb") as file:
        file.write(_LENGTH.pack(len(text)) + text)
        file.writelines(parts)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the named tensors of a file; ValueError where it is damaged."""
    content = path.read_bytes()
    try:
        (length,) = _LENGTH.unpack_from(content)
        header: dict[str, Any] = json.loads(content[_LENGTH.size : _LENGTH.size + length])
        data = content[_LENGTH.size + length :]
        header.pop("__metadata__", None)
        ends = [entry["data_offsets"] for entry in header.values()]
        if sum(min(end, len(data)) - start for start, end in ends) > len(data):
            raise ValueError("tensors share bytes, and would take more memory than the file has")
        return {name: _tensor(data, entry) for name, entry in header.items()}
    except (struct.error, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"{str(path)!r} is not a file of tensors") from error


def names_in(path: Path) -> set[str]:
    """Return the names of a file's tensors, from its header alone; ValueError where it is damaged."""
    with path.open("rb") as file:
        try:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            return set(json.loads(file.read(min(length, path.stat().st_size))))
        except (struct.error, TypeError, UnicodeDecodeError) as error:
            raise ValueError(f"{str(path)!r} is not a file of tensors") from error


def _tensor(data: bytes, entry: Mapping[str, Any]) -> Tensor:
    dtype, shape, (start, end) = _DTYPES[entry["dtype"]], [int(size) for size in entry["shape"]], entry["data_offsets"]
    size = math.prod(shape) * dtype.itemsize
    if not 0 <= start <= end <= len(data) or end - start != size or min(shape, default=0) < 0:
        raise ValueError("a tensor lies outside of the file")
    if size == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[start:end]), dtype=dtype).reshape(shape)
