"""Image networks: their shapes and sites, where zero stays zero, and what leaks."""

import pytest
import torch

import turnover
from turnover.errors import PlanError, TrainingError
from turnover_bench.experiments.networks import VGG19, ResidualNetwork, residual_sites, vgg_sites

NARROW = 0.03125


@pytest.fixture
def batch():
    return torch.randn(6, 3, 32, 32), torch.randint(10, (6,)), torch.arange(6)


def warmed(model, batch):
    for _ in range(20):
        with turnover.instances(batch[2]):
            model(batch[0])
    return model


def test_the_papers_sites_are_the_relus_of_convolutions_12_to_16_and_the_classifiers_input():
    sites = vgg_sites()
    assert sites == {**{f"features.relu{n}": "channels" for n in range(12, 17)}, "classifier_input": "features"}
    assert len(vgg_sites(first=1)) == 17


@pytest.mark.parametrize("at", [vgg_sites(), vgg_sites(classifier_input=False), vgg_sites(first=1)], ids=len)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_zero_stays_zero_at_every_site_with_and_without_ordinary_dropout(at, dropout, batch):
    plan = turnover.plan(VGG19(width=NARROW, dropout=dropout), at=at, example=batch[0])
    assert not plan.warnings
    assert all(site.zero.keeps for site in plan.sites)


def test_the_papers_sites_leak_only_what_comes_before_the_twelfth_convolution_and_batch_statistics(batch):
    model = warmed(turnover.wrap(VGG19(width=NARROW), at=vgg_sites(classifier_input=False)), batch)
    leaks = turnover.audit(model, batch, rows=3).leaks
    trained = [leak.name for leak in leaks if leak.cause != "BatchNorm statistics"]
    assert trained
    assert all(int("".join(filter(str.isdigit, name))) < 12 for name in trained)


def test_masks_on_all_layers_leak_nothing_but_batch_statistics(batch):
    model = warmed(turnover.wrap(VGG19(width=NARROW), at=vgg_sites(first=1)), batch)
    report = turnover.audit(model, batch, rows=3)
    assert report.share == 0
    assert {leak.cause for leak in report.leaks} == {"BatchNorm statistics"}


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: vgg_sites(first=17), PlanError, r"first=17.*1 to 16"),
        (lambda: VGG19(width=0), TrainingError, "width=0"),
        (lambda: residual_sites(ResidualNetwork(blocks=1), first_stage=3), PlanError, r"first_stage=3.*0 to 2"),
        (lambda: ResidualNetwork(blocks=0), TrainingError, "blocks=0"),
    ],
)
def test_layers_and_sizes_that_are_not_there_are_rejected(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.fixture
def network():
    return ResidualNetwork(channels=(4, 8), blocks=2)


def test_zero_stays_zero_at_every_site(network):
    plan = turnover.plan(network, at=residual_sites(network), example=torch.randn(2, 3, 8, 8))
    assert len(plan.sites) == 5
    assert not plan.warnings
    assert all(site.zero.keeps for site in plan.sites)


def test_convolutions_within_blocks_do_not_leak(network):
    batch = torch.randn(6, 3, 8, 8), torch.randint(10, (6,)), torch.arange(6)
    model = warmed(turnover.wrap(network, at=residual_sites(network)), batch)
    leaks = {leak.name for leak in turnover.audit(model, batch, rows=3).leaks}
    assert "stem.0.weight" in leaks
    assert not any(".conv1." in name or ".conv2." in name or "classifier" in name for name in leaks)
