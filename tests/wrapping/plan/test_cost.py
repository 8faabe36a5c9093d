"""What a plan lets expect of accuracy under masks."""

import json
from itertools import pairwise
from pathlib import Path
from statistics import mean
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import turnover
from experiments.mask_cost.page import plan_costs
from experiments.mask_cost_classes import experiment as many_classes
from experiments.mask_cost_run import experiment as whole_runs
from experiments.networks import VGG19, ResidualNetwork, vgg_sites
from turnover.runs import RunConfig
from turnover.runs.networks import plain_network, settings_for
from turnover.wrapping.plan.cost import (
    LONGER_COSTS,
    MASK_COSTS,
    RUN_COSTS,
    VGG19_ALL_COST,
    VGG19_COSTS,
    _between,
    expected_cost,
)

ROOT = Path(__file__).resolve().parents[3]


def mlp(*widths):
    layers = [part for before, after in pairwise((4, *widths)) for part in (nn.Linear(before, after), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 2, bias=False))


def residual(classes):
    """Return a network whose stages have 16, 32 and 64 channels, and the ReLUs within its blocks."""
    network = ResidualNetwork(classes=classes, channels=(16, 32, 64), blocks=1)
    return network, {f"stages.{stage}.0.relu1": "channels" for stage in range(3)}


def published(name):
    return json.loads((ROOT / f"docs/results/medium/{name}.json").read_text())["result"]


def test_costs_are_those_that_were_published():
    classes = published("mask_cost_classes")
    assert {**plan_costs(published("mask_cost")), **many_classes.plan_costs(classes)} == MASK_COSTS
    assert many_classes.plan_longer_costs(classes) == LONGER_COSTS
    assert whole_runs.plan_costs(published("mask_cost_run")) == RUN_COSTS


def test_costs_of_vgg19_are_those_that_were_published():
    real, side = published("real_models"), published("side_effects")
    narrow = [real["vgg"]["accuracy"][name] for name in ("plain", "masks")]
    wide = [mean(one["accuracy"] for one in side["vgg"][name]["seeds"]) for name in ("plain", "masks")]
    places = [(real["setting"]["vgg"]["images"], narrow), (side["setting"]["vgg"]["images"], wide)]
    channels = [int(512 * width) for width in (real["vgg"]["settings"]["width"], side["setting"]["vgg"]["width"])]
    costs = [(n, round(100 * (plain - masked), 1)) for n, (plain, masked) in places]
    assert tuple((width, *cost) for width, cost in zip(channels, costs, strict=True)) == VGG19_COSTS
    everywhere = mean(one["accuracy"] for one in side["vgg"]["masks on all layers"]["seeds"])
    assert round(100 * (wide[0] - everywhere), 1) == VGG19_ALL_COST


def test_masks_on_all_layers_of_a_narrow_network_are_told_to_cost_accuracy_and_what_to_do():
    planned = turnover.plan(mlp(64, 16), at=["1", "3"], example=torch.zeros(2, 4))
    assert (planned.cost.family, planned.cost.sites, planned.cost.width) == ("vectors", 2, 16)
    assert planned.cost.points == dict(MASK_COSTS["vectors", "all"])[16] > 2
    text = str(planned)
    assert "expected: masks cost about" in text
    assert "2 sites, '3' with 16 units is the narrowest" in text
    assert "Mask later sites only, at best the input of the output layer: one site of" in text


def test_a_narrow_site_has_the_width_that_is_enough():
    cost = turnover.plan(mlp(16), at=["0"]).cost
    enough = [width for width, points in MASK_COSTS["vectors", "last"] if points < 2]
    assert str(cost).endswith(f"Use {enough[0]} to {enough[-1]} units")


def test_one_wide_late_site_has_no_advice():
    told = str(turnover.plan(mlp(64), at=["0"]).cost)
    assert "(1 site, '0' with 64 units)" in told
    assert "Mask later" not in told
    assert "Use" not in told


def test_beyond_what_was_measured_the_nearest_counts_and_is_named():
    cost = turnover.plan(mlp(100_000), at=["0"]).cost
    assert cost.points == MASK_COSTS["vectors", "last"][-1][1]
    assert "the nearest counts" in str(cost)


def test_between_two_widths_points_are_on_a_line_of_logarithms():
    assert _between(((16, 8.0), (64, 4.0)), 32) == pytest.approx(6.0)
    assert _between(((16, 8.0), (64, 4.0)), 8) == 8.0
    assert _between(((16, 8.0), (64, 4.0)), 128) == 4.0


