"""Two Ray workers beside two independent processes, one thread each: `python -m tests.ray.efficiency`.

The same pairs: two processes score one half of the ids each; the cluster has two CPUs and scores them all. They run by
turns, several times.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from ray.cluster_utils import Cluster

IDS, ROUNDS = 1_000_000, 3


def driver(folder: Path, address: str, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.ray.driver", str(folder), address, str(first), str(last), "10", "warm"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ)


def main() -> None:
    apart, together = [], []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 2, "object_store_memory": 200 * 2**20, "include_dashboard": False},
        )
        for number in range(ROUNDS):
            halves = [
                driver(Path(folder) / f"{number} {half}", "-", half * IDS // 2, (half + 1) * IDS // 2)
                for half in (0, 1)
            ]
            apart.append(max(float(half.communicate()[0]) for half in halves))
            whole = driver(Path(folder) / f"{number}", cluster.address, 0, IDS)
            together.append(float(whole.communicate()[0]))
            print(f"round {number + 1}: two processes {apart[-1]:.1f} s, two workers {together[-1]:.1f} s", flush=True)
        cluster.shutdown()
    print(f"efficiency: {median(a / b for a, b in zip(apart, together, strict=True)):.2f} (median of {ROUNDS})")


if __name__ == "__main__":
    main()
