"""How much memory a piece of work takes: the peak of all tensors that are alive at once, on any device."""

import weakref
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of every new tensor while it lives; `peak` is the most at one time."""

    def __init__(self) -> None:
        """Start at zero."""
        super().__init__()
        self.now = self.peak = 0
        self._alive: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and note what it made."""
        result = func(*args, **(kwargs or {}))
        given = {_key(value) for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)}
        for value in tree_leaves(result):
            if isinstance(value, Tensor) and _key(value) not in given - set(self._alive):
                self._note(value)
        return result

    def _note(self, value: Tensor) -> None:
        key, size = _key(value), value.untyped_storage().nbytes()
        if key not in self._alive:
            self._alive[key] = 0
            self.now += size
            self.peak = max(self.peak, self.now)
        self._alive[key] += 1
        weakref.finalize(value, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._alive[key] -= 1
        if self._alive[key] == 0:
            del self._alive[key]
            self.now -= size


def _key(value: Tensor) -> int:
    return value.untyped_storage().data_ptr()