def test_unknown_widths_have_no_cost_and_the_plan_says_that_an_example_would_tell():
    planned = turnover.plan(mlp(8), at=["1"])  # a ReLU does not tell its width
    assert planned.cost is None
    assert "expected: what masks cost in accuracy depends on the width of '1': give example=x" in str(planned)
    with_example = turnover.plan(mlp(8), at=["1"], example=torch.zeros(2, 4))
    assert with_example.cost is not None
    assert "give example=x" not in str(with_example)


def test_nothing_is_said_of_the_cost_of_other_modes():
    planned = turnover.plan(mlp(8), at=["0"], mode="backward")
    assert planned.cost is None
    assert "accuracy" not in str(planned)


def test_one_masked_relu_of_a_small_residual_network_with_many_classes_is_told_to_cost_accuracy():
    network, relus = residual(26)
    images = torch.zeros(2, 3, 12, 12)
    inner = turnover.plan(network, at=dict([list(relus.items())[-1]]), example=images).cost
    last = turnover.plan(network, at={"classifier_input": "features"}, example=images).cost
    assert (inner.family, inner.place, inner.outputs, inner.width) == ("many classes", "inner", 26, 64)
    assert (last.family, last.place, last.outputs, last.width) == ("many classes", "last", 26, 64)
    assert inner.points == dict(MASK_COSTS["many classes", "inner"])[64] > 10
    assert inner.points > last.points > 2
    assert "Mask the input of the output layer instead" in str(inner)
    assert f"After 12 epochs about {dict(LONGER_COSTS['inner'])[64]:.0f} points" in str(inner)
    assert "After 12 epochs less than 1 point." in str(last)
    assert str(last).endswith(". Train until held-out accuracy no longer rises")


def test_a_narrow_site_of_many_classes_has_the_width_that_is_enough_after_a_longer_training():
    network = ResidualNetwork(classes=26, channels=(16, 16, 16), blocks=1)
    cost = turnover.plan(network, at={"classifier_input": "features"}, example=torch.zeros(2, 3, 12, 12)).cost
    enough = next(width for width, points in LONGER_COSTS["last"] if points < 2)
    assert f"After 12 epochs about {dict(LONGER_COSTS['last'])[16]:.0f} points" in str(cost)
    assert str(cost).endswith(f"Use {enough} units or more, and train until held-out accuracy no longer rises")


def test_more_masked_relus_cost_more_than_one_and_fewer_classes_less_than_many():
    costs = {}
    for classes in (10, 26):
        network, relus = residual(classes)
        for name, at in (("one", dict([list(relus.items())[-1]])), ("all", relus)):
            costs[classes, name] = turnover.plan(network, at=at, example=torch.zeros(2, 3, 12, 12)).cost.points
    assert costs[10, "one"] < costs[26, "one"] < costs[26, "all"]
    assert costs[10, "one"] < costs[10, "all"] < costs[26, "all"]


def test_a_site_before_the_output_layer_is_the_last_and_one_that_layers_follow_is_not():
    assert turnover.plan(mlp(64, 64), at=["2"]).cost.place == "last"
    inner = turnover.plan(mlp(64, 64), at=["0"]).cost
    assert inner.place == "inner"
    assert inner.early is False
    deep = turnover.plan(mlp(64, 64, 64), at=["0"]).cost
    assert "earlier ones are likely to cost more" in str(deep)


