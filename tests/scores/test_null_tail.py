"""P-values from null ids: right for any kind of noise, and small where there is signal."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import scores_twin
from tests.scores.made_up import FINITE
from turnover.scores import Scores
from turnover.scores.significance import FEWEST_FOR_A_TAIL, NullTail, discoveries, normal_tail

NOISE = {
    "bell": lambda rng, size: rng.normal(size=size),
    "student, 5 df": lambda rng, size: rng.standard_t(5, size=size),
    "double exponential": lambda rng, size: rng.laplace(size=size),
    "changing spread": lambda rng, size: rng.normal(size=size) * np.exp(rng.normal(size=size)),
    "skewed": lambda rng, size: rng.gamma(2.0, size=size) - 2,
    "very skewed": lambda rng, size: rng.lognormal(sigma=0.7, size=size),
    "bounded": lambda rng, size: rng.uniform(-1, 1, size=size),
}
SETS, ROWS, NULLS = 200, 1000, 1024


def pure_noise(kind):
    """Scores of 200 queries on which nothing has any influence."""
    rng = np.random.default_rng(sum(kind.encode()))
    noise = NOISE[kind](rng, (ROWS + NULLS, SETS))
    return Scores(noise[:ROWS], ids=range(ROWS), null=noise[ROWS:])


@pytest.mark.parametrize("kind", NOISE)
def test_one_in_twenty_of_pure_noise_has_a_p_value_below_one_twentieth(kind):
    p = pure_noise(kind).p_values()
    assert 0.04 < (p < 0.05).mean() < 0.06
    assert 0.007 < (p < 0.01).mean() < 0.013


@pytest.mark.parametrize("kind", NOISE)
def test_of_pure_noise_nothing_is_marked_in_nineteen_of_twenty_sets(kind):
    marked = pure_noise(kind).significant().any(axis=0)
    assert marked.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / SETS)


def test_a_bell_curve_would_mark_pure_noise():
    scores = pure_noise("changing spread")
    p = normal_tail(scores.values / scores.null_spread).astype(np.float32)
    assert discoveries(p, 0.05).any(axis=0).mean() > 0.9


def test_strong_influence_is_found_among_thousands_of_rows():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5000, 50))
    values[0] += 8
    found = Scores(values, ids=range(5000), null=rng.normal(size=(1024, 50))).significant()
    assert found[0].mean() > 0.8
    assert found[1:].mean() < 1e-4


def test_p_values_go_far_below_what_ranks_can_tell():
    null = np.random.default_rng(0).normal(size=1024).astype(np.float32)
    assert NullTail(null).p_values(np.array([8.0], np.float32))[0] < 1e-5


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=300), st.integers(0, 99))
@settings(max_examples=40)
def test_what_lies_further_out_is_never_more_probable(scores, seed):
    null = np.random.default_rng(seed).standard_t(3, size=400).astype(np.float32)
    scores = np.array(scores, np.float32)
    p = NullTail(null).p_values(scores)
    center = null.astype(np.float64).mean()
    assert (np.diff(p[np.argsort(np.abs(scores - center))]) <= 0).all()
    assert ((p > 0) & (p <= 1)).all()


@given(st.lists(FINITE, min_size=1, max_size=20), st.integers(2, FEWEST_FOR_A_TAIL - 1), st.integers(0, 9))
def test_with_few_null_ids_p_values_are_the_twins_ranks(scores, count, seed):
    null = np.random.default_rng(seed).integers(-3, 4, size=count).astype(np.float32)
    null[0] = np.nan
    scores = np.array(scores, np.float32)
    twins = [scores_twin.rank_p_value(float(one), null.tolist()) for one in scores]
    np.testing.assert_allclose(NullTail(null).p_values(scores), twins, rtol=1e-6)


def test_noise_that_is_nearly_always_the_same_number_gives_ranks():
    null = np.zeros(1000, np.float32)
    null[:3] = [5, -5, 1]
    assert NullTail(null).p_values(np.array([0.0, 100.0], np.float32))[1] == np.float32(1 / 1001)


def test_failed_pairs_and_queries_without_a_null_have_no_p_value():
    null = np.full((5, 2), np.nan, np.float32)
    null[:, 0] = range(5)
    p = Scores([[np.nan, 1.0], [1.0, 1.0]], ids=[7, 8], null=null).p_values()
    np.testing.assert_array_equal(np.isnan(p), [[True, True], [False, True]])


def test_p_values_do_not_depend_on_the_unit_nor_on_what_is_subtracted_from_all():
    rng = np.random.default_rng(0)
    values, null = rng.standard_t(4, size=300), rng.standard_t(4, size=1024)
    here = Scores(values, ids=range(300), null=null).p_values()
    there = Scores(1000 * values + 50, ids=range(300), null=1000 * null + 50).p_values()
    np.testing.assert_allclose(there, here, rtol=1e-2)
