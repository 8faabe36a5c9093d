"""What scores say of their own reliability: tails, p-values, significance, intervals, noise; and what lists say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.reference import scores_twin
from tests.scores import made_up
from turnover.errors import ScoresError
from turnover.scores import Scores, Top
from turnover.scores.significance import (
    _FEWEST_FOR_A_TAIL,
    discoveries,
    normal_limit,
    null_p_values,
    student_limit,
    student_tail,
)

POINTS = np.concatenate([[0.0], np.geomspace(1e-6, 1e4, 60), -np.geomspace(1e-3, 30, 10)])


@pytest.mark.parametrize("df", [1, 2, 3, 7, 31, 1023, 0.5, 20000])
def test_students_tail_is_that_of_scipy(df):
    expected = 2 * stats.t.sf(np.abs(POINTS), df)
    normal_range = expected > 1e-300
    np.testing.assert_allclose(student_tail(POINTS, df)[normal_range], expected[normal_range], rtol=1e-7)


@pytest.mark.parametrize("p", [0.9, 0.32, 0.05, 1e-3, 1e-8])
def test_limits_are_those_of_scipy(p):
    assert normal_limit(p) == pytest.approx(stats.norm.isf(p / 2), rel=1e-9)
    for df in (1, 2, 7, 100):
        assert student_limit(p, df) == pytest.approx(stats.t.isf(p / 2, df), rel=1e-9)


NOISE = {
    "bell": lambda rng, size: rng.normal(size=size),
    "student, 5 df": lambda rng, size: rng.standard_t(5, size=size),
    "double exponential": lambda rng, size: rng.laplace(size=size),
    "changing variance": lambda rng, size: rng.normal(size=size) * np.exp(rng.normal(size=size)),
    "skewed": lambda rng, size: rng.gamma(2.0, size=size) - 2,
    "very skewed": lambda rng, size: rng.lognormal(sigma=0.7, size=size),
    "bounded": lambda rng, size: rng.uniform(-1, 1, size=size),
}
SETS, ROWS, NULLS = 200, 1000, 1024


def pure_noise(kind):
    rng = np.random.default_rng(sum(kind.encode()))
    noise = NOISE[kind](rng, (ROWS + NULLS, SETS))
    return Scores(noise[:ROWS], ids=range(ROWS), null=noise[ROWS:])


@pytest.mark.parametrize("kind", NOISE)
def test_one_in_twenty_of_pure_noise_has_a_p_value_below_one_twentieth_and_nothing_is_marked_in_nineteen_sets(kind):
    scores = pure_noise(kind)
    p = scores.p_values()
    assert 0.04 < (p < 0.05).mean() < 0.06
    assert 0.007 < (p < 0.01).mean() < 0.013
    marked = discoveries(p, 0.05)
    assert marked.any(axis=0).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / SETS)
    few = scores.select(queries=range(5))
    assert np.array_equal(few.significant(), marked[:, :5])


def test_strong_influence_is_found_among_thousands_of_rows():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5000, 50))
    values[0] += 8
    found = Scores(values, ids=range(5000), null=rng.normal(size=(1024, 50))).significant()
    assert found[0].mean() > 0.8
    assert found[1:].mean() < 1e-4


def test_p_values_go_far_below_what_ranks_can_tell():
    null = np.random.default_rng(0).normal(size=1024).astype(np.float32)
    assert null_p_values(np.float32([[8.0]]).T, null[:, None])[:, 0][0] < 1e-5


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=300), st.integers(0, 99))
@settings(max_examples=40)
def test_what_lies_further_out_is_never_more_probable(scores, seed):
    null = np.random.default_rng(seed).standard_t(3, size=400).astype(np.float32)
    scores = np.array(scores, np.float32)
    p = null_p_values(scores[:, None], null[:, None])[:, 0]
    center = null.astype(np.float64).mean()
    assert (np.diff(p[np.argsort(np.abs(scores - center))]) <= 0).all()
    assert ((p > 0) & (p <= 1)).all()


@given(st.lists(made_up.FINITE, min_size=1, max_size=20), st.integers(2, _FEWEST_FOR_A_TAIL - 1), st.integers(0, 9))
def test_with_few_null_ids_p_values_are_the_twins_ranks(scores, count, seed):
    null = np.random.default_rng(seed).normal(size=count).astype(np.float32)
    null[0] = np.nan
    scores = np.array(scores, np.float32)
    twins = [scores_twin.rank_p_value(float(one), null.tolist()) for one in scores]
    np.testing.assert_allclose(null_p_values(scores[:, None], null[:, None])[:, 0], twins, rtol=1e-6)


def test_noise_that_is_nearly_always_the_same_number_gives_ranks():
    null = np.zeros(1000, np.float32)
    null[:3] = [5, -5, 1]
    assert null_p_values(np.float32([[0.0, 100.0]]).T, null[:, None])[:, 0][1] == np.float32(1 / 1001)


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


SHARES = st.sampled_from([0.0, 1e-4, 0.01, 0.05, 0.5, 1.0, np.nan]) | st.floats(0, 1, width=32)


def replicated(replicas, *, truth=0.0, size=20_000):
    each = np.random.default_rng(replicas).normal(truth, size=(replicas, size))
    stderr = each.std(0, ddof=1) / np.sqrt(replicas)
    return Scores(each.mean(0), ids=range(size), stderr=stderr, replicas=replicas)


@given(st.lists(SHARES, max_size=30), st.sampled_from([0.05, 0.2]))
def test_marks_are_those_of_the_twin(p, level):
    column = np.array(p, np.float32)
    twins = scores_twin.benjamini_hochberg(column.tolist(), level)
    assert discoveries(column[:, None], level)[:, 0].tolist() == twins


@given(st.lists(SHARES, min_size=1, max_size=30), st.integers(0, 29))
def test_what_some_p_values_mark_all_of_them_would_mark(p, size):
    column = np.array(p, np.float32)[:, None]
    count = np.array([np.count_nonzero(~np.isnan(column))])
    some = discoveries(column[:size], 0.05, count)
    assert (some <= discoveries(column, 0.05)[:size]).all()


def test_without_correction_every_small_p_value_is_marked():
    null = np.random.default_rng(0).normal(size=1000)
    scores = Scores(np.random.default_rng(1).normal(size=500), ids=range(500), null=null)
    assert np.array_equal(scores.significant(0.1, correct=False), scores.p_values() <= 0.1)


@pytest.mark.parametrize("replicas", [3, 8])
def test_replicas_alone_mark_one_in_twenty_of_pure_noise_without_correction_and_nothing_with_it(replicas):
    assert 0.04 < replicated(replicas).significant(correct=False).mean() < 0.06
    assert not replicated(replicas).significant().any()


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
def test_without_null_ids_significant_are_those_whose_interval_excludes_zero(level):
    scores = replicated(3)
    low, high = scores.interval(1 - level)
    assert np.array_equal(scores.significant(level, correct=False), (low > 0) | (high < 0))


def test_corrected_marks_of_replicas_are_those_of_the_widened_intervals():
    rng = np.random.default_rng(0)
    scores = Scores(rng.normal(size=400) * np.repeat([1, 20], 200), ids=range(400), stderr=np.ones(400), replicas=8)
    marked = scores.significant()
    assert 0 < marked.sum() < 400
    low, high = scores.interval(1 - 0.05 * marked.sum() / 400)
    assert np.array_equal(marked, (low > 0) | (high < 0))


def test_scores_without_null_ids_have_no_p_values():
    made = {"options": {"estimator": {"name": "curvature"}}}
    scores = Scores([3.0, 0.1], ids=[7, 8], stderr=[0.1, 0.1], replicas=8, provenance=made)
    with pytest.raises(ScoresError, match=r"made by 'curvature', have none.*\.interval\(\).*estimator='tod'"):
        scores.p_values()
    assert scores.top(1).helpful_p is None
    assert scores.top(1).distinguishable().tolist() == [[1, 0]]


@pytest.mark.parametrize("replicas", [3, 8])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_hold_the_truth_as_often_as_they_say(replicas, level):
    low, high = replicated(replicas, truth=2.0).interval(level)
    assert ((low <= 2) & (high >= 2)).mean() == pytest.approx(level, abs=0.015)


def test_one_replica_has_intervals_from_null_ids():
    rng = np.random.default_rng(0)
    scores = Scores(3 + rng.normal(size=(4000, 2)), ids=range(4000), null=rng.normal(size=(1024, 2)))
    low, high = scores.interval()
    assert ((low <= 3) & (high >= 3)).mean() == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("level", [0, 1, -0.5, 5, "0.o5", None, np.nan])
def test_a_level_that_is_no_share_is_rejected(level):
    scores = Scores([1.0], ids=[7], null=[0.0, 1.0])
    for ask in (scores.significant, scores.interval, scores.top(1).distinguishable):
        with pytest.raises(ScoresError, match="must be a share between 0 and 1"):
            ask(level)


def test_two_replicas_are_too_few_for_a_standard_error():
    scores = Scores([1.0], ids=[7], stderr=[0.5], replicas=2)
    for ask in (scores.significant, scores.interval):
        with pytest.raises(ScoresError, match=r"2 replicas are too few.*replicas=3.*null"):
            ask()


def test_scores_without_any_noise_to_compare_with_say_what_is_missing():
    scores = Scores([1.0], ids=[7])
    for ask in (scores.significant, scores.interval):
        with pytest.raises(ScoresError, match=r"there is nothing to tell.*turnover\.Influence"):
            ask()
    with pytest.raises(ScoresError, match="noise of these scores is not known"):
        _ = scores.noise


def test_a_spread_without_its_tails_gives_intervals_and_no_p_values():
    scores = Scores([1.0], ids=[7], null_spread=0.5)
    assert np.concatenate(scores.interval()).tolist() == pytest.approx([1 - 0.98, 1 + 0.98], abs=1e-3)
    with pytest.raises(ScoresError, match="only the standard deviation of null ids"):
        scores.significant()
    with pytest.raises(ScoresError, match="p-values need the scores of null ids"):
        scores.p_values()


@given(made_up.scores())
def test_noise_is_the_twins(scores):
    if scores.null_spread is None and "stderr" not in scores.sources:
        return
    noise = scores.noise
    columns = np.atleast_2d(scores.values.T) if scores.queries is not None else scores.values[None]
    for column, spread, ratio, signal in zip(
        columns, *(np.atleast_1d(part) for part in (noise.std, noise.ratio, noise.signal)), strict=True
    ):
        expected = scores_twin.noise_ratio(column.tolist(), float(spread))
        if not np.isnan(expected) and expected < 1e3:
            assert ratio == pytest.approx(expected, rel=1e-3)
            assert signal == pytest.approx(max(0.0, 1 - expected**2), abs=1e-3)


def found_some():
    """Scores [500, 3]: 4 helpful and 2 harmful instances of the first query, 30 of the second, none of the third."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(500, 3)).clip(-2.5, 2.5)
    values[:4, 0] += 12
    values[4:6, 0] -= 12
    values[:30, 1] += 12
    return Scores(values, ids=range(500), queries=["a", "b", "c"], null=rng.normal(size=(1024, 3)))


