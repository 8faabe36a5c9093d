"""What a flipped subnetwork knows of its own row: a toy run, its resuming, and what the page says of it."""

import torch

import turnover
from turnover_bench.experiments.networks import masked_mlp
from turnover_bench.experiments.own_row.experiment import _WHO


def test_everyone_is_asked_about_the_rows(toy):
    (one,) = toy.result["tasks"]["digits"]["seeds"]
    assert set(one) == set(_WHO)
    assert all(0 <= found["accuracy"] <= 1 and found["loss"] > 0 for found in one.values())
    assert one["kept, trained"]["loss"] < one["flipped, trained"]["loss"]


def test_a_flipped_subnetwork_learns_nothing_of_its_row():
    model = masked_mlp(6, (16, 16), 3, seed=0)
    report = turnover.audit(model, (torch.randn(4, 6), torch.tensor([0, 1, 2, 0]), torch.arange(4)), rows=4)
    assert report.gradient_share == 0
