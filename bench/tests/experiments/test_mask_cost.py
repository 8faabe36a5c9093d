"""What masks cost: a toy run, the sites of each network, and the smallest width that is enough."""

import pytest
import torch

import turnover
from turnover_bench.experiments.mask_cost.experiment import _enough, build, cost, masked_sites


@pytest.mark.parametrize(("kind", "sites"), [("mlp", 2), ("vgg", 4), ("resnet", 4)])
def test_masks_at_all_sites_of_a_network_have_no_warning(kind, sites):
    torch.manual_seed(0)
    model, places = build(kind, 64, 64)
    assert len(places) == sites
    planned = turnover.plan(model, at=masked_sites(places, "all"))
    assert [site.zero.keeps for site in planned.sites] == [True] * sites
    x = torch.randn(2, 64) if kind == "mlp" else torch.randn(2, 3, 8, 8)
    assert model(x).shape == (2, 10)


@pytest.mark.parametrize(
    ("points", "enough"),
    [([(16, 9.0), (32, 1.0), (64, 0.5)], 32), ([(16, 1.0), (32, 3.0), (64, 0.5)], 64), ([(16, 1.0), (32, 3.0)], None)],
)
def test_a_width_is_enough_where_all_wider_ones_are(points, enough):
    assert _enough(points) == enough


def test_cost_is_the_loss_of_accuracy_after_statistics_are_recalibrated():
    point = {"seeds": [{"plain": 0.9, "accuracy": 0.6, "recalibrated": 0.8}, {"plain": 0.7, "accuracy": 0.6}]}
    assert cost(point) == pytest.approx(10.0)
    assert cost(point, recalibrated=False) == pytest.approx(20.0)
