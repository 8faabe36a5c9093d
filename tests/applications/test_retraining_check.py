"""Retraining without the rows in question."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from turnover.applications import ARMS, RetrainingCheck, check_by_retraining
from turnover.applications.retraining_check import _difference
from turnover.errors import ApplicationError
from turnover.training import TrainingRecipe


def small_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def masked_mlp() -> nn.Module:
    return turnover.wrap(small_mlp(), at=["1"], replicas=2)


@pytest.fixture(scope="module")
def recipe(digits):
    adam = partial(torch.optim.Adam, lr=1e-2)
    return TrainingRecipe(small_mlp, digits.x, digits.y, optimizer=adam, epochs=10, batch_size=100)


@pytest.fixture(scope="module")
def check(recipe, digits):
    return check_by_retraining(recipe, digits.wrong, digits.test, seeds=3)


def test_dropping_all_wrong_labels_helps_beyond_none_and_random(check):
    assert check.helps("accuracy")
    assert check.helps("loss")
    assert "helps beyond one standard error" in str(check)
    assert (check.removed, check.rows, check.accuracy.shape) == (50, 500, (3, 3))


def test_arms_are_trainings_on_all_rows_on_random_rows_and_on_the_kept_ones(check, recipe, digits):
    for arm, kept in ((0, np.ones(500, bool)), (2, ~digits.wrong)):
        model = recipe.fit(torch.from_numpy(kept), seed=check.seeds[1])
        with torch.no_grad():
            outputs = model(digits.test[0])
        assert check.accuracy[arm, 1] == pytest.approx((outputs.argmax(1) == digits.test[1]).float().mean().item())
        assert check.loss[arm, 1] == pytest.approx(
            nn.functional.cross_entropy(outputs, digits.test[1]).item(), rel=1e-4
        )


def test_a_wrapped_model_is_trained_without_masks(recipe, digits, check):
    from dataclasses import replace

    masked = check_by_retraining(replace(recipe, build=masked_mlp), digits.wrong, digits.test, seeds=2)
    assert masked.accuracy[0].mean() == pytest.approx(check.accuracy[0].mean(), abs=0.1)


def test_trainings_in_a_cache_are_not_run_again(recipe, digits, tmp_path, monkeypatch):
    first = check_by_retraining(recipe, digits.wrong, digits.test, seeds=2, cache=tmp_path / "check")
    monkeypatch.setattr(TrainingRecipe, "fit", None)  # whoever trains now, fails
    again = check_by_retraining(recipe, digits.wrong, digits.test, seeds=2, cache=tmp_path / "check")
    assert np.array_equal(first.accuracy, again.accuracy)


def test_any_function_that_trains_serves(digits):
    asked = []

    def fit(kept, seed):
        asked.append((int(kept.sum()), seed))
        return np.full((4, 2), 0.5) if kept.all() else np.array([[0.9, 0.1]] * 4)

    check = check_by_retraining(fit, [3, 5], [0, 0, 0, 1], rows=10, seeds=[1, 2])
    assert asked == [(10, 1), (10, 2), (8, 1), (8, 2), (8, 1), (8, 2)]
    assert check.accuracy.tolist() == [[0.75, 0.75]] * 3
    assert check.loss[0].tolist() == pytest.approx([np.log(2)] * 2)
    assert check.test_rows == 4


def test_random_rows_differ_from_seed_to_seed_and_their_number_does_not():
    kept = {}

    def fit(rows, seed):
        kept.setdefault(seed, []).append(rows)
        return [[1.0, 0.0]]

    check_by_retraining(fit, [0, 1, 2], [0], rows=40, seeds=[7, 8])
    assert [int(rows.sum()) for rows in kept[7]] == [40, 37, 37]
    assert not np.array_equal(kept[7][1], kept[8][1])
    assert np.array_equal(kept[7][2], kept[8][2])


def made_up(gains, spread=0.0):
    base = np.tile(np.linspace(0.5, 0.6, len(gains)), (3, 1))
    base[2] += gains
    base[1] += spread
    return RetrainingCheck(base, 1 - base, tuple(range(len(gains))), 5, 100, 50)


def test_seeds_are_compared_pair_by_pair():
    """Trainings differ by far more than the gain, but all seeds gain."""
    assert made_up([0.01, 0.012, 0.009]).helps("accuracy")


def test_too_small_a_gain_is_told_with_the_seeds_that_it_would_take():
    gains = np.array([0.05, -0.04, 0.01])
    check = made_up(gains)
    one = check.differences[0]
    assert not one.beyond
    assert one.gain == pytest.approx(gains.mean())
    assert one.stderr == pytest.approx(gains.std(ddof=1) / np.sqrt(3))
    assert f"about {one.seeds_needed} seeds" in str(check)


def test_the_seeds_needed_show_a_gain_of_that_size_in_80_percent_of_cases():
    gains = np.array([0.05, -0.04, 0.01, 0.03])
    needed = made_up(gains).differences[0].seeds_needed
    draws = np.random.default_rng(0).normal(gains.mean(), gains.std(ddof=1), (20_000, needed))
    shown = draws.mean(1) > draws.std(1, ddof=1) / np.sqrt(needed)
    assert 0.75 < shown.mean() < 0.85


def test_without_any_gain_no_number_of_seeds_is_promised():
    check = made_up([-0.02, 0.01, -0.01])
    assert check.differences[0].seeds_needed is None
    assert "more seeds would not help" in str(check)


def test_a_check_becomes_json_and_a_table(check):
    data = json.loads(json.dumps(check.as_dict(), allow_nan=False))
    assert set(data["arms"]) == set(ARMS)
    assert data["helps"] == {"accuracy": True, "loss": True}
    assert check.table()["removed"].tolist() == list(ARMS)


@pytest.mark.parametrize(
    ("dropped", "options", "message"),
    [
        ([], {}, "row numbers from 0 to 499"),
        ([500], {}, "row numbers from 0 to 499"),
        ([0.5], {}, "row numbers from 0 to 499"),
        (np.ones(500, bool), {}, "Drop some, and not all"),
        (np.zeros(500, bool), {}, "Drop some, and not all"),
        ([1], {"seeds": 1}, "at least two, and different"),
        ([1], {"seeds": [3, 3]}, "at least two, and different"),
    ],
)
def test_what_does_not_fit_is_refused(recipe, digits, dropped, options, message):
    with pytest.raises(ApplicationError, match=message):
        check_by_retraining(recipe, dropped, digits.test, **options)


def test_a_function_with_places_needs_the_number_of_rows():
    with pytest.raises(ApplicationError, match="how many training rows"):
        check_by_retraining(lambda kept, seed: [[1.0]], [1], [0])


def test_predictions_that_do_not_fit_the_labels_are_refused():
    with pytest.raises(ApplicationError, match="class probabilities"):
        check_by_retraining(lambda kept, seed: [[0.5, 0.5]], [1], [0, 1], rows=5)


def test_an_unknown_measure_is_refused(check):
    with pytest.raises(ApplicationError, match="'accuracy' or 'loss'"):
        check.helps("speed")


def test_a_gain_of_exactly_one_standard_error_does_not_count():
    gains = np.array([0.0, 1 / 18])  # one test row of 18, in one of two trainings
    assert not _difference("random", "accuracy", gains).beyond
    assert _difference("random", "accuracy", gains + 0.01).beyond
