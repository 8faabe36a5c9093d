"""The residual network: zero stays zero within blocks, and what the sum lets through is known."""

import pytest
import torch

import turnover
from turnover.errors import PlanError, TrainingError
from turnover.runs.residual_network import ResidualNetwork, residual_sites


@pytest.fixture
def network():
    return ResidualNetwork(channels=(4, 8), blocks=2)


def test_zero_stays_zero_at_every_site(network):
    plan = turnover.plan(network, at=residual_sites(network), example=torch.randn(2, 3, 8, 8))
    assert len(plan.sites) == 5
    assert not plan.warnings
    assert all(site.zero.keeps for site in plan.sites)


def test_a_mask_on_what_is_added_is_warned_of_so_the_sites_avoid_it(network):
    wrong = turnover.plan(network, at={"stages.0.0.norm2": "channels"})
    assert "added to something else" in wrong.warnings[0]


def test_convolutions_within_blocks_do_not_leak(network):
    model = turnover.wrap(network, at=residual_sites(network))
    batch = torch.randn(6, 3, 8, 8), torch.randint(10, (6,)), torch.arange(6)
    for _ in range(20):
        with turnover.instances(batch[2]):
            model(batch[0])
    leaks = {leak.name for leak in turnover.audit(model, batch, rows=3).leaks}
    assert "stem.0.weight" in leaks
    assert not any(".conv1." in name or ".conv2." in name or "classifier" in name for name in leaks)


def test_only_late_stages_can_be_masked(network):
    assert list(residual_sites(network, first_stage=1)) == ["stages.1.0.relu1", "stages.1.1.relu1", "classifier_input"]
    with pytest.raises(PlanError, match=r"first_stage=2.*0 to 1"):
        residual_sites(network, first_stage=2)


def test_a_network_without_blocks_is_refused():
    with pytest.raises(TrainingError, match="blocks=0"):
        ResidualNetwork(blocks=0)
