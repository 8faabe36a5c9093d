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

# VmHWM is the peak of this very program; ru_maxrss would start from that of the parent. Each source and each part of
# the measurement runs in a fork of its own, which starts from the memory in use: torch is imported once.
PROGRAM = """
import os, torch
from turnover.masks import Codebook, Counter, Stream, Volatile
torch.set_num_threads(1)

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

def growth_for_large_ids(source):
    peaks = []
    for limit in (10**4, 10**9):
        ids = torch.randint(limit, (256,), generator=torch.Generator().manual_seed(0))
        source.words(ids, [Stream("fc1", 768), Stream("fc2", 768, 0.25)])
        peaks.append(peak())
    return peaks[1] - peaks[0]

def growth_for_many_blocks(source):
    Volatile(block=16).words(torch.arange(64), [Stream("warm", 64, 0.25)])
    before = peak()
    source.words(torch.arange(12) * source.block, [Stream("fc1", 1024, 0.25), Stream("fc2", 1024)])
    return peak() - before

for measure, source in (
    (growth_for_large_ids, Counter()), (growth_for_large_ids, Volatile()), (growth_for_large_ids, Codebook()),
    (growth_for_many_blocks, Volatile(block=2**15)),
):
    if os.fork() == 0:
        print(measure(source), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def megabytes():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
        # Freed memory goes back at once, so the peak is that of what is in use at the same time.
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    return [float(line) for line in run.stdout.split()]


def test_peak_memory_is_the_same_for_ids_below_10_000_and_below_a_billion(megabytes):
    # A table for a billion ids would take 96 GB, one for their blocks alone 94 MB.
    assert len(megabytes) == 4
    assert max(megabytes[:3]) < 8, megabytes


def test_volatile_masks_hold_one_block_at_a_time_however_many_a_batch_touches(megabytes):
    # One block is 4 MB here; about five times that is promised. All 12 blocks would be 48 MB more.
    assert megabytes[3] < 6 * 4 + 8
