"""A recorded training is the same in memory and in a folder, and a folder of another training is rejected."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bench.tests.baselines.builders import QUERIES, ROWS, X, Y, cross_entropy, decaying, recipe, sgd
from turnover.errors import StoreDamagedError, StoreError
from turnover.training import TrainingRecipe
from turnover_bench.baselines.hara2019 import SgdInfluence
from turnover_bench.errors import BaselineError

pytest.importorskip("zarr", reason="needs the extra store")


def test_a_folder_gives_the_same_scores_and_is_opened_again(tmp_path, monkeypatch):
    monkeypatch.setattr("turnover_bench.baselines.hara2019._BLOCK_BYTES", 5 * 32 * 8)
    plan = recipe(optimizer=sgd(momentum=0.9))
    memory, disk = SgdInfluence.train(plan, seed=2), SgdInfluence.train(plan, seed=2, folder=tmp_path / "run")
    again = SgdInfluence.open(plan, tmp_path / "run")
    for other in (disk, again):
        np.testing.assert_array_equal(other.pairwise(QUERIES).values, memory.pairwise(QUERIES).values)
    files = sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert again.storage_bytes == disk.storage_bytes == files > memory.storage_bytes == 17 * 32 * 8
    trained = plan.fit(seed=2)
    assert all(torch.equal(a, b) for a, b in zip(trained.parameters(), again.model.parameters(), strict=True))
    assert not again.model.training
    called = []
    monkeypatch.setattr(TrainingRecipe, "fit", lambda *_, **__: called.append(1))
    SgdInfluence.train(plan, seed=2, folder=tmp_path / "run")
    assert not called


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"inputs": X + 1}, "inputs"),
        ({"targets": 1 - Y}, "targets"),
        ({"ids": torch.arange(ROWS)}, "ids"),
        ({"epochs": 3}, "epochs, optimizer or schedule"),
        ({"batch_size": 5}, "batch size, optimizer or schedule"),
        ({"optimizer": sgd(lr=0.2)}, "optimizer or schedule"),
        ({"schedule": decaying}, "optimizer or schedule"),
        ({"build": lambda: nn.Linear(3, 2).double()}, "initial parameters"),
        ({"loss": lambda outputs, targets: 2 * cross_entropy(outputs, targets)}, "another loss or model"),
    ],
)
def test_a_folder_of_another_recipe_or_other_data_is_rejected_by_name(tmp_path, changes, named):
    SgdInfluence.train(recipe(), folder=tmp_path)
    with pytest.raises(StoreError, match=named):
        SgdInfluence.open(recipe(**changes), tmp_path)


def test_a_training_that_was_cut_off_does_not_count_and_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("turnover_bench.baselines.hara2019._BLOCK_BYTES", 3 * 32 * 8)
    plan = recipe()
    calls = []

    def fails(outputs, targets):
        calls.append(1)
        if len(calls) > 10:
            raise KeyboardInterrupt
        return cross_entropy(outputs, targets)

    with pytest.raises(KeyboardInterrupt):
        SgdInfluence.train(replace(plan, loss=fails), folder=tmp_path)
    with pytest.raises(BaselineError, match=r"interrupted: 3 of 6 blocks .* Run SgdInfluence.train"):
        SgdInfluence.open(plan, tmp_path)
    whole = SgdInfluence.train(plan, folder=tmp_path)
    np.testing.assert_array_equal(whole.mean(QUERIES).values, SgdInfluence.train(plan).mean(QUERIES).values)


def test_missing_and_damaged_steps_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("turnover_bench.baselines.hara2019._BLOCK_BYTES", 3 * 32 * 8)
    influence = SgdInfluence.train(recipe(), folder=tmp_path)
    block = tmp_path / "arrays" / "parameters" / "c.2.0"
    content = block.read_bytes()
    block.write_bytes(bytes(len(content)))
    with pytest.raises(StoreDamagedError, match="steps from 6 on"):
        SgdInfluence.open(recipe(), tmp_path).mean(QUERIES)
    block.unlink()
    with pytest.raises(StoreDamagedError, match=r"parameters/c\.2\.0"):
        SgdInfluence.open(recipe(), tmp_path)
    with pytest.raises(StoreDamagedError, match=r"steps from 6 on .*c\.2\.0 is missing"):
        influence.mean(QUERIES)
