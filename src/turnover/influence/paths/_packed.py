"""Linear layers over tokens with their weights packed once: the product that the processor's library is fastest at.

Weights stay the same while many chunks go through a model, and the library (oneDNN) would otherwise lay them out anew
for every product. Layers over single rows gain nothing from it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_POSITIONS = 3  # dimensions of activations that have tokens


class PackedLinears(TorchFunctionMode):
    """While it is active, `linear` over tokens takes packed weights; it counts for this thread alone."""

    def __init__(self) -> None:
        """Pack nothing yet."""
        super().__init__()
        # With the weight itself, so that its address is not used again.
        self._packed: dict[int, tuple[Tensor, Tensor]] = {}

    def __reduce__(self) -> Any:
        """Let another process pack the weights itself."""
        return PackedLinears, ()

    @staticmethod
    def are_available(device: torch.device) -> bool:
        """Return whether this build of torch has them for a device."""
        names = ("_reorder_linear_weight", "_linear_pointwise")
        known = torch.backends.mkldnn.is_available() and all(hasattr(torch.ops.mkldnn, name) for name in names)
        return known and device.type == "cpu"

    @property
    def is_used(self) -> bool:
        """Return whether any layer was packed."""
        return bool(self._packed)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function; products of tokens by packed weights."""
        if func is functional.linear and not kwargs and not torch.is_grad_enabled():
            x, weight, *bias = args
            if x.dim() >= _POSITIONS and x.dtype == weight.dtype == torch.float32:
                return torch.ops.mkldnn._linear_pointwise(x, self._of(weight), *(bias or [None]), "none", [], "")
        return func(*args, **(kwargs or {}))

    def _of(self, weight: Tensor) -> Tensor:
        key = id(weight)
        if key not in self._packed:
            self._packed[key] = weight, torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        return self._packed[key][1]
