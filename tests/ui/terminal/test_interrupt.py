"""Ctrl-C in the middle of a training: code 130, a sentence, and a folder that resumes to the same result."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.ui.terminal.conftest import reviews

OPTIONS = "--hidden 64 --replicas 3 --epochs 20 --batch-size 8 --validation 0.2 --test 0.2".split()

# A shell that runs the tests in the background makes all its children deaf to Ctrl-C.
START = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from turnover.ui.terminal import main
main()
"""


def test_ctrl_c_leaves_a_folder_that_resumes_to_the_same_result(turnover_, tmp_path):
    (tmp_path / "reviews.csv").write_text(reviews(200))
    command = [sys.executable, "-c", START, "run", "reviews.csv", *OPTIONS]
    run = subprocess.Popen([*command, "--out", "CUT"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _wait_for(tmp_path / "CUT" / "inputs.json", run)
        time.sleep(0.2)  # into the training, which takes seconds
        run.send_signal(signal.SIGINT)
        out, heard = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == 130, heard
    assert out == ""
    assert "turnover run --config CUT/config.toml" in heard
    assert "Traceback" not in heard
    rejected_words = turnover_("explain", "CUT", "--errors")
    assert rejected_words.code == 2
    assert "is not finished" in rejected_words.err
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
