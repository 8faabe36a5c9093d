"""Memory of freed tensors is kept, so that later ones cost no new pages."""

import ctypes
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc"
)

_FAULTS = """
import resource
import sys

import torch

from turnover_bench.experiments.timing import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(15):
    torch.ones(16_000_000)
before = faults()
for _ in range(5):
    torch.ones(16_000_000)
print(faults() - before)
"""


def test_freed_memory_is_kept_for_the_next_tensors():
    given_back, kept = (
        int(subprocess.run([sys.executable, "-c", _FAULTS, how], capture_output=True, text=True, check=True).stdout)
        for how in ("give back", "keep")
    )
    assert kept < given_back / 10
