"""Retraining without the rows in question."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from turnover.applications import RetrainingCheck, check_by_retraining
from turnover.errors import ApplicationError
from turnover.training import TrainingRecipe


def small_mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def masked_mlp() -> nn.Module:
    return turnover.wrap(small_mlp(), at=["1"], replicas=2)


@pytest.fixture(scope="module")
def recipe(digits):
    adam = partial(torch.optim.Adam, lr=1e-2)
    return TrainingRecipe(small_mlp, digits.x, digits.y, optimizer=adam, epochs=20, batch_size=100)


@pytest.fixture(scope="module")
def check(recipe, digits):
    return check_by_retraining(recipe, digits.wrong, digits.test, seeds=3)


def test_dropping_all_wrong_labels_is_significantly_better_than_none_and_random(check):
    assert check.helps("accuracy")
    assert check.helps("loss")
    assert str(check).startswith("Dropping 50 of 500 rows, 3 seeds, ")
    assert str(check).count("a significant gain.") == 2
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


def test_any_function_that_trains_serves_and_random_rows_differ_from_seed_to_seed():
    asked, kept_rows = [], {}

    def fit(kept, seed):
        asked.append((int(kept.sum()), seed))
        kept_rows.setdefault(seed, []).append(kept)
        return np.full((4, 2), 0.5) if kept.all() else np.array([[0.9, 0.1]] * 4)

    check = check_by_retraining(fit, [3, 5], [0, 0, 0, 1], rows=10, seeds=[1, 2])
    assert asked == [(10, 1), (10, 2), (8, 1), (8, 2), (8, 1), (8, 2)]
    assert check.accuracy.tolist() == [[0.75, 0.75]] * 3
    assert check.loss[0].tolist() == pytest.approx([np.log(2)] * 2)
    assert check.test_rows == 4
    assert not np.array_equal(kept_rows[1][1], kept_rows[2][1])
    assert np.array_equal(kept_rows[1][2], kept_rows[2][2])


def made_up(gains, row_error=None):
    base = np.tile(np.linspace(0.5, 0.6, len(gains)), (3, 1))
    base[2] += gains
    errors = None if row_error is None else np.full((2, 2), row_error)
    return RetrainingCheck(base, 1 - base, tuple(range(len(gains))), 5, 100, 50, errors)


def test_seeds_are_compared_pair_by_pair():
    """Trainings differ by far more than the gain, but all seeds gain."""
    assert made_up([0.01, 0.012, 0.009]).helps("accuracy")


def test_without_test_rows_p_value_and_interval_are_those_of_scipys_paired_test():
    stats = pytest.importorskip("scipy.stats")
    check = made_up(np.array([0.05, -0.01, 0.02, 0.03]))
    expected = stats.ttest_rel(check.accuracy[2], check.accuracy[0])
    one = check.differences[0]
    assert one.p_value == pytest.approx(expected.pvalue)
    assert one.interval == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_p_value_interval_and_significance_agree():
    for gains in np.random.default_rng(0).normal(0.02, 0.02, (50, 4)):
        one = made_up(gains, row_error=0.003).differences[0]
        assert one.significant == (one.p_value < 0.05) == (one.interval[0] > 0 or one.interval[1] < 0)


def test_the_same_gain_in_every_seed_is_not_significant_where_it_may_be_luck_of_the_test_rows():
    def fit(kept, seed):  # one of twelve test rows is predicted correctly without row 3, whatever the seed
        return np.array([[0.6, 0.4]] * 11 + [[0.6, 0.4] if not kept[3] else [0.4, 0.6]])

    check = check_by_retraining(fit, [3], [0] * 12, rows=50, seeds=4)
    assert check.differences[0].gain == pytest.approx(1 / 12)
    assert not check.helps("accuracy")
    assert "needs more test rows" in str(check)


def test_one_seed_has_gains_but_no_test_and_says_what_to_type():
    check = made_up([0.02])
    assert {(one.stderr, one.interval, one.p_value, one.seeds_needed) for one in check.differences} == {(None,) * 4}
    assert not check.helps("accuracy")
    assert "+2 points over none" in str(check)
    assert str(check).count("one seed allows no test. Use five: --seeds 5") == 2
    json.dumps(check.as_dict(), allow_nan=False)
    assert check.table()["accuracy_sd"].isna().all()


def test_too_small_a_gain_is_told_with_the_seeds_that_it_would_take():
    gains = np.array([0.05, -0.04, 0.01])
    check = made_up(gains)
    one = check.differences[0]
    assert not one.significant
    assert one.gain == pytest.approx(gains.mean())
    assert one.stderr == pytest.approx(gains.std(ddof=1) / np.sqrt(3))
    assert "not distinguishable from no change or dropping random rows" in str(check)
    assert f"about {one.seeds_needed} seeds" in str(check)


@pytest.mark.parametrize("row_error", [0.0, 0.003])
@pytest.mark.parametrize("spread", [0.2, 0.5])
def test_the_seeds_needed_show_a_gain_of_that_size_in_80_percent_of_cases(spread, row_error):
    gains = 0.0125 + spread * np.array([0.0375, -0.0525, -0.0025, 0.0175])
    needed = made_up(gains, row_error).differences[0].seeds_needed
    rng = np.random.default_rng(0)
    luck = rng.normal(0, row_error, (300, 1))
    draws = rng.normal(gains.mean(), gains.std(ddof=1), (300, needed)) + luck
    shown = [made_up(draw, row_error).differences[0].gains for draw in draws]
    assert 0.74 < np.mean(shown) < 0.88


def test_without_any_gain_no_number_of_seeds_is_promised():
    check = made_up([-0.02, 0.01, -0.01])
    assert check.differences[0].seeds_needed is None
    assert "More seeds would not help, as there is no gain" in str(check)


def test_a_significant_deterioration_is_told():
    check = made_up([-0.02, -0.021, -0.019])
    assert check.differences[0].significant
    assert not check.helps("accuracy")
    assert "significantly worse than no change and dropping random rows" in str(check)


def linear_training(rows, test_rows, seed_noise, rng):
    """Return a stand-in for a training: dropping a row shifts each test row a little, in a direction of its own."""
    margins = rng.normal(1, 1, test_rows)
    shifts = rng.normal(0, 0.1, (rows, test_rows))

    def fit(kept, seed):
        noise = np.random.default_rng([seed, int(kept.sum()), int(np.flatnonzero(~kept).sum())])
        z = margins + shifts[~kept].sum(0) + noise.normal(0, seed_noise, test_rows)
        right = 1 / (1 + np.exp(-z))
        return np.stack([1 - right, right], 1)

    return fit


@pytest.mark.parametrize("seed_noise", [0.02, 0.2, 1.0])
def test_random_rows_are_called_helpful_in_at_most_5_percent_of_simulated_checks(seed_noise):
    rng, called, checks = np.random.default_rng(0), 0, 100
    for place in range(checks):
        fit = linear_training(100, 80, seed_noise, rng)
        dropped = rng.choice(100, 10, replace=False)
        check = check_by_retraining(fit, dropped, np.ones(80, int), rows=100, seeds=range(4 * place, 4 * place + 4))
        called += check.helps("accuracy") or check.helps("loss")
    assert called <= 0.05 * checks


@pytest.mark.parametrize(
    ("dropped", "options", "message"),
    [
        ([], {}, "row numbers from 0 to 499"),
        ([500], {}, "row numbers from 0 to 499"),
        ([0.5], {}, "row numbers from 0 to 499"),
        (np.ones(500, bool), {}, "Drop some, and not all"),
        (np.zeros(500, bool), {}, "Drop some, and not all"),
        ([1], {"seeds": 0}, "one or more, all different, got 0. Give seeds=5"),
        ([1], {"seeds": [3, 3]}, "one or more, all different"),
    ],
)
def test_what_does_not_fit_is_refused(recipe, digits, dropped, options, message):
    with pytest.raises(ApplicationError, match=message):
        check_by_retraining(recipe, dropped, digits.test, **options)


def test_what_does_not_fit_a_function_is_refused(check):
    cases = [
        (lambda: check_by_retraining(lambda kept, seed: [[1.0]], [1], [0]), "how many training rows"),
        (lambda: check_by_retraining(lambda kept, seed: [[0.5, 0.5]], [1], [0, 1], rows=5), "class probabilities"),
        (lambda: check.helps("speed"), "'accuracy' or 'loss'"),
    ]
    for call, message in cases:
        with pytest.raises(ApplicationError, match=message):
            call()
