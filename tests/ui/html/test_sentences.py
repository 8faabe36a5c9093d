"""Headlines and sentences: what would alarm a reader without reason is explained; advice says what to do."""

import numpy as np
import pytest

from tests.ui.html.made_data import label_error, made_data
from turnover import Scores
from turnover.applications import LabelErrors, NearDuplicates
from turnover.applications.findings import score_noise
from turnover.applications.results import histogram
from turnover.ui.html.sentences import (
    duplicates_headline,
    label_errors_expected,
    label_errors_headline,
)

ROWS = made_data().by_number


def test_near_duplicates_across_splits_come_with_advice():
    across = duplicates_headline(NearDuplicates(5, 0, 2, ()), grouped=False)
    assert "2 with both training rows and validation or test rows" in across.sentence
    assert "remove one side of each" in across.sentence
    assert "--group" in across.sentence
    assert "--group" not in duplicates_headline(NearDuplicates(5, 0, 2, ()), grouped=True).sentence
    assert "remove" not in duplicates_headline(NearDuplicates(5, 0, 0, ()), grouped=False).sentence
    assert duplicates_headline(NearDuplicates(0, 0, 0, ()), grouped=False) is None


@pytest.mark.parametrize(
    ("count", "disagreements", "follows"),
    [
        (20, 5, "5 of the training rows: expect about that many of the 20 to have correct labels."),
        (20, 15, "15 of the training rows: expect about that many of the 20 to have correct labels."),
        (20, 0, "which would be 0 of the training rows."),
        (20, 30, "errors of the network may explain all of these."),
    ],
)
def test_the_headline_on_label_errors_says_how_many_to_expect_of_correct_labels(count, disagreements, follows):
    # Of 100 training rows; 200 others were predicted by flipped subnetworks, too.
    errors = LabelErrors(100, count, 3, 200, 2 * disagreements, (label_error(3),))
    headline = label_errors_headline(errors, ROWS)
    assert headline.figure == str(count)
    assert headline.sentence.startswith("likely label errors (20.0 % of the training rows; 3 confident)")
    assert headline.sentence.endswith(follows)


def test_a_likely_label_error_whose_held_out_prediction_agrees_says_so():
    errors = LabelErrors(100, 20, 3, 200, 10, (label_error(3, held_out_label=label_error(3).label),))
    headline = label_errors_headline(errors, ROWS)
    assert "held-out prediction the same, but predicted otherwise during training" in headline.sentence


@pytest.mark.parametrize(
    ("count", "expected", "interval", "words"),
    [
        (2000, 1500, (1200, 1800), "Expect about 1,500 of them to be wrong labels (90 % interval: 1,200 to 1,800)."),
        (7, 4, (0, 7), "Expect about 4 of them to be wrong labels (90 % interval: 0 to 7)."),
        (1, 1, (1, 1), "Expect it to be a wrong label."),
        (1, 1, (0, 1), "It may be a wrong label, or a hard row."),
        (0, 0, (0, 0), ""),
    ],
)
def test_by_the_record_of_a_training_the_number_of_wrong_labels_has_an_interval(count, expected, interval, words):
    errors = LabelErrors(3000, count, 0, 0, 0, (), expected, interval)
    assert label_errors_expected(errors) == words


@pytest.mark.parametrize("errors", [LabelErrors(100, 3, 0, 0, 0, ()), LabelErrors(100, 0, 0, 10, 1, ())])
def test_without_unseen_rows_or_errors_nothing_is_expected(errors):
    assert label_errors_expected(errors) == ""


def test_failed_scores_and_equal_ones_do_not_break_the_histogram():
    assert sum(histogram(Scores([1.0, 1.0, np.nan], ids=[0, 1, 2])).counts) == 2
    assert histogram(Scores([np.nan], ids=[0])) is None


def test_nothing_is_significant_where_noise_is_not_known():
    noise = score_noise("mean_influence", Scores([1.0, 2.0], ids=[0, 1]), 0.05)
    assert (noise.significant, noise.signal) == (0, None)


def test_what_lies_far_from_the_null_ids_is_significant():
    null = np.random.default_rng(0).normal(size=1000)
    assert score_noise("mean_influence", Scores([0.1, 50.0, -50.0], ids=[0, 1, 2], null=null), 0.05).significant == 2
