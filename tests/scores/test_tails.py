"""Tails and limits of two distributions, against scipy."""

import numpy as np
import pytest
from scipy import stats

from turnover.scores.significance import normal_limit, normal_tail, student_limit, student_tail

POINTS = np.concatenate([[0.0], np.geomspace(1e-6, 1e4, 60), -np.geomspace(1e-3, 30, 10)])


@pytest.mark.parametrize("df", [1, 2, 3, 7, 31, 1023, 0.5, 20000])
def test_students_tail_is_that_of_scipy(df):
    expected = 2 * stats.t.sf(np.abs(POINTS), df)
    normal_range = expected > 1e-300
    np.testing.assert_allclose(student_tail(POINTS, df)[normal_range], expected[normal_range], rtol=1e-7)


def test_the_normal_tail_is_that_of_scipy():
    np.testing.assert_allclose(normal_tail(POINTS), 2 * stats.norm.sf(np.abs(POINTS)), rtol=1e-12)


def test_infinity_has_no_tail_and_nan_stays():
    ends = np.array([np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(student_tail(ends, 5), [0, 0, np.nan])
    np.testing.assert_array_equal(normal_tail(ends), [0, 0, np.nan])


@pytest.mark.parametrize("p", [0.9, 0.32, 0.05, 1e-3, 1e-8])
def test_limits_are_those_of_scipy(p):
    assert normal_limit(p) == pytest.approx(stats.norm.isf(p / 2), rel=1e-9)
    for df in (1, 2, 7, 100):
        assert student_limit(p, df) == pytest.approx(stats.t.isf(p / 2, df), rel=1e-9)
