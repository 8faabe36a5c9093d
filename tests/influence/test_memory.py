"""Peak memory of whole runs, measured in processes of their own."""

import os
import subprocess
import sys

import pytest

TOP = """
import resource, sys, torch, turnover
from torch import nn
from turnover.layers import masking_of
net = turnover.wrap(nn.Sequential(nn.Linear(16, 768), nn.ReLU(), nn.Linear(768, 10)), at=["1"])
masking_of(net).learned.passes = 1
count = int(sys.argv[1])
queries = torch.randn(count, 16), torch.arange(count) % 10
for instances in map(int, sys.argv[2:]):
    top = turnover.Influence(net).top(queries, k=10, ids=torch.arange(instances))
    assert top.path.startswith("last layer") and top.helpful_ids.shape == (count, 10)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

GENERIC = """
import resource, sys, torch, turnover
from torch import nn
from turnover.layers import masking_of
wide = 2048
net = nn.Sequential(nn.Linear(16, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 10))
net = turnover.wrap(net, at=["1", "3"])
masking_of(net).learned.passes = 1
queries = torch.randn(2, 16), torch.tensor([0, 1])
ids = range(int(sys.argv[1]))
turnover.Influence(net, memory=2**22).pairwise(queries, ids=ids[:2])  # what Python and torch take once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for memory in map(int, sys.argv[2:]):
    turnover.Influence(net, memory=memory).pairwise(queries, ids=ids)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def kib(script: str, *arguments: int) -> list[int]:
    # Pages that were freed go back at once: the peak is then what was in use.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


@pytest.mark.slow
def test_top_of_a_million_instances_and_a_hundred_queries_stays_below_2_gb():
    assert kib(TOP, 100, 1_000_000)[0] < 2 * 2**20


def test_top_does_not_grow_with_the_number_of_instances():
    few, many = kib(TOP, 20, 10_000, 60_000)
    assert many < few + 100 * 2**10


def test_the_generic_path_stays_within_the_users_limit():
    megabytes = 16, 64
    for limit, peak in zip(megabytes, kib(GENERIC, 600, *(limit * 2**20 for limit in megabytes)), strict=True):
        assert peak < limit * 2**10 * 1.15 + 4 * 2**10
