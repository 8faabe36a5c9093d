"""Several results as one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scores import made_up
from turnover.errors import ScoresError
from turnover.scores import Scores


@given(made_up.scores(pairs=True), st.data())
def test_parts_by_query_become_the_whole(scores, data):
    cut = data.draw(st.integers(0, len(scores.queries)))
    parts = [scores.select(queries=scores.queries[:cut]), scores.select(queries=scores.queries[cut:])]
    assert Scores.concat(parts).equals(scores)


@given(made_up.scores(), st.data())
def test_parts_by_id_become_the_whole(scores, data):
    cut = data.draw(st.integers(0, len(scores)))
    parts = [scores.select(ids=scores.ids[:cut]), scores.select(ids=scores.ids[cut:])]
    assert Scores.concat(parts, over="ids").equals(scores)


def test_queries_without_names_are_numbered_anew():
    one, two = Scores([[1.0, 2.0]], ids=[7]), Scores([[3.0]], ids=[7])
    assert Scores.concat([one, two]).queries == (0, 1, 2)
    named = Scores([[3.0]], ids=[7], queries=["a"])
    assert Scores.concat([one, named]).queries == (0, 1, "a")
    with pytest.raises(ScoresError, match="two queries have the name 'a'"):
        Scores.concat([named, named])


def test_paths_are_listed_and_so_is_what_the_parts_are_about():
    one = Scores([[1.0]], ids=[7], path="broadcast", provenance={"queries": "ab12", "seed": 0})
    two = Scores([[2.0]], ids=[7], path="expanded", provenance={"queries": "cd34", "seed": 0})
    both = Scores.concat([one, two, one.select()])
    assert both.path == "broadcast | expanded"
    assert both.provenance == {"queries": ["ab12", "cd34", "ab12"], "seed": 0}
    with pytest.raises(ScoresError, match="queries is 'ab12' in part 0 and 'cd34' in part 1"):
        Scores.concat([one, two], over="ids")


def test_rows_of_their_own_offset_keep_it():
    one = Scores([1.0], ids=[7], offset=[0.5], null_spread=1.0)
    two = Scores([2.0, 3.0], ids=[8, 9], offset=0.25, null_spread=1.0)
    both = Scores.concat([one, two], over="ids")
    assert both.offset.tolist() == [0.5, 0.25, 0.25]
    assert both.null_spread.tolist() == 1.0


def rejection(over, **changes):
    base = {"ids": [7], "queries": ["a"], "null": [[0.5], [1.0]], "offset": [0.5], "provenance": {"seed": 0}}
    new = {"queries": ["b"]} if over == "queries" else {"ids": [8]}
    with pytest.raises(ScoresError) as caught:
        Scores.concat([Scores([[1.0]], **base), Scores([[2.0]], **{**base, **new, **changes})], over=over)
    return str(caught.value)


def test_scores_of_different_things_are_refused_by_name():
    for over in ("queries", "ids"):
        assert "unit is 'loss' in part 0 and 'margin' in part 1" in rejection(over, unit="margin")
        assert "replicas is 1 in part 0 and 2 in part 1" in rejection(over, replicas=2)
        assert "seed is 0 in part 0 and None in part 1" in rejection(over, provenance={})
        assert "some of the parts only: offset" in rejection(over, offset=None)
        assert "some of the parts only: stderr" in rejection(over, stderr=[[1.0]])
        assert "some of the parts only: null" in rejection(over, null=None)
    both = rejection("ids", unit="margin", provenance={"seed": 1})
    assert "unit is" in both
    assert "seed is 0 in part 0 and 1 in part 1" in both


def test_parts_that_do_not_meet_are_refused_by_name():
    assert "ids of part 1 differ from those of part 0" in rejection("queries", ids=[8])
    for over in ("queries", "ids"):
        given = rejection(over, null=np.ones((3, 1)))
        assert "parts have the scores of 2 and 3 null ids" in given
        assert "TurnOver(nulls=3)" in given
    assert "queries of part 1 differ from those of part 0" in rejection("ids", queries=["b"])
    assert "instance 7 is in more than one part" in rejection("ids", ids=[7])
    assert "offset of part 1 differs from that of part 0" in rejection("ids", offset=[0.6])
    assert "null of part 1 differs from that of part 0" in rejection("ids", null=[[0.5], [2.0]])


def test_there_must_be_something_to_join():
    with pytest.raises(ScoresError, match="nothing to join"):
        Scores.concat([])
    with pytest.raises(ScoresError, match='over="ids"'):
        Scores.concat([Scores([1.0], ids=[7])])
    with pytest.raises(ScoresError, match=r"over must be .* got 'rows'"):
        Scores.concat([Scores([1.0], ids=[7])], over="rows")
