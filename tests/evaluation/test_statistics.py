"""Correlations of columns, against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from turnover.evaluation.statistics import average_ranks, spearman

# Few different values, so that most columns have ties and some are constant.
TIED = arrays.arrays(
    np.float64, st.tuples(st.integers(3, 12), st.just(2)), elements=st.sampled_from([-1.5, 0.0, 0.1, 7.0])
)
FINITE = arrays.arrays(
    np.float64, st.tuples(st.integers(3, 12), st.just(2)), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
)


@given(TIED | FINITE)
def test_average_ranks_are_those_of_scipy(values):
    assert np.array_equal(average_ranks(values), stats.rankdata(values, axis=0))


@given(TIED)
def test_spearman_is_that_of_scipy_with_ties_and_nan_for_constants(values):
    with np.errstate(all="ignore"):
        found = float(spearman(values[:, 0], values[:, 1]))
    if np.ptp(values, 0).min() == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(stats.spearmanr(values[:, 0], values[:, 1]).statistic, abs=1e-12)


def test_a_constant_column_has_no_correlation_even_if_its_mean_is_rounded():
    constant, varying = np.full(7, 0.1), np.arange(7.0)
    assert np.isnan(spearman(constant, varying))
