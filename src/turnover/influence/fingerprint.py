"""A checksum of data and functions: the same content gives the same text, in any process."""

import hashlib
import re
from collections.abc import Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn

from turnover.layers import tensor_bytes


def fingerprint_of(value: Any) -> str:
    """Return a SHA-256 of nested tensors, arrays, strings and numbers, or of a function by its code and constants.

    Nothing counts that another process would see differently: no address, no order of a set.
    """
    feeding = _Feeding()
    feeding.feed(value)
    return feeding.whole.hexdigest()


def plain_repr(value: Any) -> str:
    """Return the repr of an object without addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


class _Feeding:
    def __init__(self) -> None:
        self.whole = hashlib.sha256()
        # With the objects themselves, so that no address is used again: functions may refer to themselves.
        self._open: dict[int, Any] = {}

    def feed(self, value: Any) -> None:
        if id(value) in self._open:
            self._say("again")
            return
        self._open[id(value)] = value
        try:
            self._feed(value)
        finally:
            del self._open[id(value)]

    def _feed(self, value: Any) -> None:
        if isinstance(value, Tensor):
            self._say(f"tensor {value.dtype} {list(value.shape)}")
            self.whole.update(tensor_bytes(value))
        elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
            self._say(f"array {value.dtype} {list(value.shape)}")
            self.whole.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, Mapping):
            self._say(f"mapping {len(value)}")
            for name in sorted(value, key=str):
                self._say(f"key {name!r}")
                self.feed(value[name])
        elif isinstance(value, tuple | list | np.ndarray):
            self._say(f"sequence {len(value)}")
            for item in value:
                self.feed(item)
        elif isinstance(value, set | frozenset):
            self.feed(sorted(fingerprint_of(item) for item in value))
        elif isinstance(value, CodeType):
            self._say(f"code {value.co_names}")
            self.whole.update(value.co_code)
            self.feed(value.co_consts)
        elif isinstance(value, nn.Module):
            self._say(f"module {_name(value)} {plain_repr(value)}")
            self.feed([*value.named_parameters(), *value.named_buffers()])
            self.feed([_attributes(module) for module in value.modules()])
        elif callable(value):
            self._feed_callable(value)
        elif type(value).__repr__ is object.__repr__:  # nothing but an address
            self._say(f"object {_name(value)}")
            self.feed(_attributes(value))
        else:
            self._say(f"{type(value).__name__} {plain_repr(value)}")

    def _feed_callable(self, value: Any) -> None:
        if isinstance(value, partial):
            self._say("partial")
            self.feed([value.func, value.args, value.keywords])
        elif isinstance(value, MethodType):
            self._say("method")
            self.feed([value.__func__, value.__self__])
        elif isinstance(value, FunctionType):
            self._say("function")
            self.feed([value.__code__, value.__defaults__, value.__kwdefaults__])
            self.feed([cell.cell_contents for cell in value.__closure__ or ()])
            self.feed(_constants_outside(value))
        elif isinstance(value, type) or hasattr(value, "__qualname__"):  # built in
            self._say(f"name {value.__module__}.{value.__qualname__}")
        else:
            self._say(f"callable {_name(value)}")
            self.feed([type(value).__call__, _attributes(value)])

    def _say(self, text: str) -> None:
        self.whole.update(f"{text}\n".encode())


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _attributes(value: Any) -> dict[str, Any]:
    known = getattr(value, "__dict__", {})
    return {name: item for name, item in known.items() if not name.startswith("_") and name != "training"}


def _constants_outside(function: FunctionType) -> dict[str, Any]:
    """Return what a function names outside of itself, without modules, classes and functions of other files."""
    known, here = function.__globals__, function.__module__
    named = {name: known[name] for name in function.__code__.co_names if name in known}
    return {
        name: value
        for name, value in named.items()
        if not isinstance(value, ModuleType | type)
        and not (isinstance(value, FunctionType) and value.__module__ != here)
    }
