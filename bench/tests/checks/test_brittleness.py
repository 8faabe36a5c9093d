"""Removal of the most helpful rows."""

from functools import partial

import numpy as np
import pytest
import torch

from tests.evaluation.digits import digits_task
from turnover.errors import ScoresError
from turnover.training import TrainingRecipe
from turnover_bench.checks import brittleness


def twins():
    """Two query classes, each learned from rows that look exactly like the query; class 2 is common elsewhere."""
    x = torch.eye(3).repeat_interleave(torch.tensor([4, 4, 16]), 0)
    y = torch.arange(3).repeat_interleave(torch.tensor([4, 4, 16]))
    recipe = TrainingRecipe(
        partial(torch.nn.Linear, 3, 3), x, y, optimizer=partial(torch.optim.SGD, lr=1.0), epochs=20, batch_size=24
    )
    return recipe, (torch.eye(3)[:2], torch.tensor([0, 1])), (x @ torch.eye(3)[:, :2]).numpy()


def test_removal_of_all_that_a_prediction_rests_on_changes_it_and_random_removal_does_not():
    recipe, queries, perfect = twins()
    found = brittleness(perfect, recipe, queries, ks=(1, 4), seeds=(0, 1))
    assert found.share.tolist() == [0.0, 1.0]
    assert found.random_share.tolist() == [0.0, 0.0]
    assert found.changed.shape == found.random.shape == (2, 2, 2)
    assert found.view == "plain"


def test_the_opposite_attribution_changes_nothing():
    recipe, queries, perfect = twins()
    assert brittleness(-perfect, recipe, queries, ks=(4,)).share.tolist() == [0.0]


def test_the_masked_model_is_retrained_and_kept_in_a_cache(tmp_path):
    task = digits_task(rows=20, queries=2, epochs=2, masked=True)
    scores = np.random.default_rng(0).normal(size=(20, 2))
    first, again = (brittleness(scores, task.recipe, task.queries, ks=(5,), cache=tmp_path / "b") for _ in range(2))
    assert first.view == "full"
    assert np.array_equal(first.changed, again.changed)


def test_input_that_does_not_fit_is_named():
    recipe, queries, perfect = twins()
    with pytest.raises(ScoresError, match="24 rows and 2 queries"):
        brittleness(perfect[:, :1], recipe, queries)
    with pytest.raises(ScoresError, match=r"from 1 to 23 .* got ks=\(24,\)"):
        brittleness(perfect, recipe, queries, ks=(24,))