def test_lists_say_where_their_order_turns_into_noise():
    scores = found_some()
    assert scores.top(10).distinguishable().tolist() == [[4, 2], [10, 0], [0, 0]]
    marked = scores.significant()
    assert [int(marked[:, query].sum()) for query in range(3)] == [6, 30, 0]


def test_marks_of_lists_that_were_merged_are_those_of_the_whole():
    scores = found_some()
    parts = [scores.select(ids=range(start, start + 100)) for start in range(0, 500, 100)]
    assert Top.merge(*(part.top(10) for part in parts)).equals(scores.top(10))
    bare = [Scores(part.values, ids=part.ids, queries=part.queries).top(10) for part in parts]
    judged = Top.merge(*bare).against(scores.null)
    assert np.array_equal(judged.helpful_p, scores.top(10).helpful_p)
    assert np.array_equal(judged.distinguishable(), scores.top(10).distinguishable())


@given(st.integers(0, 50), st.integers(1, 8), st.integers(1, 12))
def test_nothing_is_marked_in_a_list_that_is_not_marked_in_the_whole(seed, k, rows):
    rng = np.random.default_rng(seed)
    scores = Scores(rng.normal(size=(rows, 2)) * 4, ids=range(rows), null=rng.normal(size=(200, 2)))
    marked, top = scores.significant(), scores.top(k)
    for query, (helpful, harmful) in enumerate(top.distinguishable()):
        assert marked[top.helpful_ids[query, :helpful], query].all()
        assert marked[top.harmful_ids[query, :harmful], query].all()
        assert (top.helpful_scores[query, :helpful] > 0).all()
        assert (top.harmful_scores[query, :harmful] < 0).all()


