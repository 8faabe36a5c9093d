"""Retraining on subsets, of the plain and of the masked model."""

import numpy as np
import pytest
import torch

from tests.evaluation.digits import digits_task
from turnover.errors import StoreError, TrainingError
from turnover.evaluation import subset_outcomes
from turnover.layers import find_root


def test_outcomes_are_the_losses_of_models_trained_on_the_subsets():
    task = digits_task(rows=20, queries=4, epochs=2)
    truth = subset_outcomes(task.recipe, task.queries, subsets=3, seeds=2)
    assert truth.subsets.sum(1).tolist() == [10, 10, 10]
    assert truth.outcomes.shape == (2, 3, 4)
    assert truth.view == "plain"
    model = task.recipe.fit(torch.from_numpy(truth.subsets[2]), seed=1_000_000 + 3 + 2)  # second run, third subset
    with torch.no_grad():
        losses = torch.nn.functional.cross_entropy(model(task.queries[0]), task.queries[1], reduction="none")
    assert np.allclose(truth.outcomes[1, 2], losses, rtol=0, atol=1e-6)


def test_a_masked_recipe_is_asked_in_full_view_and_can_be_retrained_plain():
    task = digits_task(rows=20, queries=4, epochs=2, masked=True)
    masked = subset_outcomes(task.recipe, task.queries, subsets=3, seeds=1)
    plain = subset_outcomes(task.recipe, task.queries, subsets=3, seeds=1, view="plain")
    assert (masked.view, plain.view) == ("full", "plain")
    assert not np.allclose(masked.outcomes, plain.outcomes)
    assert np.array_equal(masked.subsets, plain.subsets)
    model = task.recipe.fit(torch.from_numpy(masked.subsets[0]), seed=1_000_000)
    assert find_root(model) is not None
    with torch.no_grad():  # eval mode without ids
        losses = torch.nn.functional.cross_entropy(model(task.queries[0]), task.queries[1], reduction="none")
    assert np.allclose(masked.outcomes[0, 0], losses, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_worker_processes_give_the_same_outcomes():
    task = digits_task(rows=20, queries=4, epochs=2, masked=True)
    one, two = (
        subset_outcomes(task.recipe, task.queries, subsets=3, view="plain", processes=processes) for processes in (1, 2)
    )
    assert np.allclose(one.outcomes, two.outcomes, rtol=0, atol=1e-6)


def test_finished_trainings_are_not_run_again_and_another_task_is_rejected(tmp_path):
    task = digits_task(rows=20, queries=4, epochs=2)
    first = subset_outcomes(task.recipe, task.queries, subsets=3, cache=tmp_path / "truth")
    again = subset_outcomes(
        digits_task(rows=20, queries=4, epochs=2).recipe, task.queries, subsets=3, cache=tmp_path / "truth"
    )
    assert np.array_equal(first.outcomes, again.outcomes)
    other = digits_task(rows=20, queries=4, epochs=3)
    with pytest.raises(StoreError, match="epochs"):
        subset_outcomes(other.recipe, other.queries, subsets=3, cache=tmp_path / "truth")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "full"}, "needs a recipe that builds a wrapped model"),
        ({"view": "keep"}, "`view` must be .* got 'keep'"),
        ({"share": 1}, "share=1: 20 of 20 rows"),
        ({"seeds": [1, 1]}, "different seeds"),
    ],
)
def test_bad_input_is_rejected_with_the_cure(options, message):
    task = digits_task(rows=20, queries=4, epochs=1)
    with pytest.raises(TrainingError, match=message):
        subset_outcomes(task.recipe, task.queries, **options)
