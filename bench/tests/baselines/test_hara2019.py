"""SGD-influence answers questions as all baselines do, rejects what it cannot walk back, and predicts retraining."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from bench.tests.baselines.builders import QUERIES, X, build, recipe, sgd
from turnover_bench.baselines.hara2019 import SgdInfluence
from turnover_bench.errors import BaselineError


def test_queries_that_share_a_walk_have_the_scores_they_have_alone():
    plan = recipe(optimizer=sgd(momentum=0.9))
    together, alone = (SgdInfluence.train(plan, at_once=count).pairwise(QUERIES) for count in (None, 1))
    np.testing.assert_allclose(together.values, alone.values, rtol=1e-6)
    assert "Hara" in together.path
    assert together.provenance["steps"] == 16


def normalized() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = build()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.inner(x)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"optimizer": partial(torch.optim.Adam, lr=0.1)}, r"Adam; .*torch\.optim\.SGD only"),
        ({"optimizer": sgd(maximize=True)}, "maximize"),
        ({"build": normalized}, "'1': batch normalization"),
        ({"build": Counting}, "buffers 'seen'"),
        ({"build": lambda: build().requires_grad_(False)}, "changes no parameter"),
        ({"build": lambda: build().bfloat16(), "inputs": X.bfloat16()}, "bfloat16"),
        ({"optimizer": sgd(lr=1e200, weight_decay=1.0)}, "diverged"),
    ],
)
def test_what_cannot_be_walked_back_is_rejected(changes, text):
    with pytest.raises(BaselineError, match=text):
        SgdInfluence.train(recipe(**changes))


def test_bad_options_are_rejected():
    with pytest.raises(BaselineError, match=r"`last_epochs` must be .* from 1 to 4, .* got 5"):
        SgdInfluence.train(recipe(), last_epochs=5)
    with pytest.raises(BaselineError, match="needs 12 steps and 8 were recorded"):
        SgdInfluence.train(recipe(), last_epochs=2).last(3)
    with pytest.raises(BaselineError, match=r"`at_once` must be .* got 0"):
        SgdInfluence.train(recipe(), at_once=0)
