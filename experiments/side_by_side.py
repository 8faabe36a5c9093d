"""Several experiments at a time, a process and a thread each; those that measure time run alone."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .runner import module_of


def longest_first(names: Sequence[str], results: Path) -> list[str]:
    """Return the names in the order of how long each took last, so that no long one is left to run by itself.

    Args:
        names: of the experiments.
        results: folder of published records; who has none there goes first.
    """

    def seconds(name: str) -> float:
        file = results / f"{name}.json"
        return json.loads(file.read_text(encoding="utf-8"))["seconds"] if file.exists() else float("inf")

    return sorted(names, key=lambda name: (-seconds(name), name))


def run_side_by_side(
    names: Sequence[str], *, size: str, jobs: int, runs: Path, tell: Callable[[str], None] = print
) -> list[str]:
    """Run experiments as commands of their own and return the names of those that failed.

    Args:
        names: of the experiments.
        size: of all of them.
        jobs: how many at a time; those whose config.py says `ALONE = True` have the machine to themselves.
        runs: folder for their runs, NAME-SIZE each, and in logs/ for what each says.
        tell: gets a line when an experiment begins and ends.
    """
    logs = runs / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    alone = [name for name in names if getattr(module_of(name, "config"), "ALONE", False)]
    together = [name for name in names if name not in alone]
    count = 0

    def one(name: str) -> bool:
        nonlocal count
        log, start = logs / f"{name}-{size}.log", time.monotonic()
        tell(f"{name} begins; it tells its progress in {log}")
        with log.open("w", encoding="utf-8") as file:
            command = [sys.executable, "-m", "experiments", name, "--size", size, "--out", str(runs / f"{name}-{size}")]
            # One thread each: two processes on two cores, not four threads.
            code = subprocess.run(
                command, stdout=file, stderr=file, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
            ).returncode
        count += 1
        how = "as expected" if code == 0 else f"not as expected, see {log}"
        tell(f"[{count}/{len(names)}] {name}: {(time.monotonic() - start) / 60:.1f} min, {how}")
        return code == 0

    with ThreadPoolExecutor(1) as pool:
        done = dict(zip(alone, pool.map(one, alone), strict=True))
    with ThreadPoolExecutor(jobs) as pool:
        done |= dict(zip(together, pool.map(one, together), strict=True))
    return [name for name in names if not done[name]]
