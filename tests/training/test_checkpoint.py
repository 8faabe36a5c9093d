"""A training that was stopped resumes from its file to the same weights, bit for bit."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_stopped_trainings_resume():
    # A process of its own: dropout draws from torch's one generator, which threads of other tests may use meanwhile.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/training/checkpoint_cases.py"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:]
