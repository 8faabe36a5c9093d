"""What a plan lets expect of one pair's score."""

import pytest
import torch
from torch import nn

import turnover


def mlp(width=512):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def test_unknown_widths_ask_for_an_example():
    assert "give an example" in str(turnover.plan(mlp(), at=["1"], n=100))
    assert "width 512" in turnover.plan(mlp(), at=["1"], n=100, example=torch.randn(2, 64)).signal


@pytest.mark.parametrize("n", [0, -1, True, 2.5])
def test_a_wrong_number_of_rows_is_named(n):
    assert f"the number of training rows, got {n!r}" in str(turnover.plan(mlp(), at=["0"], n=n))
