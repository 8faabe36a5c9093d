"""The models of an ensemble, checked, and switched to eval mode while they are asked."""

import hashlib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from turnover.errors import InfluenceError, TurnOverWarning
from turnover.layers import Masking
from turnover.layers.root import masking_of
from turnover.wrapping.build import wrapped_root

from .fingerprint import fingerprint_of


class Member:
    """One trained model."""

    def __init__(self, model: nn.Module) -> None:
        """Find the wrapped part of a model; an error says so where there is none."""
        self.model = model
        self.root = wrapped_root(model)

    @property
    def masking(self) -> Masking:
        """Return the masks of the model."""
        return masking_of(self.root)

    @property
    def device(self) -> torch.device:
        """Return where the model lives."""
        first = next(iter(self.model.parameters()), None)
        return torch.device("cpu") if first is None else first.device

    def digest(self) -> str:
        """Return a checksum of the weights and masks; what was learned about sites does not count."""
        whole = hashlib.sha256(self.masking.recipe.to_json().encode())
        for name, value in self.root.state_dict().items():
            if not name.endswith("turnover_recipe"):
                whole.update(f"{name} {fingerprint_of(value)}".encode())
        return whole.hexdigest()


def open_members(model: nn.Module | Sequence[nn.Module], device: torch.device | str | None) -> tuple[Member, ...]:
    """Return the models to ask, moved to `device`, or raise where they do not fit together."""
    models = [model] if isinstance(model, nn.Module) else list(model)
    if not models:
        raise InfluenceError(
            "an empty list of models was given. Give a wrapped model, or several with different seeds."
        )
    members = tuple(Member(one if device is None else one.to(device)) for one in models)
    seeds: dict[int, int] = {}
    for place, member in enumerate(members):
        seed = member.masking.recipe.seed
        if seed in seeds:
            raise InfluenceError(
                f"models {seeds[seed]} and {place} have the same mask seed {seed}, so their noise is the same too. "
                "Wrap every member with a seed of its own: turnover.wrap(model, seed=1)."
            )
        seeds[seed] = place
    for place, member in enumerate(members):
        if member.masking.learned.passes == 0:
            warnings.warn(
                f"model {place} was never trained with its masks: its sites saw no training pass. Both halves of the "
                "network know the same, and scores are noise. Train it inside turnover.instances(ids) first.",
                TurnOverWarning,
                stacklevel=4,
            )
    return members


@contextmanager
def evaluating(members: Sequence[Member]) -> Iterator[None]:
    """Switch to eval mode without gradients, and restore every module's mode afterwards."""
    modes = [(module, module.training) for member in members for module in member.model.modules()]
    try:
        for member in members:
            member.model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def precision(device: torch.device, dtype: torch.dtype | None) -> Iterator[None]:
    """Run under autocast where a lower precision was asked for."""
    if dtype is None or dtype == torch.float32:
        yield
    else:
        with torch.autocast(device.type, dtype=dtype):
            yield


def call_description(function: Any) -> Any:
    """Return what identifies a function across processes: its code and constants, never its address."""
    if function is None or isinstance(function, str | int | float | bool):
        return function
    if isinstance(function, nn.Module):
        return f"{type(function).__module__}.{type(function).__qualname__}({function.extra_repr()}) {function!r}"
    code = getattr(function, "__code__", None)
    if code is None:
        inner = getattr(function, "func", None)
        if inner is not None:  # functools.partial
            bound = [call_description(value) for value in (*function.args, *sorted(function.keywords.items()))]
            return ["partial", call_description(inner), *bound]
        name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
        return name if isinstance(function, type) or hasattr(function, "__qualname__") else f"{name} {_state(function)}"
    closed = [call_description(_plain(cell.cell_contents)) for cell in function.__closure__ or ()]
    defaults = [call_description(_plain(value)) for value in function.__defaults__ or ()]
    return [hashlib.sha256(_code_bytes(code)).hexdigest(), closed, defaults]


def _code_bytes(code: Any) -> bytes:
    constants = [_code_bytes(c).hex() if hasattr(c, "co_code") else repr(c) for c in code.co_consts]
    return code.co_code + repr((constants, code.co_names)).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return f"tensor {fingerprint_of(value)}"
    return value if callable(value) or isinstance(value, str | int | float | bool | None) else repr(type(value))


def _state(value: Any) -> str:
    return repr(
        sorted((name, repr(_plain(item))) for name, item in vars(value).items()) if hasattr(value, "__dict__") else []
    )
