"""Peak memory of whole runs, measured in processes of their own."""

import os
import subprocess
import sys

import pytest

TOP = """
import resource, sys, torch, turnover
from torch import nn
from turnover.layers.root import masking_of
net = turnover.wrap(nn.Sequential(nn.Linear(16, 768), nn.ReLU(), nn.Linear(768, 10)), at=["1"])
masking_of(net).learned.passes = 1
queries = torch.randn(100, 16), torch.arange(100) % 10
top = turnover.Influence(net).top(queries, k=10, ids=torch.arange(int(sys.argv[1])))
assert top.path.startswith("last layer") and top.helpful_ids.shape == (100, 10)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

GENERIC = """
import resource, sys, torch, turnover
from torch import nn
from turnover.layers.root import masking_of
wide = 4096
net = nn.Sequential(nn.Linear(16, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 10))
net = turnover.wrap(net, at=["1", "3"])
masking_of(net).learned.passes = 1
queries = torch.randn(2, 16), torch.tensor([0, 1])
ids, memory = range(int(sys.argv[1])), int(sys.argv[2])
engine = turnover.Influence(net, memory=memory)
engine.pairwise(queries, ids=ids[:2])  # what Python and torch take once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
engine.pairwise(queries, ids=ids)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def kib(script: str, *arguments: int) -> int:
    # Pages that were freed go back at once: the peak is then what was in use.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.slow
def test_top_of_a_million_instances_and_a_hundred_queries_stays_below_2_gb():
    assert kib(TOP, 1_000_000) < 2 * 2**20


def test_top_does_not_grow_with_the_number_of_instances():
    few, many = kib(TOP, 20_000), kib(TOP, 100_000)
    assert many < few + 100 * 2**10


@pytest.mark.parametrize("megabytes", [16, 64])
def test_the_generic_path_stays_within_the_users_limit(megabytes):
    assert kib(GENERIC, 1500, megabytes * 2**20) < megabytes * 2**10 * 1.15 + 4 * 2**10
