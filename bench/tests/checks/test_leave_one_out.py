"""Correlation with leave-one-out retraining."""

import numpy as np
import pytest
from scipy import stats

from turnover.errors import ScoresError
from turnover.evaluation import Bootstrap
from turnover.scores import Scores
from turnover_bench.checks import loo_correlation

FAST = Bootstrap(draws=200)


def truth(rows=30, queries=6):
    return np.random.default_rng(0).normal(size=(rows, queries))


def test_the_truth_has_one_and_chance_about_zero():
    values = np.random.default_rng(1).normal(size=(2, 100, 40))
    perfect, chance = (loo_correlation(scores, values[0], bootstrap=FAST) for scores in values)
    for kind in ("pearson", "spearman"):
        assert getattr(perfect, kind).mean == pytest.approx(1.0)
        assert getattr(perfect, kind).pooled == pytest.approx(1.0)
        assert abs(getattr(chance, kind).mean) < 0.05
        assert 0.0 in getattr(chance, kind).interval


def test_values_are_those_of_scipy():
    scores, retrained = np.random.default_rng(2).integers(-3, 4, size=(2, 15, 4)).astype(float)
    found = loo_correlation(scores, retrained, bootstrap=FAST)
    each = [stats.spearmanr(scores[:, query], retrained[:, query]).statistic for query in range(4)]
    assert np.allclose(found.spearman.per_query, each, rtol=0, atol=1e-12)
    assert found.pearson.pooled == pytest.approx(stats.pearsonr(scores.ravel(), retrained.ravel()).statistic)


def test_seeds_are_averaged_and_shown_each():
    noisy = truth() + np.random.default_rng(4).normal(size=(8, 30, 6))
    found = loo_correlation(truth(), noisy, bootstrap=FAST)
    assert found.seeds == len(found.pearson.per_seed) == 8
    assert found.pearson.mean > found.pearson.per_seed.max()
    assert found.pearson.interval.low < found.pearson.mean
    listed = [Scores(one, ids=np.arange(30)) for one in noisy]
    assert loo_correlation(truth(), listed, bootstrap=FAST).pearson.mean == pytest.approx(found.pearson.mean, abs=1e-6)


def test_rows_that_were_left_out_are_found_among_all_by_their_ids():
    ids, some = np.arange(30) + 100, [20, 3, 11, 8]
    retrained = Scores(truth()[some], ids=ids[some])
    assert loo_correlation(Scores(truth(), ids=ids), retrained, bootstrap=FAST).pearson.mean == pytest.approx(1.0)
    assert loo_correlation(truth(), retrained, ids=ids, bootstrap=FAST).rows == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: loo_correlation(truth()[:, :5], truth()), r"scores are \[30, 5\]"),
        (lambda: loo_correlation(truth()[:2], truth()[:2]), "Leave out at least 3"),
        (
            lambda: loo_correlation(Scores(truth(), ids=np.arange(30)), Scores(truth()[:4], ids=[1, 2, 3, 99])),
            "lack 1 of 4 instances",
        ),
        (lambda: loo_correlation(truth(), np.zeros((30, 6))), "changes nothing"),
        (
            lambda: loo_correlation(truth(), [Scores(truth(), ids=range(30)), Scores(truth()[:, :5], ids=range(30))]),
            "differ in rows or queries",
        ),
    ],
)
def test_bad_input_is_rejected_with_the_cure(call, message):
    with pytest.raises(ScoresError, match=message):
        call()
