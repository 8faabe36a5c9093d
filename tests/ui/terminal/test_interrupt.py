"""Ctrl-C in the middle of a training: code 130, a sentence, and a folder that resumes to the same result."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.ui.small_runs import reviews
from tests.ui.terminal.conftest import Said, call_turnover, rejected
from turnover.ui.terminal.command import Bars

OPTIONS = "--hidden 64 --replicas 3 --epochs 20 --batch-size 8 --validation 0.2 --test 0.2".split()

# A shell that runs the tests in the background makes all its children deaf to Ctrl-C.
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from turnover.ui.terminal import main
main()
"""


def _stopped_here(*arguments: str) -> Said:
    """Call the command line in this process, with Ctrl-C after a few steps of the training."""
    draw = Bars.__call__

    def stop(self: Bars, stage: str, done: int, total: int, note: str = "") -> None:
        draw(self, stage, done, total, note)
        if stage == "training" and done == 5:
            signal.raise_signal(signal.SIGINT)

    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Bars, "__call__", stop)
            return call_turnover(*arguments)
    finally:
        signal.signal(signal.SIGINT, former)


def _stopped_in_a_process(*arguments: str) -> Said:
    command = [sys.executable, "-c", START, *arguments]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _wait_for(Path("CUT/inputs.json"), run)
        time.sleep(0.2)  # into the training, which takes seconds
        run.send_signal(signal.SIGINT)
        out, heard = run.communicate(timeout=120)
    finally:
        run.kill()
    return Said(run.returncode, out, heard)


@pytest.mark.parametrize(
    ("stopped", "rows"), [(_stopped_here, 60), pytest.param(_stopped_in_a_process, 200, marks=pytest.mark.slow)]
)
def test_ctrl_c_leaves_a_folder_that_resumes_to_the_same_result(turnover_, tmp_path, stopped, rows):
    (tmp_path / "reviews.csv").write_text(reviews(rows))
    said = stopped("run", "reviews.csv", *OPTIONS, "--out", "CUT")
    assert said.code == 130, said.err
    assert said.out == ""
    assert "turnover run --config CUT/config.toml" in said.err
    assert "Traceback" not in said.err
    rejected(turnover_("explain", "CUT", "--errors"), "is not finished")
    assert turnover_("run", "--config", "CUT/config.toml").code == 0
    assert turnover_("run", "reviews.csv", *OPTIONS, "--out", "WHOLE").code == 0
    cut, whole = (np.load(tmp_path / name / "scores" / "self.npz")["values"] for name in ("CUT", "WHOLE"))
    np.testing.assert_array_equal(cut, whole)


def _wait_for(file: Path, process: subprocess.Popen[str], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, f"{file} did not come; {os.listdir(file.parent.parent)}"
        time.sleep(0.05)
