"""One launch of torchrun for all cells, and their table at the end."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.models import WORLD

WORKER = Path(__file__).parent / "worker.py"
PATIENCE = 900  # seconds
COLUMNS = ("outputs", "gradients", "weights", "saved", "state dict", "checkpoint", "audit", "scores")
TABLE = pytest.StashKey[list[str]]()

Results = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Results]:
    """What each process measured: of every group and cell the largest differences from one process."""
    folder, root = tmp_path_factory.mktemp("distributed"), WORKER.parents[2]
    variables = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={WORLD}", "--standalone", str(WORKER)]
    done = subprocess.run(
        [*command, str(folder)], env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    measured: list[Results] = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(WORLD)]
    request.config.stash[TABLE] = list(_table(measured))
    return measured


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    lines = config.stash.get(TABLE, [])
    if lines:
        terminalreporter.section(f"largest difference from one process, {WORLD} processes")
        for line in lines:
            terminalreporter.write_line(line)


def _table(measured: list[Results]) -> Any:
    width = max(len(name) for cells in measured[0].values() for name in cells)
    for group, cells in measured[0].items():
        columns = [column for column in COLUMNS if any(column in cell["differences"] for cell in cells.values())]
        yield ""
        yield f"{group:{width}}" + "".join(f"{column:>12}" for column in [*columns, "seconds"])
        for name in cells:
            ranks = [part[group][name] for part in measured]
            if any(cell["error"] for cell in ranks):
                yield f"{name:{width}}  FAILED"
                continue
            largest = [max(cell["differences"].get(column, -1) for cell in ranks) for column in columns]
            shown = ["" if value < 0 else f"{value:.0e}" if value else "0" for value in largest]
            yield f"{name:{width}}" + "".join(f"{text:>12}" for text in [*shown, f"{ranks[0]['seconds']:.1f}"])
