"""What masks cost: a toy run, the sites of each network, and the smallest width that is enough."""

import pytest
import torch

import turnover
from turnover_bench.experiments.mask_cost.experiment import build, masked_sites


@pytest.mark.parametrize(("kind", "sites"), [("mlp", 2), ("vgg", 4), ("resnet", 4)])
def test_masks_at_all_sites_of_a_network_have_no_warning(kind, sites):
    torch.manual_seed(0)
    model, places = build(kind, 64, 64)
    assert len(places) == sites
    planned = turnover.plan(model, at=masked_sites(places, "all"))
    assert [site.zero.keeps for site in planned.sites] == [True] * sites
    x = torch.randn(2, 64) if kind == "mlp" else torch.randn(2, 3, 8, 8)
    assert model(x).shape == (2, 10)
