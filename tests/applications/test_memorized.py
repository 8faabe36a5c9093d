"""Self-influence and likely label errors."""

import numpy as np
import pytest
import torch

import turnover
from turnover.applications import memorized, near_duplicates
from turnover.applications.labels import ClassLabels
from turnover.errors import ApplicationError
from turnover.evaluation import mislabel_detection


@pytest.fixture(scope="module")
def found(digits):
    return memorized(digits.influence)


def test_most_changed_labels_are_at_the_head_of_the_list(found, digits):
    first = found.order[:50]
    assert digits.wrong[first].mean() > 0.7
    suspicion = np.empty(500)
    suspicion[found.order] = -np.arange(500)
    assert mislabel_detection(suspicion, digits.wrong).auc > 0.95


def test_likely_wrong_rows_are_all_whose_label_is_not_the_most_probable(found):
    rows = found.likely_label_errors()
    assert len(rows) == found.disagreements
    assert all(row.likely_label_error for row in rows)
    assert [row.p_wrong for row in rows] == sorted((row.p_wrong for row in rows), reverse=True)
    assert (found.out_of_sample.probs.argmax(1) != found.labels.values)[found.order].argmin() == len(rows)


def test_the_most_memorized_rows_have_the_highest_self_influence(found, digits):
    rows = found.most_memorized(30)
    assert [row.self_influence for row in rows] == sorted(found.self_influence.values.tolist(), reverse=True)[:30]
    assert digits.wrong[[row.position for row in rows]].mean() > 0.5


def test_rows_with_near_duplicates_say_that_they_are_not_truly_unseen(digits):
    x, y = digits.x[:60].clone(), digits.y[:60].clone()
    x[1], y[1] = x[0], y[0]  # the same with one label
    x[3], y[3] = x[2], (y[2] + 1) % 10  # the same with another
    inf = turnover.Influence(digits.model, estimator="tod", train=(x, y, torch.arange(60)))
    rows = memorized(inf, duplicates=near_duplicates(features=x, threshold=0.999)).at(range(6))
    assert rows[0].duplicates == (1,)
    assert not rows[0].duplicates_disagree
    assert "not truly held out" in str(rows[0])
    assert rows[3].duplicates_disagree
    assert "a near-duplicate has another label" in str(rows[2])
    assert rows[5].duplicates == ()
    assert "duplicate" not in str(rows[5])


def test_what_was_computed_before_is_taken(found, digits):
    again = memorized(digits.influence, self_influence=found.self_influence, out_of_sample=found.out_of_sample)
    assert np.array_equal(again.order, found.order)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [1, 2]}, "one label for each"),
        ({"labels": np.full(500, 3)}, "Give two classes or more"),
        ({"labels": np.arange(500)}, "from 0 to 9"),
        ({"duplicates": near_duplicates(["a", "b"])}, "among 2 rows, and there are 500"),
    ],
)
def test_what_does_not_fit_is_refused(digits, found, options, message):
    with pytest.raises(ApplicationError, match=message):
        memorized(digits.influence, self_influence=found.self_influence, out_of_sample=found.out_of_sample, **options)


def test_scores_and_predictions_of_other_rows_are_refused(digits, found):
    two = found.self_influence.select(ids=[1, 2])
    with pytest.raises(ApplicationError, match="different rows"):
        memorized(digits.influence, self_influence=two, out_of_sample=found.out_of_sample)


def test_memorized_rows_have_a_positive_and_significant_self_influence(found):
    own = found.self_influence
    assert found.count == int((own.significant(0.05) & (own.values > 0)).sum())
    finding = found.find_memorized(most=20)
    assert finding.share == found.count / 500 <= finding.share_positive == found.share_positive
    assert [one.row for one in finding.items] == [one.row for one in found.most_memorized(20)]


@pytest.mark.parametrize(
    ("probs", "labels", "confident"),
    [
        # Rows with label 0 are usually sure of it by 0.8.
        ([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.79, 0.21], [0.81, 0.19]], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1]),
        # A class without rows is never more probable than usual.
        ([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], [0, 0], [0, 0]),
    ],
)
def test_a_label_error_is_confident_where_another_label_is_as_probable_as_usual_for_it(probs, labels, confident):
    beside = ClassLabels(np.array(labels)).beside(np.array(probs))
    assert beside.confident.tolist() == [bool(one) for one in confident]
