"""Gradients of training rows in the files of a folder: further blocks of queries run no network, nor does a resume."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.storage import KeptArrays

from ._gradients import LayerRun

MOST_BYTES = 4 * 2**30  # of all files together; larger gradients are computed for every block
SHARE_OF_ROOM = 0.25  # of what is free in the folder, at most
Runs = dict[str, LayerRun]
"""What every layer of one member saw of some rows, by its path."""


@dataclass(frozen=True)
class KeptRows:
    """A file for every batch, written whole or not at all; what is missing or damaged is computed again."""

    fit: KeptArrays  # of the same models, rows and options
    rows_at_once: int
    devices: tuple[torch.device, ...]  # of the members
    writes: bool  # whether what is missing is written

    def read(self, first: int) -> tuple[np.ndarray, list[Runs]] | None:
        """Return the places of the batch that begins at a row, and the runs of every member; None: not kept."""
        arrays = self._file(first).read()
        if arrays is None:
            return None
        return arrays.pop("places"), [_runs(arrays, member, device) for member, device in enumerate(self.devices)]

    def write(self, first: int, places: np.ndarray, members: Sequence[Runs]) -> None:
        """Keep a batch; inputs that the first member saw, too, as all replicas do at their first layer, once."""
        arrays: dict[str, Any] = {"places": places}
        for number, runs in enumerate(members):
            for name, run in runs.items():
                shared = members[0].get(name) if number else None
                if shared is None or not torch.equal(shared.inputs, run.inputs):
                    arrays[f"{number}/{name}/inputs"] = run.inputs.cpu().numpy()
                arrays[f"{number}/{name}/gradient"] = run.gradient.cpu().numpy()
        self._file(first).write(arrays)

    def remove(self, rows: int) -> None:
        """Remove the files of so many rows."""
        for first in range(0, rows, self.rows_at_once):
            self._file(first).remove()

    def _file(self, first: int) -> KeptArrays:
        return self.fit.beside(f"rows-{first}.npz", {"first": first, "rows_at_once": self.rows_at_once})


def _runs(arrays: dict[str, np.ndarray], member: int, device: torch.device) -> Runs:
    def part(name: str, what: str) -> Tensor:
        value = arrays.get(f"{member}/{name}/{what}", arrays.get(f"0/{name}/{what}"))
        assert value is not None
        return torch.from_numpy(value).to(device)

    prefix, ending = f"{member}/", "/gradient"
    names = [key[len(prefix) : -len(ending)] for key in arrays if key.startswith(prefix) and key.endswith(ending)]
    return {name: LayerRun(part(name, "inputs"), part(name, "gradient")) for name in names}
