"""Weights that other processes hold are never taken for whole ones; several processes: tests/distributed."""

import copy

import pytest
import torch
from torch import nn

import turnover
from tests.layers.models import both_kinds
from turnover.errors import ModelError
from turnover.layers import whole_model, whole_tensor


def test_a_model_of_one_process_is_not_copied():
    model = both_kinds()
    assert whole_model(model) is model
    weight = next(model.parameters())
    assert whole_tensor(weight) is weight


@pytest.mark.parametrize(
    "use",
    [
        turnover.save,
        lambda model, folder: turnover.Influence(model),
        lambda model, folder: turnover.audit(model, (torch.zeros(2, 6), torch.zeros(2, 3), [0, 1])),
        lambda model, folder: turnover.unwrap(model),
    ],
    ids=["save", "Influence", "audit", "unwrap"],
)
def test_weights_that_deepspeed_has_spread_are_rejected_before_anything_is_written(use, tmp_path):
    model = both_kinds()
    for parameter in model.parameters():
        parameter.ds_id = 0  # what ZeRO stage 3 gives every parameter; their data is elsewhere
    with pytest.raises(ModelError, match=r"ZeRO stage 3 .* Use ZeRO stage 2"):
        use(model, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_replicated_layer_shows_no_weights_without_content():
    layer = turnover.wrap(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), at=["1"], replicas=2)[0]
    assert layer.in_features == 4
    stripped = copy.copy(layer)
    stripped._parameters = {}
    assert not hasattr(stripped, "weight")
