"""The linear datamodeling score and its ceiling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from turnover.errors import ScoresError
from turnover.evaluation import Bootstrap, lds, retraining_ceiling
from turnover.scores import Scores

FAST = Bootstrap(draws=200)


def made_up(seed=0, rows=40, queries=12, subsets=60, noise=0.0, seeds=1):
    """Return true help, subsets, and losses that fall as help adds up, with retraining noise."""
    rng = np.random.default_rng(seed)
    helps = rng.normal(size=(rows, queries))
    chosen = rng.random((subsets, rows)) < 0.5
    expected = 5.0 - chosen @ helps
    spread = expected.std(0)
    return helps, chosen, expected + noise * spread * rng.normal(size=(seeds, subsets, queries))


def test_a_perfect_attribution_has_one_and_its_opposite_minus_one():
    helps, subsets, losses = made_up()
    assert lds(helps, subsets, losses, bootstrap=FAST).value == pytest.approx(1.0)
    assert lds(-helps, subsets, losses, bootstrap=FAST).value == pytest.approx(-1.0)


@given(st.integers(0, 10_000))
def test_each_query_is_spearmans_correlation_of_scipy_with_ties(seed):
    rng = np.random.default_rng(seed)
    scores, subsets = rng.integers(-2, 3, size=(6, 3)).astype(float), rng.random((8, 6)) < 0.5
    losses = rng.integers(0, 3, size=(8, 3)).astype(float)
    predicted = subsets @ scores
    if np.ptp(predicted, 0).min() == 0 or np.ptp(losses, 0).min() == 0:
        return
    correlations = [stats.spearmanr(predicted[:, query], -losses[:, query]).statistic for query in range(3)]
    per_query = lds(scores, subsets, losses, bootstrap=Bootstrap(draws=1)).per_query
    assert np.allclose(per_query, correlations, rtol=0, atol=1e-12)


def test_positive_scale_of_a_query_and_one_offset_for_all_rows_change_nothing_for_subsets_of_one_size():
    helps, _, _ = made_up()
    rng = np.random.default_rng(1)
    subsets = np.argsort(rng.random((50, 40)), axis=1) < 20
    losses = -(subsets @ helps) + 3 * rng.normal(size=(50, 12))
    rescaled = helps * rng.uniform(0.1, 10, size=12) + rng.normal(size=12)
    one, other = (lds(scores, subsets, losses, bootstrap=FAST).per_query for scores in (helps, rescaled))
    assert np.allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("noise", "seeds"), [(0.5, 2), (1.0, 2), (1.0, 4), (2.0, 3)])
def test_the_ceiling_is_what_the_truth_reaches_under_retraining_noise(noise, seeds):
    helps, subsets, losses = made_up(queries=80, subsets=100, noise=noise, seeds=seeds)
    found = lds(helps, subsets, losses, bootstrap=FAST)
    assert found.ceiling.value == pytest.approx(found.value, abs=0.03)
    # Averages over R seeds of unit signal and noise² / R have this correlation with the signal.
    assert found.value == pytest.approx(1 / np.sqrt(1 + noise**2 / seeds), abs=0.05)


def test_pure_noise_has_a_ceiling_near_zero_and_one_seed_has_none():
    noise = np.random.default_rng(0).normal(size=(2, 60, 80))
    # The square root makes much of little: r = 0.02 gives 0.2.
    assert retraining_ceiling(noise, bootstrap=FAST).value < 0.25
    helps, subsets, losses = made_up()
    assert lds(helps, subsets, losses[0], bootstrap=FAST).ceiling is None
    with pytest.raises(ScoresError, match="says nothing about noise"):
        retraining_ceiling(losses)


def test_the_interval_covers_the_mean_of_all_queries_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    helps, subsets, losses = made_up(queries=600, noise=1.0)
    whole = lds(helps, subsets, losses, bootstrap=FAST).value
    hits = 0
    for _ in range(60):
        some = rng.choice(600, 30, replace=False)
        hits += whole in lds(helps[:, some], subsets, losses[..., some], bootstrap=FAST).interval
    assert 50 <= hits <= 60


def test_a_method_that_says_nothing_counts_as_zero_and_a_query_without_spread_not_at_all():
    helps, subsets, losses = made_up()
    helps[:, 0] = 0.0
    losses[..., 1] = 3.0
    found = lds(helps, subsets, losses, bootstrap=FAST)
    assert found.per_query[0] == 0
    assert np.isnan(found.per_query[1])
    assert found.value == pytest.approx(10 / 11)


def test_rows_of_scores_are_found_by_their_ids():
    helps, subsets, losses = made_up()
    ids, order = np.arange(40) * 7 + 3, np.random.default_rng(0).permutation(40)
    scores = Scores(helps[order], ids=ids[order])
    assert lds(scores, subsets, losses, ids=ids, bootstrap=FAST).value == pytest.approx(1.0, abs=1e-6)


HELPS, SUBSETS, LOSSES = made_up()
IDS = np.arange(40)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lds(HELPS[:39], SUBSETS, LOSSES), r"scores are \[39, 12\]"),
        (lambda: lds(HELPS, SUBSETS[:2], LOSSES[:, :2]), "2 subsets cannot be ranked"),
        (lambda: lds(HELPS, SUBSETS[:59], LOSSES), "of 60 subsets"),
        (lambda: lds(HELPS, SUBSETS.astype(int), LOSSES), "subsets are int64"),
        (lambda: lds(HELPS, SUBSETS, np.where(LOSSES.max() == LOSSES, np.nan, LOSSES)), "a training diverged"),
        (lambda: lds(np.where(HELPS.max() == HELPS, np.inf, HELPS), SUBSETS, LOSSES), "1 of 480 scores are not finite"),
        (lambda: lds(HELPS, SUBSETS, np.ones_like(LOSSES)), "nothing to rank"),
        (lambda: lds(Scores(HELPS, ids=IDS + 1), SUBSETS, LOSSES), "ids of their own"),
        (lambda: lds(Scores(HELPS, ids=IDS + 1), SUBSETS, LOSSES, ids=IDS), r"lack 1 of 40 instances \(\[0\]"),
        (lambda: lds(Scores(HELPS, ids=IDS // 2), SUBSETS, LOSSES, ids=IDS), "cannot be told apart"),
    ],
)
def test_bad_input_is_rejected_with_the_cure(call, message):
    with pytest.raises(ScoresError, match=message):
        call()