def test_outputs_are_those_of_the_code_or_of_the_example():
    class Untraceable(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = mlp(8)

        def forward(self, x):
            return self.layers(x) if x.sum() >= 0 else self.layers(-x)

    assert turnover.plan(mlp(8), at=["0"]).outputs == 2
    assert turnover.plan(nn.Sequential(mlp(8), nn.Softmax(1)), at=["0.0"]).outputs is None
    assert turnover.plan(Untraceable(), at=["layers.0"]).outputs is None
    assert turnover.plan(Untraceable(), at=["layers.0"], example=torch.zeros(2, 4)).outputs == 2


def test_masks_on_all_convolutions_are_told_to_cost_far_more_than_on_a_late_one():
    parts = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    parts.append(nn.Linear(64, 2))
    everywhere = turnover.plan(nn.Sequential(*parts), at={"0": "channels", "2": "channels"}).cost
    late = turnover.plan(nn.Sequential(*parts), at={"2": "channels"}).cost
    assert (everywhere.family, everywhere.width, late.width) == ("images", 16, 64)
    assert everywhere.points == dict(MASK_COSTS["images", "all"])[16] > 10
    assert late.points == dict(MASK_COSTS["images", "last"])[64] < everywhere.points / 3
    assert "two small convolutional networks, trained from scratch" in str(everywhere)
    assert "Mask later sites only" in str(everywhere)


def of_a_run(classes, **options):
    settings = settings_for(RunConfig("images"), "pixels", 1_000)
    network = plain_network(settings, SimpleNamespace(kind="pixels", channels=3), classes)
    options = {"replicas": settings.replicas} | options
    cost = turnover.plan(network, at=[str(len(network) - 2)], example=torch.zeros(2, 3, 32, 32), **options).cost
    assert (cost.place, cost.width) == ("last", settings.hidden)
    return cost


def test_the_network_of_a_run_is_told_what_whole_runs_cost():
    few, many = of_a_run(10), of_a_run(26)
    assert few.points == dict(RUN_COSTS["images"][8])[512] < 2
    assert "in the image network of `turnover run`" in str(few)
    assert "narrower" not in str(few)
    assert many.points == dict(RUN_COSTS["many classes"][8])[512] > 2
    assert str(many).endswith("A narrower layer loses less to masks, but is less accurate with them, too")


def test_one_replica_of_a_wide_layer_is_told_to_cost_more_than_eight():
    few, many = of_a_run(10, replicas=1), of_a_run(26, replicas=1)
    assert few.points == dict(RUN_COSTS["images"][1])[512] > of_a_run(10).points
    assert str(few).endswith("With replicas=8 they cost about 2 points in this network")
    assert many.points == dict(RUN_COSTS["many classes"][1])[512] > of_a_run(26).points
    assert "docs/results/medium/mask_cost_run.md" in str(many)
    assert "After 12 epochs" not in str(many)  # that is how long this network was trained
    assert str(many).endswith("With replicas=8 they cost about 4 points in this network")


@pytest.mark.parametrize("outputs", [10, 26])
def test_replicas_change_nothing_where_layers_are_narrower_than_they_were_measured_with(outputs):
    one, eight = (expected_cost({"x": 16}, outputs, images=True, replicas=replicas) for replicas in (1, 8))
    assert one.points == eight.points > 5
    assert str(one) == str(eight)
    assert "units or more" in str(eight)


def test_wider_layers_of_many_classes_are_not_told_from_another_network_that_a_long_training_costs_more():
    told = str(expected_cost({"x": 256}, 26, images=True))
    assert "masks cost about 5 points" in told
    assert "After 12 epochs less than 1 point, measured with 64 units." in told


@pytest.mark.parametrize(
    ("keep", "said"), [(0.9, "keep=0.9 costs less"), (0.3, "keep=0.3 was not measured"), (0.5, "")]
)
def test_another_keep_rate_than_the_measured_one_is_named(keep, said):
    reasons = turnover.plan(mlp(64), at=["0"], keep=keep).cost.reasons
    assert said in " ".join(reasons)
    assert len(reasons) == (2 if keep == 0.5 else 3)


def test_nothing_is_said_of_networks_whose_kind_was_not_measured():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    for model, at in (
        (nn.Sequential(layer, nn.Linear(16, 2)), ["0.linear1"]),
        (nn.Sequential(nn.EmbeddingBag(9, 8), nn.ReLU(), nn.Linear(8, 2)), ["0"]),
    ):
        assert turnover.plan(model, at=at).cost is None


def test_no_other_place_is_advised_that_is_hardly_cheaper():
    cost = expected_cost({"x": 64}, 10, images=True, behind=2, layers=4)
    assert cost.points > 2
    assert "instead" not in str(cost)


def test_sites_behind_half_of_the_convolutions_cost_less_than_sites_everywhere():
    network, images = VGG19(width=0.25), torch.zeros(2, 3, 32, 32)
    costs = {
        first: turnover.plan(network, at=vgg_sites(first=first, classifier_input=False), example=images).cost
        for first in (1, 8, 9, 12)
    }
    assert [costs[first].place for first in costs] == ["all", "all", "later", "later"]
    assert costs[12].points == dict(MASK_COSTS["images", "later"])[64] < costs[1].points / 2
    assert "(5 sites in the later half of the layers" in str(costs[12])
    assert "Mask the input of the output layer instead: one site of 32 to 128 units there" in str(costs[12])
    assert "few rows: 25 with 128 channels and 10,000 images, 6 with 256 channels and 50,000 images" in str(costs[12])
    assert "on all layers of VGG19, 67 points" in str(costs[1])


def test_later_sites_with_many_classes_are_told_what_ten_classes_cost():
    network = ResidualNetwork(classes=26, channels=(16, 32, 64), blocks=1)
    at = {"stages.2.0.relu1": "channels", "classifier_input": "features"}
    cost = turnover.plan(network, at=at, example=torch.zeros(2, 3, 12, 12)).cost
    assert (cost.family, cost.place, cost.outputs) == ("images", "later", 26)
    assert "more classes cost more" in str(cost)
