"""Walking a training back gives the derivative through the unrolled training, exactly."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from bench.tests.baselines.builders import QUERIES, ROWS, X, build, cross_entropy, decaying, recipe, sgd
from tests.reference.hara_twin import unrolled_scores
from turnover.training import TrainingRecipe
from turnover_bench.baselines.hara2019 import SgdInfluence, query_gradients, record, walk_back
from turnover_bench.errors import BaselineError


def exact(plan: TrainingRecipe, first: int = 0) -> torch.Tensor:
    """Scores in float64, before they become Scores."""
    recording = record(plan, seed=3, folder=None, last_epochs=None)
    asked = replace(plan, inputs=QUERIES[0], targets=QUERIES[1], ids=None)
    return walk_back(plan, recording, query_gradients(plan, recording, asked, torch.arange(5)), first=first)


CASES = {
    "plain": {},
    "weight decay": {"weight_decay": 0.05},
    "momentum": {"momentum": 0.9},
    "momentum and weight decay": {"momentum": 0.8, "weight_decay": 0.05},
    "dampening": {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.02},
    "nesterov": {"momentum": 0.8, "nesterov": True, "weight_decay": 0.02},
}


@pytest.mark.parametrize("case", CASES)
def test_scores_equal_the_derivative_through_the_unrolled_training(case):
    settings = {"lr": 0.3, **CASES[case]}
    plan = recipe(optimizer=sgd(**settings))
    truth = unrolled_scores(plan, QUERIES, seed=3, settings=lambda step: settings)
    torch.testing.assert_close(exact(plan), truth, rtol=1e-10, atol=1e-13)


def test_a_learning_rate_schedule_is_walked_back_exactly():
    plan = recipe(optimizer=sgd(momentum=0.7, weight_decay=0.01), schedule=decaying)
    truth = unrolled_scores(
        plan, QUERIES, seed=3, settings=lambda step: {"lr": 0.3 * 0.9**step, "momentum": 0.7, "weight_decay": 0.01}
    )
    torch.testing.assert_close(exact(plan), truth, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_last_epochs_are_the_derivative_by_the_weights_of_those_epochs(epochs):
    settings = {"lr": 0.3, "momentum": 0.9}
    plan = recipe(optimizer=sgd(**settings))
    from_step = (4 - epochs) * 4
    truth = unrolled_scores(plan, QUERIES, seed=3, settings=lambda step: settings, from_step=from_step)
    recorded = SgdInfluence.train(plan, seed=3, last_epochs=epochs)
    walked = SgdInfluence.train(plan, seed=3).last(epochs)
    torch.testing.assert_close(exact(plan, from_step), truth, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(recorded.pairwise(QUERIES).values, truth, rtol=1e-6)
    np.testing.assert_array_equal(recorded.pairwise(QUERIES).values, walked.pairwise(QUERIES).values)
    assert recorded.steps == walked.steps == epochs * 4
    assert recorded.storage_bytes == (epochs * 4 + 1) * 32 * 8


def groups(parameters):
    every = list(parameters)
    return torch.optim.SGD(
        [{"params": every[:2], "lr": 0.1, "weight_decay": 0.1}, {"params": every[2:], "momentum": 0.9}], lr=0.3
    )


def test_parameter_groups_and_frozen_parameters_have_their_own_steps():
    """The small change of one row's weight, by retraining, is what the score says."""

    def partly_frozen() -> nn.Module:
        model = build()
        model[0].bias.requires_grad_(False)
        return model

    plan = recipe(build=partly_frozen, optimizer=groups)
    scores = exact(plan)
    for row in (0, 5):
        found = []
        for size in (-1e-4, 1e-4):
            weights = torch.ones(ROWS, dtype=torch.float64)
            weights[row] += size
            model = plan.fit(seed=3, weights=weights)
            found.append(cross_entropy(model(QUERIES[0]), QUERIES[1]).detach())
        torch.testing.assert_close(scores[row], -(found[1] - found[0]) / 2e-4, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("kind", ["dropout", "wrapped"])
def test_masks_and_dropout_are_those_of_the_training(kind):
    def with_dropout() -> nn.Module:
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2, bias=False)).double()
        return model if kind == "dropout" else turnover.wrap(model)

    plan = recipe(build=with_dropout, ids=torch.arange(100, 100 + ROWS))
    scores = exact(plan)
    row, found = 5, []
    for size in (-1e-4, 1e-4):
        weights = torch.ones(ROWS, dtype=torch.float64)
        weights[row] += size
        found.append(cross_entropy(plan.fit(seed=3, weights=weights)(QUERIES[0]), QUERIES[1]).detach())
    torch.testing.assert_close(scores[row], -(found[1] - found[0]) / 2e-4, rtol=1e-5, atol=1e-9)


def test_a_walk_that_explodes_says_where():
    """Parameters grow from 1 to 1e25 on the way forth, derivatives from there on by as much on the way back."""
    x = X.float()
    plan = recipe(build=partial(nn.Linear, 3, 1), inputs=x, targets=x[:, :1], loss=None, optimizer=sgd(lr=60.0))
    influence = SgdInfluence.train(plan)
    with pytest.raises(BaselineError, match=r"no longer finite at step \d+ of 16"):
        influence.mean((x, x[:, :1]))
