"""What a plan lets expect of accuracy under masks."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn

import turnover
from experiments.mask_cost.experiment import plan_costs
from turnover.runs import RunConfig
from turnover.runs.networks import settings_for
from turnover.wrapping.plan.result import MASK_COSTS, _between

ROOT = Path(__file__).resolve().parents[3]


def mlp(*widths):
    layers = [part for before, after in pairwise((4, *widths)) for part in (nn.Linear(before, after), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 2, bias=False))


def test_costs_are_those_that_were_published():
    assert plan_costs(json.loads((ROOT / "docs/results/medium/mask_cost.json").read_text())["result"]) == MASK_COSTS


def test_masks_on_all_layers_of_a_narrow_network_are_told_to_cost_accuracy_and_what_to_do():
    planned = turnover.plan(mlp(64, 16), at=["1", "3"], example=torch.zeros(2, 4))
    assert (planned.cost.family, planned.cost.sites, planned.cost.width) == ("vectors", 2, 16)
    assert planned.cost.points == dict(MASK_COSTS["vectors", False])[16] > 2
    text = str(planned)
    assert "expected: masks cost about" in text
    assert "2 sites, '3' with 16 units is the narrowest" in text
    assert "Mask later sites only: one site of" in text


def test_a_narrow_site_has_the_width_that_is_enough():
    cost = turnover.plan(mlp(16), at=["0"]).cost
    enough = next(width for width, points in MASK_COSTS["vectors", True] if points < 2)
    assert str(cost).endswith(f"Use {enough} units or more")


def test_one_wide_late_site_has_no_advice():
    told = str(turnover.plan(mlp(64), at=["0"]).cost)
    assert "1 site, '0' with 64 units" in told
    assert "Mask later" not in told
    assert "Use" not in told


def test_beyond_what_was_measured_the_nearest_counts_and_is_named():
    cost = turnover.plan(mlp(100_000), at=["0"]).cost
    assert cost.points == MASK_COSTS["vectors", True][-1][1]
    assert "the nearest counts" in str(cost)


def test_between_two_widths_points_are_on_a_line_of_logarithms():
    assert _between(((16, 8.0), (64, 4.0)), 32) == pytest.approx(6.0)
    assert _between(((16, 8.0), (64, 4.0)), 8) == 8.0
    assert _between(((16, 8.0), (64, 4.0)), 128) == 4.0


def test_nothing_is_said_of_unknown_widths_and_other_modes():
    assert turnover.plan(mlp(8), at=["1"]).cost is None  # a ReLU does not tell its width
    assert turnover.plan(mlp(8), at=["0"], mode="backward").cost is None


def test_masks_on_all_convolutions_are_told_to_cost_far_more_than_on_a_late_one():
    parts = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    parts.append(nn.Linear(64, 2))
    everywhere = turnover.plan(nn.Sequential(*parts), at={"0": "channels", "2": "channels"}).cost
    late = turnover.plan(nn.Sequential(*parts), at={"2": "channels"}).cost
    assert (everywhere.family, everywhere.width, late.width) == ("images", 16, 64)
    assert everywhere.points == dict(MASK_COSTS["images", False])[16] > 10
    assert late.points == dict(MASK_COSTS["images", True])[64] < everywhere.points / 3
    assert "convolutional networks with recalibrated BatchNorm" in str(everywhere)
    assert "Mask later sites only" in str(everywhere)


def test_the_network_of_a_run_for_images_has_one_late_site_that_costs_little():
    settings = settings_for(RunConfig("images"), "pixels", 1_000)
    cost = turnover.plan(mlp(settings.hidden), at=["0"]).cost  # masks are on the layer before the outputs
    assert cost.points < 2
    assert not cost.beyond
