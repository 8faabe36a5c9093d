"""The training of a run."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover.applications import ClassLabels
from turnover.errors import TrainingError, TurnOverWarning
from turnover.runs import RunConfig, training
from turnover.runs.tasks import Classification, _class_weights
from turnover.runs.training import fit
from turnover.wrapping import replica_models

SETTINGS = RunConfig("rows.csv", epochs=3, batch_size=16, learning_rate=1e-2, weight_decay=0.0, seed=3)

TASK = Classification(ClassLabels(np.empty(0), ("no", "yes")), None)


def _rows(count=64):
    torch.manual_seed(1)
    x = torch.randn(count + 20, 5)
    y = (x[:, 0] > 0).long()
    return (x[:count], y[:count], torch.arange(count)), (x[count:], y[count:])


def _model(replicas=2):
    torch.manual_seed(2)
    plain = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 2, bias=False))
    return turnover.wrap(plain, at=["1"], replicas=replicas)


class _CutOffError(Exception):
    pass


def test_an_interrupted_training_ends_with_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "_SAVE_EVERY", -1.0)
    whole = _model()
    curves = fit(whole, TASK, *_rows(), SETTINGS)
    saved = tmp_path / "training.pt"

    def cut_off(stage, done, total, note=""):
        if done == 12:  # of 15: in the third epoch
            raise _CutOffError

    with pytest.raises(_CutOffError):
        fit(_model(), TASK, *_rows(), SETTINGS, saved=saved, watch=cut_off)
    resumed, seen = _model(), []
    again = fit(
        resumed, TASK, *_rows(), SETTINGS, saved=saved, watch=lambda stage, done, total, note="": seen.append(done)
    )
    assert seen[0] == 11  # two epochs of four batches and a look at all rows were kept
    assert again == curves
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


@pytest.mark.parametrize("damage", ["half", "flipped"])
def test_a_training_starts_over_where_its_saved_state_is_damaged(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(training, "_SAVE_EVERY", -1.0)
    saved = tmp_path / "training.pt"
    fit(_model(), TASK, *_rows(), SETTINGS, saved=saved)
    content = bytearray(saved.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    saved.write_bytes(content[: len(content) // 2] if damage == "half" else content)
    whole, again = _model(), _model()
    fit(whole, TASK, *_rows(), SETTINGS)
    with pytest.warns(TurnOverWarning, match="is damaged: the training starts over"):
        fit(again, TASK, *_rows(), SETTINGS, saved=saved)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in whole.state_dict().items())


@pytest.mark.parametrize(("replicas", "count"), [(1, 64), (2, 64), (1, 10)])
def test_a_network_with_batch_norm_has_the_statistics_of_its_full_view_after_training(replicas, count):
    torch.manual_seed(2)
    plain = nn.Sequential(
        nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2, bias=False)
    )
    model, (train, validation) = turnover.wrap(plain, at=["1", "4"], replicas=replicas), _rows(count)
    fit(model, TASK, train, validation, SETTINGS)
    found = [one[3].running_var.clone() for one in replica_models(model)]
    turnover.recalibrate(model, DataLoader(TensorDataset(*train[:2]), SETTINGS.batch_size))
    for one, variance in zip(replica_models(model), found, strict=True):
        torch.testing.assert_close(one[3].running_var, variance)
    assert not model.training


def test_curves_tell_the_loss_of_the_flipped_subnetwork():
    torch.manual_seed(0)
    (x, _, ids), validation = _rows()
    noise = x, torch.randint(0, 2, (64,)), ids
    curves = fit(_model(), TASK, noise, validation, replace(SETTINGS, epochs=60, seed=0))
    assert curves.keep[-1] < 0.3  # memorized
    assert curves.flip[-1] > 0.6  # labels are random: nobody can know them
    assert len(curves.validation) == len(curves.accuracy) == 60


def test_a_training_that_diverges_says_so():
    (x, *others), validation = _rows()
    with pytest.raises(TrainingError, match=r"diverged in epoch 1.*--learning-rate"):
        fit(_model(), TASK, (x * float("inf"), *others), validation, SETTINGS)


def test_rare_classes_count_as_much_as_frequent_ones():
    weights = _class_weights(np.array([0] * 90 + [1] * 10), 2)
    assert weights is not None
    assert float(weights[0] * 90) == pytest.approx(float(weights[1] * 10))
    assert _class_weights(np.array([0, 1] * 10), 2) is None
