"""Lists of training rows."""

import numpy as np

from turnover import Scores
from turnover.applications.near_duplicates import Duplicates
from turnover.scores import OutOfSample
from turnover.ui.html.mistakes import unseen_of
from turnover.ui.html.row_lists import disbelieved_unseen, duplicate_groups, firmly_doubted, standing


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


def test_unseen_rows_are_asked_of_parts_that_never_saw_them_as_training_rows_are(table_run):
    # Training rows asked in the same way are asked of their own parts: the answers must be those of the run.
    places = table_run.places("train")
    said = table_run.out_of_sample.probs.argmax(1)
    wrong = int((said != table_run.rows.labels[places]).sum())
    assert disbelieved_unseen(table_run, places, most=len(places)) == (len(places), wrong)
    assert 0 < wrong < len(places)


def test_of_many_unseen_rows_some_are_asked_and_of_none_none(table_run):
    unseen = unseen_of(table_run).rows
    asked, disbelieved = disbelieved_unseen(table_run, unseen, most=10)
    assert asked == 10
    assert 0 <= disbelieved <= 10
    assert disbelieved_unseen(table_run, unseen[:0]) == (0, 0)


def test_only_sets_with_a_training_row_and_an_unseen_one_are_trained_and_tested_on(text_run):
    train, validation, test = (text_run.places(split).tolist() for split in ("train", "validation", "test"))
    sets = ((validation[0], test[0]), (train[0], train[1]), (train[2], validation[1]), (train[3], test[1]))
    found = Duplicates(sets, (True,) * 4, np.full(len(text_run.rows), -1), 0.9)
    differ = {group.rows: group.splits_differ for group in duplicate_groups(text_run, found)}
    assert [differ[rows] for rows in sets] == [False, False, True, True]
