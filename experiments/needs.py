"""What a size of an experiment needs, checked before anything is written."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from turnover.errors import TurnOverError

_GB = 1e9


class TooSmallError(TurnOverError, OSError):
    """The machine has too little disk or memory for a size."""


@dataclass(frozen=True)
class Needs:
    """What a run needs at its height, in gigabytes, and about how many hours it takes on two cores.

    Attributes:
        disk: free in the folder of the run.
        memory: of the machine.
        hours: about, on two cores.
    """

    disk: float = 0.0
    memory: float = 0.0
    hours: float = 0.0


def check(needs: Needs, out: Path, *, name: str, size: str) -> None:
    """Refuse a run for which disk or memory do not suffice.

    Raises:
        TooSmallError: it says how much is there, how much is needed and what to do.
    """
    there = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
    free, memory = shutil.disk_usage(there).free / _GB, _memory()
    problems = []
    if free < needs.disk:
        problems.append(
            f"{there} has {free:.1f} GB free and the run needs {needs.disk:.1f} GB: give a folder on a larger disk "
            "with --out DIR"
        )
    if memory is not None and memory < needs.memory:
        problems.append(f"this machine has {memory:.1f} GB of memory and the run needs {needs.memory:.1f} GB")
    if problems:
        raise TooSmallError(f"{name} SIZE={size} cannot run here: {'; '.join(problems)}. Smaller: SIZE=small.")


def _memory() -> float | None:
    """Return the memory of this machine in gigabytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GB
    except (AttributeError, ValueError, OSError):
        return None
