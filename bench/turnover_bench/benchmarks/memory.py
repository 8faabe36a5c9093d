"""Peak memory of a fresh process whose ids go up to 10^4 and up to 10^9."""

import resource
import subprocess
import sys

import torch
from torch import nn

import turnover

ROWS, STEPS = 512, 20


def _peak(most: int) -> int:
    """Return the peak memory in KiB of this process after some training steps with ids below `most`."""
    torch.manual_seed(0)
    model = turnover.wrap(nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)), at=["1"])
    for _ in range(STEPS):
        with turnover.instances(torch.randint(most, (ROWS,))):
            model(torch.randn(ROWS, 256)).sum().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(most: int) -> int:
    """Return the peak memory in KiB of a fresh process with ids below `most`."""
    command = [sys.executable, "-m", "turnover_bench.benchmarks.memory", str(most)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Print both peaks and their ratio."""
    small, large = measure(10**4), measure(10**9)
    print(f"peak memory, ids below 10^9 against ids below 10^4: {large / small:.3f}  ({large} against {small} KiB)")


if __name__ == "__main__":
    print(_peak(int(sys.argv[1]))) if len(sys.argv) > 1 else main()
