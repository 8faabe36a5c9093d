"""Lists of training rows."""

import numpy as np

from turnover import Scores
from turnover.report.row_lists import firmly_doubted, standing
from turnover.scores import OutOfSample


def test_a_label_is_firmly_doubted_where_another_is_as_probable_as_usual_for_it():
    probs = [[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.79, 0.21], [0.81, 0.19]]
    labels = [0, 0, 1, 1, 1]
    # Rows with label 0 are usually sure of it by 0.8.
    assert firmly_doubted(OutOfSample(probs, ids=range(5), labels=labels)).tolist() == [
        False,
        False,
        False,
        False,
        True,
    ]


def test_a_class_without_rows_makes_nobody_doubt():
    probs = [[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]]
    assert not firmly_doubted(OutOfSample(probs, ids=[0, 1], labels=[0, 0])).any()


def test_nothing_stands_out_where_noise_is_not_known():
    stands = standing(Scores([1.0, 2.0], ids=[0, 1]), 0.05)
    assert stands.marked is None
    assert stands.p_value(0) is None
    assert stands.count(np.array([True, True])) == 0
    assert not stands.out(1)


def test_what_lies_far_from_noise_stands_out():
    null = np.random.default_rng(0).normal(size=1000)
    stands = standing(Scores([0.1, 50.0, -50.0], ids=[0, 1, 2], null=null), 0.05)
    assert [stands.out(place) for place in range(3)] == [False, True, True]
    assert stands.count(np.array([True, True, False])) == 1
