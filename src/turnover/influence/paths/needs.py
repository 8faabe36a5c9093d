"""What chunks of instances need, counted on two small ones: bytes at one time, and multiplications."""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from turnover.batches import null_ids

_MOST_IDS = 2048
_SMALL, _LARGE = 2, 4


@dataclass(frozen=True)
class Need:
    """What chunks need."""

    fixed: int  # bytes
    per_id: int  # bytes
    products_per_id: float  # multiplications in matrix products and convolutions

    def ids_within(self, memory: int) -> int:
        """Return how many instances fit into so many bytes; one at least."""
        return int(max(1, min(_MOST_IDS, (memory - self.fixed) // self.per_id)))


def need_of(compute: Callable[[Tensor], None]) -> Need:
    """Return what chunks need, by two small ones of null ids."""
    counted: list[Counted] = []
    for count in (_SMALL, _LARGE):
        with Counted() as counts:
            compute(null_ids(count))
        counted.append(counts)
    small, large = counted
    per_id = max(1, (large.peak - small.peak) // (_LARGE - _SMALL))
    products = (large.products - small.products) / (_LARGE - _SMALL)
    return Need(max(0, small.peak - _SMALL * per_id), per_id, products)


def ids_that_fit(compute: Callable[[Tensor], None], memory: int) -> int:
    """Return how many instances fit into the memory, by the peaks of two small chunks of null ids."""
    return need_of(compute).ids_within(memory)


class Counted(TorchDispatchMode):
    """Counts the bytes of every new tensor while it lives, and the work of products.

    `peak` is the most bytes at one time, on any device.
    """

    def __init__(self) -> None:
        """Start at zero."""
        # It imports triton where torch is built for CUDA, which `import turnover` must not.
        from torch.utils.flop_counter import flop_registry

        super().__init__()
        self._work_of: Mapping[Any, Callable[..., int]] = flop_registry
        self.peak = 0
        self.products = 0
        # By the address of the memory: its bytes, and the tensors that are or were views of it.
        self._alive: dict[int, tuple[int, list[weakref.ref[Tensor]]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and note what it made."""
        result = func(*args, **(kwargs or {}))
        work = self._work_of.get(func._overloadpacket)
        if work is not None:
            self.products += work(*args, **(kwargs or {}), out_val=result)
        made = [value for value in tree_leaves(result) if isinstance(value, Tensor)]
        if not made:
            return result
        given = {
            value.untyped_storage().data_ptr() for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)
        }
        self._alive = {key: entry for key, entry in self._alive.items() if any(view() is not None for view in entry[1])}
        for value in made:
            storage = value.untyped_storage()
            key = storage.data_ptr()
            if key in self._alive:
                self._alive[key][1].append(weakref.ref(value))
            elif key not in given:
                self._alive[key] = storage.nbytes(), [weakref.ref(value)]
        self.peak = max(self.peak, sum(size for size, _ in self._alive.values()))
        return result
