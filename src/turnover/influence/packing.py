"""Tasks as bytes, and back in another process; models and data, which many tasks hold, travel apart and only once."""

import copyreg
import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from turnover.errors import InfluenceError

from ._memory import keep_freed_memory

_KEPT = 4
Fetch = Callable[[str], Any]
"""Returns the bytes that were packed under a key, as bytes or something with a buffer of them."""


@dataclass(frozen=True)
class Shared:
    """A large object that many tasks hold: a list of models, or the training data."""

    key: str  # the same for the same content, as long as the process lives
    value: Any

    def parts(self) -> Iterator[tuple[Any, tuple[str, int, str]]]:
        """Yield what of it a task may hold, and how it is named: of models every module, of other things the whole."""
        several = isinstance(self.value, list) and all(isinstance(one, nn.Module) for one in self.value)
        models = self.value if several else []
        for number, model in enumerate(models):
            for path, module in model.named_modules():
                yield module, (self.key, number, path)
        if not models:
            yield self.value, (self.key, -1, "")


def packed(value: Any, shared: Sequence[Shared] = (), *, pickler: Any = pickle.Pickler) -> bytes:
    """Return a value as bytes, with names in place of what is shared; `pickler` is a class like pickle's.

    Raises:
        InfluenceError: something in it cannot leave this process.
    """
    names: dict[int, tuple[str, int, str]] = {}
    for one in shared:
        for part, name in one.parts():
            names.setdefault(id(part), name)

    known = getattr(pickler, "dispatch_table", None)
    table = {**(known if isinstance(known, Mapping) else copyreg.dispatch_table), Tensor: _reduced}

    class Packer(pickler):
        # Of the class: a pickler whose class has a table of its own never asks the object for one.
        dispatch_table = table

        def persistent_id(self, obj: Any) -> tuple[str, int, str] | None:
            return names.get(id(obj))

    target = io.BytesIO()
    packer = Packer(target, protocol=5)
    try:
        packer.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InfluenceError(
            f"this cannot be sent to another process: {error}. Define loss, measure, model and data set at the top of "
            "a module or script, not within a function, and leave open files and locks out of them; or give no "
            "executor."
        ) from error
    return target.getvalue()


def key_of(data: bytes) -> str:
    """Return the name of packed bytes."""
    return hashlib.sha256(data).hexdigest()


def _reduced(tensor: Tensor) -> Any:
    """Return what pickle writes of a tensor: of ids in a row their range, of a part of a larger tensor that part."""
    if tensor.dtype == torch.int64 and tensor.dim() == 1 and len(tensor) and tensor.device.type == "cpu":
        start = int(tensor[0])
        if start + len(tensor) < 2**63 and torch.equal(tensor, _in_a_row(start, len(tensor))):
            return _in_a_row, (start, len(tensor))
    if tensor.layout == torch.strided and tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size():
        tensor = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return tensor.__reduce_ex__(5)


def _in_a_row(start: int, count: int) -> Tensor:
    return torch.arange(start, start + count)


class Unpacked:
    """What a worker process has unpacked, the last few of each kind, so that items of one task find it ready."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._tasks: OrderedDict[str, Any] = OrderedDict()
        self._shared: OrderedDict[str, Any] = OrderedDict()

    def run(self, key: str, item: bytes, fetch: Fetch, *, threads: int) -> Any:
        """Return what a task makes of an item; both may name what is shared."""
        keep_freed_memory()
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        task = _kept(self._tasks, key, lambda: self._read(fetch(key), fetch))
        with torch.no_grad():
            return task(self._read(item, fetch))

    def _read(self, data: Any, fetch: Fetch) -> Any:
        def named(name: tuple[str, int, str]) -> Any:
            key, number, path = name
            value = _kept(self._shared, key, lambda: self._read(fetch(key), fetch))
            return value if number < 0 else _module_at(value[number], path)

        class Unpacker(pickle.Unpickler):
            def persistent_load(self, pid: Any) -> Any:
                return named(pid)

        return Unpacker(io.BytesIO(data)).load()


def _module_at(model: nn.Module, path: str) -> nn.Module:
    return model.get_submodule(path)


def _kept(values: "OrderedDict[str, Any]", key: str, make: Callable[[], Any]) -> Any:
    """Return a value that is kept, or make it; the one that was not used for longest goes."""
    if key not in values:
        while len(values) >= _KEPT:
            values.popitem(last=False)
        values[key] = make()
    values.move_to_end(key)
    return values[key]


UNPACKED = Unpacked()
"""Of this process, where it is a worker."""
