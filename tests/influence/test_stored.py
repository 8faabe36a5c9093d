"""Scores in a folder: resumed to the same bytes, rejected by name, mended where damaged."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("zarr", reason="needs the extra store")

import turnover
from tests.influence.models import mlp, trained
from turnover.errors import StoreError, StoreLockedError
from turnover.influence import TurnOver

IDS = range(60)

SCRIPT = """
import sys, torch
import turnover.influence._answers as answers
from turnover.influence.turnover_dropout import estimator
answers._IDS_PER_STORED_TILE = 50
estimator.QUERIES_PER_BLOCK = 3
from tests.influence.models import mlp, trained
torch.set_num_threads(1)
torch.manual_seed(0)
import turnover
model = trained(mlp(), at=["1", "3"])
queries = torch.randn(6, 6), torch.arange(6) % 3
turnover.Influence(model).pairwise(queries, ids=range(1500), out=sys.argv[1])
"""


def asked() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(5)
    return torch.randn(4, 6), torch.arange(4) % 3


def model(seed: int = 0):
    torch.manual_seed(1)
    return trained(mlp(), at=["1", "3"], seed=seed)


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr("turnover.influence._answers._IDS_PER_STORED_TILE", 16)
    monkeypatch.setattr("turnover.influence.turnover_dropout.estimator.QUERIES_PER_BLOCK", 3)


def content(folder: Path) -> dict[str, str]:
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and "lock" not in file.name]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_scores_in_a_folder_are_those_in_memory(tmp_path, small_tiles):
    inf = turnover.Influence(model())
    stored = inf.pairwise(asked(), ids=IDS, out=tmp_path / "scores")
    memory = inf.pairwise(asked(), ids=IDS)
    assert np.abs(stored.values - memory.values).max() < 1e-6
    assert np.allclose(stored.offset, memory.offset)
    assert np.allclose(stored.stderr, memory.stderr)
    assert stored.provenance == memory.provenance
    assert turnover.Scores.open(tmp_path / "scores").top(3).equals(stored.top(3))


def test_ensembles_store_their_standard_errors(tmp_path, small_tiles):
    inf = turnover.Influence([model(1), model(2), model(3)])
    stored = inf.pairwise(asked(), ids=IDS, out=tmp_path / "scores")
    assert np.allclose(stored.stderr, inf.pairwise(asked(), ids=IDS).stderr, atol=1e-6)
    assert stored.replicas == 3


def test_a_second_run_computes_nothing_and_changes_nothing(tmp_path, small_tiles):
    inf = turnover.Influence(model())
    inf.pairwise(asked(), ids=IDS, out=tmp_path / "scores")
    before = content(tmp_path)
    inf.pairwise(asked(), ids=IDS, out=tmp_path / "scores")
    assert content(tmp_path) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: turnover.Influence(model(seed=9)), "recipes"),
        (lambda: turnover.Influence(model(), estimator=TurnOver(against="full")), "options"),
        (lambda: turnover.Influence(model(), measure="margin"), "measure"),
        (lambda: turnover.Influence(model(), loss=lambda o, t: o[:, 0]), "loss"),
    ],
    ids=["seed", "option", "measure", "loss"],
)
def test_a_folder_of_other_work_is_refused_by_name(tmp_path, change, named):
    turnover.Influence(model()).pairwise(asked(), ids=IDS, out=tmp_path / "scores")
    before = content(tmp_path)
    with pytest.raises(StoreError, match=named):
        change().pairwise(asked(), ids=IDS, out=tmp_path / "scores")
    x, y = asked()
    with pytest.raises(StoreError, match="queries"):
        turnover.Influence(model()).pairwise((x + 1, y), ids=IDS, out=tmp_path / "scores")
    with pytest.raises(StoreError, match="ids"):
        turnover.Influence(model()).pairwise((x, y), ids=[*IDS[:-1], 77], out=tmp_path / "scores")
    assert content(tmp_path) == before


def test_a_function_is_known_by_its_code_and_constants_not_by_its_address(tmp_path):
    def loss_with(constant):
        return lambda outputs, targets: constant * outputs[:, 0]

    turnover.Influence(model(), loss=loss_with(2.0)).pairwise(asked(), ids=IDS, out=tmp_path / "scores")
    turnover.Influence(model(), loss=loss_with(2.0)).pairwise(asked(), ids=IDS, out=tmp_path / "scores")
    with pytest.raises(StoreError, match="loss"):
        turnover.Influence(model(), loss=loss_with(3.0)).pairwise(asked(), ids=IDS, out=tmp_path / "scores")


@pytest.mark.parametrize("damage", ["truncated", "byte"])
def test_a_damaged_tile_is_found_and_computed_again(tmp_path, small_tiles, damage):
    inf, folder = turnover.Influence(model()), tmp_path / "scores"
    inf.pairwise(asked(), ids=IDS, out=folder)
    before = content(folder)
    tile = max(
        file for file in (folder / "arrays" / "values").rglob("*") if "zarr.json" not in file.name and file.is_file()
    )
    data = bytearray(tile.read_bytes())
    if damage == "truncated":
        tile.write_bytes(data[: len(data) // 2])
    else:
        data[len(data) // 2] ^= 4
        tile.write_bytes(data)
    assert content(folder) != before
    inf.pairwise(asked(), ids=IDS, out=folder)
    assert content(folder) == before


def test_a_second_writer_is_refused_and_the_first_finishes(tmp_path, monkeypatch):
    from turnover.storage import TileStore

    mark, inf = TileStore.mark, turnover.Influence(model())

    def ask_again_while_writing(self, *arguments):
        with pytest.raises(StoreLockedError):
            inf.pairwise(asked(), ids=IDS, out=tmp_path / "scores")
        mark(self, *arguments)

    monkeypatch.setattr(TileStore, "mark", ask_again_while_writing)
    assert inf.pairwise(asked(), ids=IDS, out=tmp_path / "scores").shape == (60, 4)


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        turnover.Influence(model()).pairwise(asked(), ids=IDS, out=tmp_path / "file")


def run(folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", ".", os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder)], env=environment, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_run_killed_at_ten_random_moments_ends_with_the_same_bytes(tmp_path):
    whole = run(tmp_path / "whole")
    start = time.monotonic()
    assert whole.wait(timeout=300) == 0
    seconds = time.monotonic() - start
    rng = random.Random(7)
    for _ in range(10):
        killed = run(tmp_path / "killed")
        time.sleep(rng.uniform(0.5, 1.0) * seconds)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    last = run(tmp_path / "killed")
    assert last.wait(timeout=300) == 0
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_a_run_that_stopped_half_way_goes_on_with_the_same_bytes(tmp_path, small_tiles, monkeypatch):
    inf = turnover.Influence(model())
    inf.pairwise(asked(), ids=IDS, out=tmp_path / "whole")
    from turnover.storage import TileStore

    mark, count = TileStore.mark, 0

    def mark_three_then_stop(self, *arguments):
        nonlocal count
        count += 1
        if count > 3:
            raise KeyboardInterrupt
        mark(self, *arguments)

    monkeypatch.setattr(TileStore, "mark", mark_three_then_stop)
    with pytest.raises(KeyboardInterrupt):
        inf.pairwise(asked(), ids=IDS, out=tmp_path / "half")
    monkeypatch.setattr(TileStore, "mark", mark)
    with pytest.raises(StoreError, match="not finished"):
        turnover.Scores.open(tmp_path / "half")
    inf.pairwise(asked(), ids=IDS, out=tmp_path / "half")
    assert content(tmp_path / "half") == content(tmp_path / "whole")


def test_a_full_disk_is_said_clearly_and_the_folder_goes_on_when_there_is_room(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=False).returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        inf, ids = turnover.Influence(model()), range(60_000)
        with pytest.raises(StoreError, match=r"room|space"):
            inf.pairwise(asked(), ids=ids, out=disk / "scores")
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        stored = inf.pairwise(asked(), ids=ids, out=disk / "scores")
        assert stored.shape == (60_000, 4)
        assert np.isfinite(stored.values).all()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
