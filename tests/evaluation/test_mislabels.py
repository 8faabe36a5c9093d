"""Detection of wrong labels."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from turnover.errors import ScoresError
from turnover.evaluation import mislabel_detection, suspicion_of
from turnover.scores import Scores

ROWS = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), st.booleans()), min_size=2, max_size=20)


@given(ROWS)
def test_auc_is_that_of_sklearn_with_ties(rows):
    suspicion, wrong = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    assume(0 < wrong.sum() < len(wrong))
    assert mislabel_detection(suspicion, wrong).auc == pytest.approx(roc_auc_score(wrong, suspicion), abs=1e-12)


def test_equally_suspicious_rows_count_as_the_mean_over_their_orders():
    suspicion, wrong = np.array([2.0, 1.0, 1.0, 1.0, 0.0]), np.array([False, True, False, True, True])
    orders = [[0, *middle, 4] for middle in itertools.permutations([1, 2, 3])]
    precision = np.mean([np.cumsum(wrong[order]) / np.arange(1, 6) for order in orders], axis=0)
    found = mislabel_detection(suspicion, wrong, share=0.4)
    assert np.allclose(found.precision, precision)
    assert found.found == pytest.approx(precision[1] * 2 / 3)
    assert found.recall[-1] == pytest.approx(1.0)


def test_a_perfect_suspicion_finds_all_and_a_constant_one_a_tenth():
    wrong = np.arange(200) % 10 == 0
    perfect, constant = mislabel_detection(wrong.astype(float), wrong), mislabel_detection(np.zeros(200), wrong)
    assert (perfect.auc, perfect.found) == (1.0, 1.0)
    assert constant.auc == 0.5
    assert constant.found == pytest.approx(0.1)


def test_a_random_suspicion_is_no_better_than_chance():
    rng = np.random.default_rng(0)
    wrong = rng.random(4000) < 0.1
    found = mislabel_detection(rng.normal(size=4000), wrong)
    assert abs(found.auc - 0.5) < 0.06
    assert abs(found.found - 0.1) < 0.06


def test_low_mean_influence_and_high_self_influence_are_suspicious():
    harmful, ids = Scores([[1.0, 0.0], [-2.0, -1.0]], ids=[7, 8]), [8, 7]
    assert mislabel_detection(suspicion_of(harmful, by="mean"), [True, False], ids=ids).auc == 1.0
    memorized = Scores([0.1, 5.0], ids=[7, 8])
    assert mislabel_detection(suspicion_of(memorized, by="self"), [True, False], ids=ids).auc == 1.0


def test_monotone_rescaling_changes_nothing():
    rng = np.random.default_rng(0)
    suspicion, wrong = rng.normal(size=50), rng.random(50) < 0.3
    one, other = mislabel_detection(suspicion, wrong), mislabel_detection(np.exp(suspicion), wrong)
    assert one.auc == other.auc
    assert np.array_equal(one.precision, other.precision)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mislabel_detection([1.0, 2.0, 3.0], [False] * 3), "0 of 3 rows are wrong"),
        (lambda: mislabel_detection([1.0, 2.0, 3.0], [True] * 3), "3 of 3 rows are wrong"),
        (lambda: mislabel_detection([1.0, 2.0, 3.0], [True, False]), r"\[3, 1\] for 2 rows"),
        (lambda: mislabel_detection([1.0, 2.0], [1, 0]), "is_wrong is int64"),
        (lambda: mislabel_detection([1.0, 2.0], [True, False], share=0), "`share` must be .* got 0"),
        (lambda: suspicion_of(Scores([1.0], ids=[0]), by="high"), "`by` must be .* got 'high'"),
        (lambda: suspicion_of(Scores([[1.0]], ids=[0]), by="self"), "one score per row"),
    ],
)
def test_bad_input_is_rejected_with_the_cure(call, message):
    with pytest.raises(ScoresError, match=message):
        call()
