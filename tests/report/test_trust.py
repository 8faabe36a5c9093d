"""Noise beside scores."""

import numpy as np

from turnover import Scores
from turnover.report.trust import histogram_of, verdict_of


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
