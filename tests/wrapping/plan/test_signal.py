"""What a plan lets expect of one pair's score."""

import pytest
import torch
from torch import nn

import turnover
from turnover.wrapping import expected_signal


def mlp(width=512):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def test_the_reference_is_itself():
    plan = turnover.plan(mlp(), at=["0"], n=1437)
    assert plan.signal.ratio == pytest.approx(1)
    assert plan.signal.signal_to_noise == 0.45


def test_four_replicas_or_four_times_the_width_or_half_the_rows_double_it():
    base = expected_signal(10_000, [512], 1).ratio
    assert expected_signal(10_000, [512], 4).ratio == pytest.approx(2 * base)
    assert expected_signal(10_000, [2048], 1).ratio == pytest.approx(2 * base)
    assert expected_signal(5_000, [512], 1).ratio == pytest.approx(2 * base)


def test_the_narrowest_site_counts():
    assert expected_signal(100, [64, 512], 1).width == 64


def test_the_plan_shows_it_and_what_raises_it():
    text = str(turnover.plan(mlp(), at=["0"], replicas=8, n=10_000))
    assert "signal / noise of one pair about" in text
    assert "Raise it by replicas=" in text


def test_unknown_widths_ask_for_an_example():
    assert "give an example" in str(turnover.plan(mlp(), at=["1"], n=100))
    assert turnover.plan(mlp(), at=["1"], n=100, example=torch.randn(2, 64)).signal.width == 512


@pytest.mark.parametrize("n", [0, -1, True, 2.5])
def test_a_wrong_number_of_rows_is_named(n):
    assert f"the number of training rows, got {n!r}" in str(turnover.plan(mlp(), at=["0"], n=n))
