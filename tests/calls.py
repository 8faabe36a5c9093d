"""How far a call travels in our code: `python -m tests.calls` prints a line of JSON for each call that is counted.

A newcomer who follows a call crosses every file that it visits; ARCHITECTURE.md says how many these may be.
"""

import contextlib
import csv
import inspect
import io
import json
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "turnover"
_WORDS = "good bad fine dull film plot cast slow warm cold".split()


def visited(call: Callable[[], Any]) -> dict[str, int]:
    """Return how many functions and files of the package a call visits, in all threads."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        # The body of a module or class runs once, when it is loaded; only functions are followed.
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a network that was never trained serves as well here
            call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    ours = {(code.co_filename, code.co_firstlineno) for code in seen if code.co_filename.startswith(f"{PACKAGE}/")}
    return {"functions": len(ours), "files": len({file for file, _ in ours})}


def _network() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3, bias=False))


def _wrapped() -> Any:
    import turnover

    return turnover.wrap(_network(), at=["1", "3"], replicas=8)


def _rows() -> tuple[Any, Any]:
    import torch

    return torch.randn(96, 20), torch.randint(0, 3, (96,))


def of_wrap() -> dict[str, int]:
    """Count `wrap` of a network of three layers with eight replicas."""
    import turnover

    wrap, network = turnover.wrap, _network()  # names load when they are first used, outside of the call
    return visited(lambda: wrap(network, at=["1", "3"], replicas=8))


def of_step() -> dict[str, int]:
    """Count one masked training step, not the first one."""
    import torch
    from torch.nn import functional

    import turnover

    (x, y), model = _rows(), _wrapped().train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        with turnover.instances(range(96)) as now:
            loss = functional.cross_entropy(model(x), now.repeat(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    return visited(step)


def of_pairwise() -> dict[str, int]:
    """Count the first question to a network of eight replicas."""
    from torch.utils.data import TensorDataset

    import turnover

    (x, y), model = _rows(), _wrapped().eval()
    data = turnover.with_instance_ids(TensorDataset(x, y))
    influence = turnover.Influence
    return visited(lambda: influence(model, train=data).pairwise((x[:5], y[:5]), progress=False))


def of_run() -> dict[str, int]:
    """Count `turnover run` on a table of 300 short texts."""
    import random

    from turnover.ui.terminal import main

    choose = random.Random(0)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        table = Path(folder, "reviews.csv")
        with table.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["text", "label"])
            for number in range(300):
                words = " ".join(choose.choices(_WORDS, k=8))
                rows.writerow(
                    [f"{words} {'lovely' if number % 2 else 'awful'} {number}", "pos" if number % 2 else "neg"]
                )
        sys.argv = [
            "turnover",
            "run",
            str(table),
            "--text",
            "text",
            "--label",
            "label",
            "--out",
            str(Path(folder, "run")),
        ]

        def run() -> None:
            with contextlib.suppress(SystemExit):
                main()

        counts = visited(run)
        assert (Path(folder, "run") / "run.json").exists(), "turnover run failed"
        return counts


def of_version() -> dict[str, int]:
    """Count what `turnover --version` and `--help` load, each in an interpreter of its own; torch is 0 or 1."""
    code = (
        "import sys; from turnover.ui.terminal import main\nsys.argv = ['turnover', sys.argv[1]]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sum(n.split('.')[0] == 'turnover' for n in sys.modules), int('torch' in sys.modules))"
    )
    counts = [
        subprocess.run([sys.executable, "-c", code, option], check=True, capture_output=True, text=True).stdout.split()[
            -2:
        ]
        for option in ("--version", "--help")
    ]
    return {"modules": max(int(modules) for modules, _ in counts), "torch": max(int(torch) for _, torch in counts)}


COUNTS = {"wrap": of_wrap, "step": of_step, "pairwise": of_pairwise, "run": of_run, "version": of_version}

if __name__ == "__main__":
    for name in sys.argv[1:] or COUNTS:
        print(json.dumps({"call": name, **COUNTS[name]()}))
