"""The order of scores: lists, ranks, and lists of parts that become lists of the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import scores_twin
from tests.scores import made_up
from tests.scores.made_up import tables
from turnover.errors import ScoresError
from turnover.scores import Scores, Top


def pairs_of(top, side, query):
    return list(zip(getattr(top, f"{side}_ids")[query], getattr(top, f"{side}_scores")[query], strict=True))


def same_pairs(ours, twins):
    return np.array_equal([i for i, _ in ours], [i for i, _ in twins]) and np.array_equal(
        [s for _, s in ours], [s for _, s in twins], equal_nan=True
    )


@given(tables(), st.integers(1, 6))
def test_lists_are_the_head_and_the_tail_of_the_twins_order(table, k):
    values, ids = table
    top = Scores(values, ids=ids).top(k)
    for query in range(values.shape[1]):
        column = values[:, query].tolist()
        assert same_pairs(pairs_of(top, "helpful", query), scores_twin.helpful(column, ids, k))
        assert same_pairs(pairs_of(top, "harmful", query), scores_twin.harmful(column, ids, k))
    assert top.counts.tolist() == (~np.isnan(values)).sum(axis=0).tolist()


@given(tables())
def test_ranks_are_the_twins(table):
    values, ids = table
    ranks = Scores(values, ids=ids).rank()
    assert ranks.dtype == np.int64
    for query in range(values.shape[1]):
        assert ranks[:, query].tolist() == scores_twin.ranks(values[:, query].tolist(), ids)


@given(tables(unique=True), st.integers(1, 5), st.data())
def test_merged_lists_of_parts_are_the_lists_of_the_whole(table, k, data):
    values, ids = table
    stderr = np.abs(np.nan_to_num(values, posinf=1, neginf=1))
    part = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(ids), max_size=len(ids))), int)
    tops = [
        Scores(values[part == p], ids=np.array(ids, np.int64)[part == p], stderr=stderr[part == p]).top(k)
        for p in data.draw(st.permutations(range(4)))
    ]
    whole = Scores(values, ids=ids, stderr=stderr).top(k)
    assert Top.merge(*tops).equals(whole)
    assert Top.merge(Top.merge(*tops[:2]), Top.merge(*tops[2:])).equals(whole)


def test_a_list_shows_the_standard_errors_of_its_entries():
    top = Scores([[0.5], [-1.0], [2.0]], ids=[7, 8, 9], stderr=[[0.1], [0.2], [0.3]]).top(2)
    assert top.helpful_stderr.tolist() == [[np.float32(0.3), np.float32(0.1)]]
    assert top.harmful_stderr.tolist() == [[np.float32(0.2), np.float32(0.1)]]
    assert np.isnan(Scores([[1.0]], ids=[7], stderr=[[0.1]]).top(2).helpful_stderr[0, 1])
    assert Scores([[1.0]], ids=[7]).top(2).helpful_stderr is None


def test_rows_with_a_spread_of_their_own_show_it_as_their_standard_error():
    top = Scores([1.0, 2.0], ids=[7, 8], null_spread=[0.5, 0.25]).top(1)
    assert top.null_spread is None
    assert top.helpful_stderr.tolist() == [[0.25]]


def test_arrays_of_a_list_are_read_only():
    top = Scores([[1.0]], ids=[7], null_spread=0.5).top(1)
    for name in ("helpful_ids", "helpful_scores", "helpful_stderr", "harmful_ids", "counts", "null_spread"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(top, name)[0] = 0
    with pytest.raises(AttributeError):
        top.counts = None


def test_a_group_may_stand_in_a_list_more_than_once():
    top = Scores([3.0, 1.0, 2.0], ids=[5, 5, 6]).top(3)
    assert top.helpful_ids.tolist() == [[5, 6, 5]]
    other = Scores([4.0], ids=[7]).top(3)
    assert Top.merge(top, other).helpful_ids.tolist() == [[7, 5, 6]]


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_k_must_be_a_number_from_1(k):
    with pytest.raises(ScoresError, match="k must be an integer >= 1"):
        Scores([1.0], ids=[7]).top(k)


def merge_error(**changes):
    base = {"ids": [7], "queries": ["a"], "null_spread": [0.5], "provenance": {"seed": 0}}
    one = Scores([[1.0]], **base).top(1)
    other = {**base, "ids": [8], **changes}
    values = [[1.0] * len(other["queries"])]
    with pytest.raises(ScoresError) as caught:
        Top.merge(one, Scores(values, **other).top(1))
    return str(caught.value)


def test_lists_of_different_things_are_not_merged():
    assert "instance 7 stands in more than one part" in merge_error(ids=[7])
    assert "queries of part 1 differ" in merge_error(queries=["b"])
    assert "unit is 'loss' in part 0 and 'margin' in part 1" in merge_error(unit="margin")
    assert "seed is 0 in part 0 and 1 in part 1" in merge_error(provenance={"seed": 1})
    assert "null_spread is known for some of the parts only" in merge_error(null_spread=None)
    assert "null_spread of part 1 differs" in merge_error(null_spread=[0.6])
    assert "Compute all parts with the same: estimator=turnover.influence.TurnOver(nulls=1024)" in merge_error(
        null_spread=[0.6]
    )
    with pytest.raises(ScoresError, match="part 1 has k=2 and part 0 k=1"):
        Top.merge(Scores([1.0], ids=[7]).top(1), Scores([1.0], ids=[8]).top(2))
    with pytest.raises(ScoresError, match="nothing to join"):
        Top.merge()


@given(made_up.scores(pairs=True), st.data())
def test_lists_of_some_queries_each_become_the_lists_of_all(scores, data):
    cut = data.draw(st.integers(0, len(scores.queries)))
    parts = [scores.select(queries=scores.queries[:cut]).top(2), scores.select(queries=scores.queries[cut:]).top(2)]
    assert Top.concat(parts).equals(scores.top(2))


def test_lists_of_different_things_are_not_put_together():
    one = Scores([[1.0]], ids=[7], queries=["a"]).top(1)
    with pytest.raises(ScoresError, match="two queries have the name 'a'"):
        Top.concat([one, one])
    with pytest.raises(ScoresError, match="unit is 'loss' in part 0 and 'margin' in part 1"):
        Top.concat([one, Scores([[1.0]], ids=[7], unit="margin").top(1)])
    with pytest.raises(ScoresError, match="not about a query"):
        Top.concat([one, Scores([1.0], ids=[7]).top(1)])
    with pytest.raises(ScoresError, match="nothing to join"):
        Top.concat([])


def test_parts_may_say_which_ids_they_are_about():
    parts = [Scores([1.0], ids=[i], path=p, provenance={"ids": i, "seed": 0}).top(1) for i, p in ((7, "a"), (8, "b"))]
    top = Top.merge(*parts)
    assert top.provenance == {"ids": [7, 8], "seed": 0}
    assert top.path == "a | b"


def test_a_list_can_be_made_by_hand_and_is_checked():
    made = {"helpful_ids": [[7]], "helpful_scores": [[1.0]], "harmful_ids": [[8]], "harmful_scores": [[-1.0]]}
    top = Top(**made, counts=[2], queries=("a",))
    assert top.equals(Scores([[1.0], [-1.0]], ids=[7, 8], queries=["a"]).top(1))
    assert not top.equals(Top(**made, counts=[3], queries=("a",)))
    assert not top.equals(7)
    with pytest.raises(ScoresError, match=r"harmful_scores must have shape \[1, 1\].*got \[1, 2\]"):
        Top(**{**made, "harmful_scores": [[1.0, 2.0]]}, counts=[2])
    with pytest.raises(ScoresError, match=r"counts must have shape \[1\].*got \[2\]"):
        Top(**made, counts=[2, 2])
    with pytest.raises(ScoresError, match=r"helpful_ids must have shape \[queries, k\], got \[1\]"):
        Top(**{**made, "helpful_ids": [7]}, counts=[2])
    two = {name: array * 2 for name, array in made.items()}
    with pytest.raises(ScoresError, match="2 pairs of lists; give the names of their queries"):
        Top(**two, counts=[2, 2])
