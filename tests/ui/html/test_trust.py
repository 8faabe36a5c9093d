"""Noise beside scores."""

import numpy as np
import pytest

from turnover import Scores
from turnover.ui.html.data_rows import Mistake
from turnover.ui.html.row_lists import Standing
from turnover.ui.html.trust import histogram_of, trust_of, verdict_of


def test_noise_is_drawn_as_if_there_were_as_many():
    rng = np.random.default_rng(0)
    scores = Scores(rng.normal(size=500), ids=range(500), null=rng.normal(size=1000))
    histogram = histogram_of(scores, noise=True)
    assert histogram is not None
    assert sum(histogram.counts) == 500
    assert abs(sum(histogram.noise) - 500) < 1e-6
    assert len(histogram.edges) == len(histogram.counts) + 1


def test_failed_scores_and_equal_ones_do_not_break_the_picture():
    histogram = histogram_of(Scores([1.0, 1.0, np.nan], ids=[0, 1, 2]))
    assert histogram is not None
    assert sum(histogram.counts) == 2
    assert histogram_of(Scores([np.nan], ids=[0])) is None


def test_too_few_replicas_for_standard_errors_are_told():
    assert "--replicas" in verdict_of((), None)


@pytest.mark.parametrize(
    ("meaningful", "said"),
    [
        ([0, 0, 0, 0], "Behind none of the 4 errors shown does a row stand out: single scores say little here."),
        ([2, 0, 0, 0], "Behind 1 of the 4 errors shown a row stands out, behind most of them none"),
        ([2, 1, 1, 0], "Behind 3 of the 4 errors shown at least one row stands out"),
    ],
)
def test_what_to_expect_of_single_scores_follows_what_was_found(text_run, meaningful, said):
    mistakes = tuple(Mistake(0, "good", 0.9, "bad", (), (), leading, 0) for leading in meaningful)
    nothing = Standing(None, None)
    reading = trust_of(text_run, mistakes, nothing, nothing, level=0.05).expected_reading
    assert said in reading
    assert "can be told from noise" not in reading
    assert "so that" not in reading


def test_without_errors_to_go_by_the_rule_of_thumb_is_read(text_run):
    nothing = Standing(None, None)
    reading = trust_of(text_run, (), nothing, nothing, level=0.05).expected_reading
    assert "By rule of thumb" in reading
    assert ", so that" in reading


def test_one_row_has_no_order(text_run):
    marked = np.zeros(len(text_run.mean_influence), bool)
    marked[0] = True
    trust = trust_of(text_run, (), Standing(None, None), Standing(marked, None), level=0.05)
    assert trust.of[1].reading == "One row stands out; the order of the others is mostly noise."
