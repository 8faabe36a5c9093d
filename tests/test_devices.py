"""Everything works on a device that mixes with no other and has no float64."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils import backend_registration

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch takes no devices that are written in Python",
)
def test_on_a_second_device():
    # A process of its own: torch takes a new kind of device only before its first backward pass.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/elsewhere_device/cases.py"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-4000:]