def test_lists_of_replicas_are_judged_by_their_standard_errors():
    scores = Scores([[50.0], [0.1], [-60.0]], ids=[7, 8, 9], stderr=[[1.0], [1.0], [1.0]], replicas=8)
    assert scores.top(2).distinguishable().tolist() == [[1, 1]]


def test_a_spread_that_stands_for_standard_errors_is_not_taken_for_that_of_replicas():
    top = Scores([[50.0], [0.1]], ids=[7, 8], null_spread=1.0, replicas=8).top(2)
    with pytest.raises(ScoresError, match=r"\.against\(null\)"):
        top.distinguishable()


def test_a_null_of_other_queries_is_rejected():
    with pytest.raises(ScoresError, match=r"null must hold .*got \[9, 2\]"):
        found_some().top(2).against(np.zeros((9, 2)))


def test_lists_that_know_their_noise_mark_what_is_significant():
    lines = repr(found_some().top(10)).splitlines()
    # Three entries are shown: four of a's helpful ones and two of its harmful ones are significant.
    helpful, harmful = lines[2].split("...", 1)
    assert helpful.count(")*") == 3
    assert harmful.count(")*") == 2
    assert "*" not in lines[4]
    assert lines[-1] == "  * significant (FDR 5 %)"


def test_replicas_may_disagree_on_an_entry_between_others_on_which_they_agree():
    stderr = np.float32([[0.1], [6.0], [0.1], [0.1]])
    top = Scores([[9.0], [8.0], [7.0], [-9.0]], ids=[1, 2, 3, 4], stderr=stderr, replicas=8).top(3)
    helpful, harmful = top.significant()
    assert (helpful.tolist(), harmful[0].tolist()) == ([[True, False, True]], [True, False, False])
    assert top.distinguishable().tolist() == [[1, 1]]
