"""A second device for machines that have only a CPU: tensors on it are held in memory, but mix with no others.

As on CUDA, an operation on tensors of two devices raises, and numpy cannot read a tensor; as on MPS, there is no
float64. Numbers are those of the CPU, so that results can be compared bit for bit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "elsewhere"
aten = torch.ops.aten
_COPIES = {aten._to_copy.default, aten.copy_.default}
# An index may lie on the CPU, as on CUDA.
_INDEXED = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}


class _Module:
    """What torch asks of a kind of device."""

    @staticmethod
    def is_available() -> bool:
        return _inside

    @staticmethod
    def is_initialized() -> bool:
        return _inside

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def device_count() -> int:
        return int(_inside)

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """Random numbers come from the CPU's generator."""


class ElsewhereTensor(Tensor):
    """A tensor that says that it lies on the device, around one on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "ElsewhereTensor":
        if held.dtype in (torch.float64, torch.complex128):
            raise TypeError(f"this device has no {held.dtype}.")
        made = torch.Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
            requires_grad=held.requires_grad,
        )
        made.held = held
        return made

    def __repr__(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return f"{NAME}: {self.held!r}"

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.held.untyped_storage()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def __deepcopy__(self, memo: dict[int, Any]) -> "ElsewhereTensor":
        copied = memo[id(self)] = ElsewhereTensor(self.held.detach().clone()).requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copied = memo[id(self)] = torch.nn.Parameter(copied, self.requires_grad)
        return copied

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _MakingTensors(TorchDispatchMode):
    """Sees the functions that take no tensor, such as torch.zeros(..., device=)."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


def _held(value: Any) -> Any:
    return tree_map_only(ElsewhereTensor, lambda tensor: tensor.held, value)


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, ElsewhereTensor)]
    here = [tensor for tensor in tensors if not isinstance(tensor, ElsewhereTensor) and tensor.dim()]
    indexed = func in _INDEXED and isinstance(args[0], ElsewhereTensor)
    if there and here and func not in _COPIES and not indexed:
        raise RuntimeError(f"{func}: tensors on two devices, {NAME} and the CPU.")
    asked = kwargs.get("device")
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu") if torch.device(asked).type == NAME else asked}
        goes = torch.device(asked).type == NAME
    else:
        goes = isinstance(args[0], ElsewhereTensor) if func is aten.copy_.default else bool(there)
    if goes and kwargs.get("dtype") == torch.float64:
        raise TypeError("this device has no float64.")
    found = func(*_held(args), **_held(kwargs))
    if not goes:
        return found
    found = tree_map_only(Tensor, ElsewhereTensor, found)
    return return_and_correct_aliasing(func, args, kwargs, found) if there else found


def _register(name: str) -> Callable[[Callable[..., Any]], Any]:
    return torch.library.impl(f"aten::{name}", "privateuseone")


_ready = _inside = False


def _set_up() -> None:
    """Make the device known to torch, once in a process; what torch.tensor(..., device=) calls sees no mode."""
    global _ready  # noqa: PLW0603 - torch has no way back
    if _ready:
        return
    _ready = True
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Module())

    @_register("empty_strided")
    def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> Tensor:
        return ElsewhereTensor(torch.empty_strided(size, stride, dtype=dtype))

    @_register("empty.memory_format")
    def _empty(size: Any, *, dtype: Any = None, **_: Any) -> Tensor:
        return ElsewhereTensor(torch.empty(size, dtype=dtype))

    @_register("_copy_from")
    def _copy_from(source: Tensor, to: Tensor, non_blocking: bool = False) -> Tensor:
        _held(to).copy_(_held(source))
        return to


@contextmanager
def elsewhere() -> Iterator[torch.device]:
    """Let tensors and modules go to the device; outside there is none, and "auto" stays on the CPU."""
    global _inside  # noqa: PLW0603 - torch asks the module
    _set_up()
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        _inside = True
        with _MakingTensors():
            yield torch.device(NAME, 0)
    finally:
        _inside = False
        torch.__future__.set_swap_module_params_on_conversion(before)
