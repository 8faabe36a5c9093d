"""Detection of wrong labels."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from turnover.errors import ScoresError
from turnover.evaluation import mislabel_detection
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
    recall = np.mean([np.cumsum(wrong[order]) / 3 for order in orders], axis=0)
    for looked_at in range(1, 6):
        found = mislabel_detection(suspicion, wrong, share=looked_at / 5).found
        assert found == pytest.approx(recall[looked_at - 1])


def test_a_perfect_suspicion_finds_all_and_a_constant_one_a_tenth():
    wrong = np.arange(200) % 10 == 0
    perfect, constant = mislabel_detection(wrong.astype(float), wrong), mislabel_detection(np.zeros(200), wrong)
    assert (perfect.auc, perfect.found) == (1.0, 1.0)
    assert constant.auc == 0.5
    assert constant.found == pytest.approx(0.1)


def test_rows_of_scores_are_found_by_their_ids():
    assert mislabel_detection(Scores([0.1, 5.0], ids=[7, 8]), [True, False], ids=[8, 7]).auc == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mislabel_detection([1.0, 2.0, 3.0], [False] * 3), "0 of 3 rows are wrong"),
        (lambda: mislabel_detection([1.0, 2.0, 3.0], [True] * 3), "3 of 3 rows are wrong"),
        (lambda: mislabel_detection([1.0, 2.0, 3.0], [True, False]), r"\[3, 1\] for 2 rows"),
        (lambda: mislabel_detection([1.0, 2.0], [1, 0]), "is_wrong is int64"),
        (lambda: mislabel_detection([1.0, 2.0], [True, False], share=0), "`share` must be .* got 0"),
    ],
)
def test_bad_input_is_rejected_with_the_cure(call, message):
    with pytest.raises(ScoresError, match=message):
        call()
