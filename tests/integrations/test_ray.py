"""Tiles on a Ray cluster of one small node; tests/ray has three nodes, of which one is killed."""

import pytest
import torch
from torch import nn

pytest.importorskip("ray", reason="needs ray: pip install 'turnover[ray]'")
pytest.importorskip("zarr", reason="needs zarr: pip install 'turnover[store]'")

pytest.importorskip("typer", reason="needs typer: pip install 'turnover[cli]'")

import numpy as np
import ray
from ray import cloudpickle
from ray.cluster_utils import Cluster
from typer.testing import CliRunner

import turnover
from turnover.errors import InfluenceError, StoreLockedError
from turnover.influence import packed
from turnover.integrations import RayExecutor
from turnover.runs import RunConfig, start_run
from turnover.ui.terminal.app import make_app

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*RAY_ACCEL_ENV.*:FutureWarning")


@pytest.fixture(scope="module")
def cluster():
    options = {"num_cpus": 2, "object_store_memory": 100 * 2**20, "include_dashboard": False, "log_to_driver": False}
    ray.init("local", **options)
    yield RayExecutor()
    ray.shutdown()


def queries():
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(5)), torch.arange(4) % 3


def wrapped() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    model = turnover.wrap(net, at=["1", "3"])
    with turnover.instances(range(4)):
        model(queries()[0])
    return model


def content(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_a_cluster_gives_the_bytes_of_one_process(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("turnover.influence._answers._IDS_PER_STORED_TILE", 32)
    model, factor = wrapped(), 2.0
    options = {"measure": lambda outputs, targets: factor * outputs[:, 0], "ids": range(96)}  # a closure travels
    ids = options.pop("ids")
    alone, together = (turnover.Influence(model, executor=one, **options) for one in (None, cluster))
    alone.pairwise(queries(), ids=ids, out=tmp_path / "alone")
    together.pairwise(queries(), ids=ids, out=tmp_path / "together")
    assert content(tmp_path / "together") == content(tmp_path / "alone")
    assert together.top(queries(), k=3, ids=ids).equals(alone.top(queries(), k=3, ids=ids))


def test_a_second_driver_on_one_folder_says_so(cluster, tmp_path):
    inf, other = turnover.Influence(wrapped(), executor=cluster), turnover.Influence(wrapped())
    seen = []

    def ask_again(folder: str) -> None:
        with pytest.raises(StoreLockedError, match="is being written by the process with pid"):
            other.pairwise(queries(), ids=range(8), out=folder)
        seen.append(folder)

    with pytest.MonkeyPatch.context() as patch:
        other = inf  # the same question, so that only the lock is in the way
        patch.setattr(RayExecutor, "check_folder", lambda self, folder: ask_again(folder) if not seen else None)
        inf.pairwise(queries(), ids=range(8), out=tmp_path / "scores")
    assert seen


def test_an_error_in_a_task_arrives_as_it_is(cluster):
    def reciprocal(item: int) -> float:
        return 1 / item

    with pytest.raises(ZeroDivisionError):
        list(cluster.map(reciprocal, [1, 0, 2]))


def test_workers_of_another_version_are_named_before_the_work(cluster, monkeypatch):
    monkeypatch.setattr("turnover.integrations.ray_executor._versions", lambda: {"turnover": "9.9", "torch": "1.0"})
    inf = turnover.Influence(wrapped(), executor=RayExecutor())
    with pytest.raises(InfluenceError, match=r"has turnover .*, this process 9\.9\n.*has torch .*, this process 1\.0"):
        inf.pairwise(queries(), ids=range(8))


def test_a_node_without_memory_is_named_before_the_work(cluster):
    inf = turnover.Influence(wrapped(), executor=cluster, memory=2**50)
    with pytest.raises(InfluenceError, match=r"no node of the Ray cluster can run a task: a task needs .*GiB"):
        inf.pairwise(queries(), ids=range(8))


def test_a_folder_that_nodes_do_not_see_is_rejected(cluster, tmp_path, monkeypatch):
    # Where the driver writes its token, no node looks.
    monkeypatch.setattr(
        "turnover.integrations.ray_executor.open_folder", lambda folder: turnover.storage.open_folder(tmp_path / "here")
    )
    (tmp_path / "here").mkdir()
    with pytest.raises(InfluenceError, match=r"is not one that all nodes share:\n  node .*cannot be seen"):
        cluster.check_folder(str(tmp_path / "there"))
    assert list((tmp_path / "here").iterdir()) == []


def test_a_run_is_scored_on_a_cluster_as_in_one_process(cluster, tmp_path):
    numbers = np.random.default_rng(0).normal(size=(80, 3))
    lines = [f"{a},{b},{c},{'yes' if a + b > 0 else 'no'}" for a, b, c in numbers]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,c,label", *lines]))
    config = RunConfig(data=str(tmp_path / "table.csv"), label="label", epochs=3, replicas=3, hidden=16)
    alone = start_run(config, tmp_path / "alone")
    together = start_run(config, tmp_path / "together", executor=cluster)
    assert np.array_equal(together.mean_influence.values, alone.mean_influence.values)
    queries = alone.data("validation")
    assert together.influence.top(queries, k=3).equals(alone.influence.top(queries, k=3))


def test_a_command_names_an_address_without_a_cluster(tmp_path):
    ray.shutdown()
    answer = CliRunner().invoke(make_app(), ["explain", str(tmp_path), "--errors", "--ray", "127.0.0.1:1"])
    assert answer.exit_code != 0
    assert "cannot connect to a Ray cluster at 127.0.0.1:1" in " ".join(f"{answer.output}{answer.exception}".split())


def test_a_cluster_that_is_connected_is_found_again_by_the_address_it_was_given_by():
    ray.shutdown()
    options = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=options)
    address = f"localhost:{started.address.rpartition(':')[2]}"
    try:
        RayExecutor(address)
        RayExecutor(address)  # a cell of a notebook that runs again
        RayExecutor(started.address)
        with pytest.raises(InfluenceError, match=r"is connected to the Ray cluster at .*, not to localhost:1"):
            RayExecutor("localhost:1")
    finally:
        ray.shutdown()
        started.shutdown()


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "Errno 111"), ("nowhere", "an address is host:port")],
)
def test_an_address_without_a_cluster_is_named(address, message):
    ray.shutdown()
    with pytest.raises(InfluenceError, match=rf"cannot connect to a Ray cluster at {address} .*{message}"):
        RayExecutor(address)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, r"RayExecutor\(threads=\) must be an integer >= 1, got 0"),
        ({"address": 6379}, r"RayExecutor\(address=\) must be a string, got 6379\. Give 'host:6379'"),
    ],
    ids=str,
)
def test_wrong_options_are_named_before_anything_connects(options, message):
    with pytest.raises(InfluenceError, match=message):
        RayExecutor(**options)


def test_a_range_of_ids_travels_without_all_others():
    part = torch.arange(100_000)[:100]
    assert len(packed([part], pickler=cloudpickle.Pickler)) < 4 * part.nbytes
