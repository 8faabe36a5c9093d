"""The comparison of all methods: it runs, resumes, and its page says what the numbers say."""

import numpy as np
import pytest
import torch

from turnover.training import TrainingRecipe
from turnover_bench.baselines import LeaveOneOut
from turnover_bench.experiments.compared.experiment import NAMES, ONCE, SIZES, Retrain, TaskConfig, prepare

# Twenty rows are few for the engine's check that they were trained under these ids.
TOY = SIZES["toy"]


def test_every_method_is_measured_by_both_ground_truths(toy):
    task = toy.result["tasks"]["digits"]
    assert task["wrong"] == 2
    for view in ("plain", "full"):
        found = task[view]["methods"]
        assert set(found) == set(NAMES)
        for key, figures in found.items():
            assert figures["problems"] == {}
            assert figures["seeds"] == (1 if key in ONCE else TOY.seeds)
            assert figures["lds_low"] <= figures["lds"] <= figures["lds_high"]
            assert figures["lds"] == pytest.approx(np.mean(figures["lds_by_seed"]))
            for share in ("self_auc", "self_found", "mean_auc", "mean_found", "brittleness"):
                assert 0 <= figures[share] <= 1
            assert figures["build_seconds"] + figures["score_seconds"] > 0
        # An ensemble keeps its members.
        assert found["turnover_several"]["storage_bytes"] > 1.5 * found["turnover"]["storage_bytes"]
    assert task["plain"]["methods"]["koh"]["lds"] != task["full"]["methods"]["koh"]["lds"]


def test_plain_and_masked_training_start_from_the_same_weights_and_masks_follow_their_seed(tmp_path):
    ready = prepare(TaskConfig("digits", rows=20, queries=2, hidden=8, layers=2), tmp_path)
    torch.manual_seed(0)
    plain = ready.plain.build()
    torch.manual_seed(0)
    masked = ready.masked().build()
    assert torch.equal(plain.state_dict()["2.weight"], masked.state_dict()["2.weight"])
    assert ready.wrong.sum() == 2
    one, other, same = (ready.masked(seed).fit(seed=0).state_dict()["0.weight"] for seed in (1, 2, 1))
    assert not torch.equal(one, other)
    assert torch.equal(one, same)


def test_retraining_once_for_rows_and_queries_equals_leave_one_out_asked_twice_and_resumes(tmp_path, monkeypatch):
    ready = prepare(TaskConfig("digits", rows=8, queries=2, hidden=8, epochs=2), tmp_path)
    method, twin = Retrain(ready.plain, 3, tmp_path / "kept"), LeaveOneOut(ready.plain, seeds=(3,))
    found = method.pairwise(ready.queries)
    np.testing.assert_allclose(found, twin.pairwise(ready.queries).values, atol=1e-6)
    np.testing.assert_allclose(method.self_influence(), twin.self_influence().values, atol=1e-6)
    monkeypatch.setattr(TrainingRecipe, "fit", None)  # a resumed run trains none again
    np.testing.assert_array_equal(Retrain(ready.plain, 3, tmp_path / "kept").pairwise(ready.queries), found)
