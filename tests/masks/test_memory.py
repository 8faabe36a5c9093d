"""Masks need memory for the batch, never for the data set."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
pytestmark = pytest.mark.skipif(
    not STATUS.exists() or "VmHWM" not in STATUS.read_text(),
    reason="peak memory is read from Linux's /proc",
)

# VmHWM is the peak of this very program; ru_maxrss would start from that of the parent.
PRELUDE = """
import sys, torch
from turnover.masks import Codebook, Counter, Stream, Volatile
torch.set_num_threads(1)
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
"""

IDS_BELOW = """
for source in (Counter(), Volatile(), Codebook()):
    for limit in sys.argv[1:]:
        ids = torch.randint(int(limit), (256,), generator=torch.Generator().manual_seed(0))
        source.words(ids, [Stream("fc1", 768), Stream("fc2", 768, 0.25)])
        print(peak())
"""

MANY_BLOCKS = """
blocks, block, width = int(sys.argv[1]), 2**15, 1024
source = Volatile(block=block)
Volatile(block=16).words(torch.arange(64), [Stream("warm", 64, 0.25)])
before = peak()
source.words(torch.arange(blocks) * block, [Stream("fc1", width, 0.25), Stream("fc2", width)])
print(peak() - before)
"""


def megabytes(code, *arguments):
    run = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
        # Freed memory goes back at once, so the peak is that of what is in use at the same time.
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    return [float(line) for line in run.stdout.split()]


def test_peak_memory_is_the_same_for_ids_below_10_000_and_below_a_billion():
    # A table for a billion ids would take 96 GB, one for their blocks alone 94 MB.
    peaks = megabytes(IDS_BELOW, 10**4, 10**9)
    few, many = peaks[::2], peaks[1::2]
    assert len(few) == len(many) == 3
    assert all(b - a < 8 for a, b in zip(few, many, strict=True)), (few, many)


def test_volatile_masks_hold_one_block_at_a_time_however_many_a_batch_touches():
    # One block is 4 MB here; about five times that is promised. All 12 blocks would be 48 MB more.
    (growth,) = megabytes(MANY_BLOCKS, 12)
    assert growth < 6 * 4 + 8, growth
