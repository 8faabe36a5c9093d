"""Three nodes on this machine: a killed node, a killed driver, two drivers on one folder; the same bytes always."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs ray: pip install 'turnover[ray]'")
pytest.importorskip("zarr", reason="needs zarr: pip install 'turnover[store]'")

from ray.cluster_utils import Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*RAY_ACCEL_ENV.*:FutureWarning"),
]

IDS = 1_000_000
TILES = -(-IDS // 4096)
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "memory": 2 * 2**30}


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    made.add_node(**NODE)
    made.add_node(**NODE)
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("alone") / "scores"
    assert start(folder, "-").wait() == 0
    return content(folder)


def start(folder: Path, address: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.ray.driver", str(folder), address, "0", str(IDS), "3"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def tiles_done(folder: Path) -> int:
    file = folder / "tiles.json"
    return len(json.loads(file.read_bytes())["tiles"]) if file.exists() else 0


def wait_for(folder: Path, share: float, driver: subprocess.Popen[str]) -> int:
    """Return how many tiles are done, once that is a share of all."""
    while True:
        assert driver.poll() is None, driver.communicate()[1]
        done = tiles_done(folder)
        if done >= share * TILES:
            return done
        time.sleep(0.02)


def test_a_node_that_is_killed_costs_its_running_tiles_only(cluster, alone, tmp_path):
    driver = start(tmp_path / "scores", cluster.address)
    done = wait_for(tmp_path / "scores", 0.2, driver)
    lost = cluster.list_all_nodes()[-1]
    cluster.remove_node(lost, allow_graceful=False)
    assert done < 0.9 * TILES, "nothing was left to do"
    assert driver.wait() == 0, driver.communicate()[1]
    assert content(tmp_path / "scores") == alone
    cluster.add_node(**NODE)


def test_a_driver_that_is_killed_and_started_again_goes_on(cluster, alone, tmp_path):
    folder = tmp_path / "scores"
    driver = start(folder, cluster.address)
    wait_for(folder, 0.3, driver)
    driver.send_signal(signal.SIGSTOP)  # so that it does not finish before the second one comes
    second = start(folder, cluster.address)
    assert second.wait() != 0
    assert f"is being written by the process with pid {driver.pid} " in second.communicate()[1]
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    written = {
        file: file.stat().st_mtime_ns for file in (folder / "arrays" / "values" / "c").rglob("*") if file.is_file()
    }
    done = tiles_done(folder)
    assert 0.3 * TILES <= done < TILES
    third = start(folder, cluster.address)
    assert third.wait() == 0, third.communicate()[1]
    assert content(folder) == alone
    kept = sum(file.stat().st_mtime_ns == before for file, before in written.items())
    assert kept >= done, "finished tiles were computed again"
