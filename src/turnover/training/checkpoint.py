"""The state of a training in a file, from which it resumes after a stop at any moment."""

import io
import os
import time
import warnings
from pathlib import Path
from typing import Any, Protocol

import torch

from turnover.errors import TurnOverWarning
from turnover.storage import check_stored, sha256_of, write_atomically

_CHECKSUM = 64  # bytes of a SHA-256 in hexadecimal digits


class _Stateful(Protocol):
    """What a training changes: models, optimizers, schedules, or an object of one's own."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: Any, /) -> Any: ...


class Checkpoint:
    """One file that keeps the state of one training.

    Args:
        file: where; its folder is made.
        every: seconds between two states that are written. A stop loses at most so many.

    Example:
        >>> import tempfile, torch
        >>> model = torch.nn.Linear(2, 2)
        >>> checkpoint = Checkpoint(tempfile.mkdtemp() + "/state.pt", every=0)
        >>> checkpoint.resume(model=model), checkpoint.keep(7), checkpoint.resume(model=model)
        (0, None, 7)
    """

    def __init__(self, file: str | os.PathLike[str], *, every: float = 120.0) -> None:
        self.file, self.every = Path(file), every
        self._parts: dict[str, _Stateful] = {}
        self._last = time.monotonic()

    def resume(self, **parts: _Stateful | None) -> int:
        """Return how many steps are done, with all parts as they were then; 0 where nothing, or nothing whole, is kept.

        `keep` writes these parts; None is left out.
        """
        self._parts = {name: part for name, part in parts.items() if part is not None}
        self._last = time.monotonic()
        if not self.file.exists():
            return 0
        state = read_state(self.file)
        if state is None:
            warnings.warn(
                f"the state of a training in {str(self.file)!r} is damaged: the training starts over.",
                TurnOverWarning,
                stacklevel=2,
            )
        if state is None or state["parts"].keys() != self._parts.keys():
            return 0
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])
        return int(state["done"])

    def keep(self, done: int, *, now: bool = False) -> None:
        """Write the state after so many steps, if it is time to, or `now`."""
        if not now and time.monotonic() - self._last < self.every:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_state(self.file, {"done": done, "parts": {name: part.state_dict() for name, part in self._parts.items()}})
        self._last = time.monotonic()


def write_state(file: Path, state: dict[str, Any]) -> None:
    """Write tensors and plain data whole or not at all, with their checksum: no kill can part the two."""
    held = io.BytesIO()
    torch.save(state, held)
    write_atomically(file, sha256_of(held.getvalue()).encode() + held.getvalue())


def read_state(file: Path) -> dict[str, Any] | None:
    """Return what `write_state` wrote, on the CPU; None: a part of it is missing or changed."""
    content = file.read_bytes()
    checksum, state = content[:_CHECKSUM], content[_CHECKSUM:]
    if checksum != sha256_of(state).encode():
        return None
    check_stored(io.BytesIO(state))
    return torch.load(io.BytesIO(state), weights_only=True, map_location="cpu")
