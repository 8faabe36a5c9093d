"""SGD-influence answers questions in the form of all methods, and refuses what it cannot walk back."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from tests.baselines.small_sgd import QUERIES, ROWS, X, Y, build, recipe, sgd
from turnover.baselines.hara2019 import SgdInfluence
from turnover.errors import BaselineError, TrainingError


def test_queries_that_share_a_walk_have_the_scores_they_have_alone():
    plan = recipe(optimizer=sgd(momentum=0.9))
    together, alone = (SgdInfluence.train(plan, at_once=count).pairwise(QUERIES) for count in (None, 1))
    np.testing.assert_allclose(together.values, alone.values, rtol=1e-6)


def test_mean_and_self_influence_are_those_of_pairwise():
    influence = SgdInfluence.train(recipe(ids=torch.arange(50, 50 + ROWS)), at_once=4)
    pairs = influence.pairwise(QUERIES)
    np.testing.assert_allclose(influence.mean(QUERIES).values, pairs.values.mean(1), rtol=1e-5, atol=1e-8)
    own = influence.self_influence()
    np.testing.assert_allclose(own.values, np.diagonal(influence.pairwise((X, Y)).values), rtol=1e-5)
    some = influence.self_influence(ids=[55, 52])
    assert some.ids.tolist() == [55, 52]
    np.testing.assert_allclose(some.values, own.values[[5, 2]], rtol=1e-5)
    assert influence.pairwise(QUERIES, ids=[60]).ids.tolist() == [60]
    assert pairs.unit == "loss"
    assert "Hara" in pairs.path
    assert pairs.provenance["steps"] == 16
    with pytest.raises(BaselineError, match=r"ids are not among the recipe's rows: \[3\]"):
        influence.mean(QUERIES, ids=[3])


def test_inputs_may_be_a_dict():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = build()

        def forward(self, *, x):
            return self.inner(x)

    named = SgdInfluence.train(recipe(build=Named, inputs={"x": X})).pairwise(({"x": QUERIES[0]}, QUERIES[1]))
    np.testing.assert_array_equal(named.values, SgdInfluence.train(recipe()).pairwise(QUERIES).values)


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
def test_what_cannot_be_walked_back_is_refused(changes, text):
    with pytest.raises(BaselineError, match=text):
        SgdInfluence.train(recipe(**changes))


def test_bad_queries_and_options_are_refused():
    influence = SgdInfluence.train(recipe(), last_epochs=2)
    with pytest.raises(TrainingError, match=r"tuple \(inputs, targets\)"):
        influence.mean(QUERIES[0])
    with pytest.raises(TrainingError, match="no queries"):
        influence.pairwise((X[:0], Y[:0]))
    with pytest.raises(BaselineError, match=r"`last_epochs` must be .* from 1 to 4, .* got 5"):
        SgdInfluence.train(recipe(), last_epochs=5)
    with pytest.raises(BaselineError, match="needs 12 steps and 8 were recorded"):
        influence.last(3)
    with pytest.raises(BaselineError, match=r"`at_once` must be .* got 0"):
        SgdInfluence.train(recipe(), at_once=0)
