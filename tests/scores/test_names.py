"""Scores, lists and predictions of instances that have names: they come back as they were given, everywhere."""

import pickle

import numpy as np
import pandas
import pytest

from turnover.errors import InstanceIdError, ScoresError
from turnover.ids import instance_id_of
from turnover.scores import OutOfSample, Scores, Top

DOCS = ["doc-1", "doc-2", "doc-3", "doc-4"]
VALUES = np.array([[0.5, 0.0], [-1.0, 3.0], [2.0, 1.0], [0.0, -4.0]], np.float32)


@pytest.fixture(params=["strings", "index", "mixed"])
def scores(request):
    null = np.random.default_rng(0).normal(size=(100, 2))
    if request.param == "index":
        return Scores(VALUES, ids=[40, 10, 30, 20], mask_ids=range(4), queries=["a", "b"], null=null)
    ids = DOCS if request.param == "strings" else [*DOCS[:3], 9]
    return Scores(VALUES, ids=ids, queries=["a", "b"], null=null)


def test_ids_are_what_was_given_and_masks_have_integers(scores):
    assert scores.mask_ids.dtype == np.int64
    named = Scores(VALUES[:, 0], ids=DOCS)
    assert named.ids.tolist() == DOCS
    assert named.mask_ids.tolist() == [instance_id_of(name) for name in DOCS]


def test_parts_are_asked_for_by_name(scores):
    third = scores.ids[2]
    assert scores.select(ids=[third]).values.tolist() == [[2.0, 1.0]]
    assert scores.select(ids=scores.ids[::-1]).ids.tolist() == scores.ids.tolist()[::-1]
    assert scores.mean().ids.tolist() == scores.ids.tolist()
    if isinstance(third, str):
        assert scores[third].tolist() == [2.0, 1.0]
        assert scores[third, "b"] == 1.0
        assert scores.select(ids=scores.mask_ids[2:3]).ids.tolist() == [third]
        assert scores[[third, scores.ids[0]], ["b", "a"]].tolist() == [1.0, 0.5]
    assert scores[2].tolist() == [2.0, 1.0]
    assert scores[:, "b"].tolist() == [0.0, 3.0, 1.0, -4.0]


def test_lists_have_names_and_none_where_there_are_fewer(scores):
    top = scores.top(5)
    first = scores.ids.tolist()
    assert top.helpful_ids.tolist()[0][:4] == [first[2], first[0], first[3], first[1]]
    missing = -1 if top.helpful_ids.dtype == np.int64 else None
    assert top.helpful_ids[0, 4] == missing
    assert top.helpful_mask_ids[0, 4] == -1
    assert set(top.to_pandas()["instance"]) == set(first)
    assert str(first[2]) in repr(top)
    assert str(first[2]) in top.to_html()
    if isinstance(first[2], str):
        assert str(scores.mask_ids[2]) not in repr(top) + top.to_html()


def test_lists_of_parts_merge_into_those_of_the_whole(scores):
    parts = [scores.select(ids=scores.ids[:2]), scores.select(ids=scores.ids[2:])]
    null = scores.null
    assert Top.merge(*(part.top(3) for part in parts)).against(null).equals(scores.top(3))
    assert Top.concat([scores.top(3, query=name) for name in ("a", "b")]).equals(scores.top(3))
    assert Scores.concat(parts, over="ids").equals(scores)
    queries = [scores.select(queries=[name]) for name in ("a", "b")]
    assert Scores.concat(queries).equals(scores)
    with pytest.raises(ScoresError, match=f"instance {scores.ids[0]} is in more than one part"):
        Scores.concat([parts[0], scores], over="ids")
    with pytest.raises(ScoresError, match=f"instance {scores.ids[0]} stands in more than one part"):
        Top.merge(parts[0].top(3), parts[0].top(3))


@pytest.mark.parametrize("name", ["scores", "scores.npz"])
def test_saved_scores_open_with_their_names(scores, tmp_path, name):
    scores.save(tmp_path / name)
    opened = Scores.open(tmp_path / name)
    assert opened.ids.tolist() == scores.ids.tolist()
    assert opened.equals(scores)
    assert pickle.loads(pickle.dumps(opened)).equals(scores)
    assert not opened.ids.flags.writeable
    scores.save(tmp_path / name)  # the same may be saved again


@pytest.mark.parametrize("name", ["held_out", "held_out.npz"])
def test_saved_predictions_open_with_their_names(tmp_path, name):
    result = OutOfSample([[0.75, 0.25], [0.5, 0.5]], ids=["doc-1", "doc-2"], labels=[1, 0])
    result.save(tmp_path / name)
    assert OutOfSample.open(tmp_path / name).equals(result)
    assert result.to_pandas().index.tolist() == ["doc-1", "doc-2"]
    assert "doc-1" in result._repr_html_()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Scores([1.0], ids=["doc-1"]).select(ids=["doc-2"]), ScoresError, "Did you mean 'doc-1'"),
        (lambda: Scores([1.0], ids=["doc-1"]).select(ids="doc-1"), ScoresError, r"got 'doc-1'\. Give ids=\['doc-1'\]"),
        (lambda: Scores([1.0], ids=[7]).select(ids=7), ScoresError, r"got 7\. Give ids=\[7\]"),
        (lambda: Scores([1.0], ids=["doc-1"])["dog-1"], ScoresError, "Did you mean 'doc-1'"),
        (lambda: Scores([1.0], ids=["doc-1"]).select(ids=[3]), ScoresError, "no scores of instance 3"),
        (lambda: Scores([1.0], ids=[7])["doc-1"], ScoresError, "no instance 'doc-1'"),
        (lambda: Scores([1.0, 2.0], ids=["a", "a"], mask_ids=[0, 1]), InstanceIdError, "'a' of 0 and 1"),
        (lambda: Scores([1.0, 2.0], ids=["a", "b"], mask_ids=[0, 0]), InstanceIdError, "both have the instance id"),
        (lambda: Scores([1.0, 2.0], ids=["a", "b"], mask_ids=[0]), ScoresError, "have shape"),
        (lambda: Scores([1.0, 2.0], ids=["a", 1.5]), ScoresError, "strings or integers, got 1.5"),
        (lambda: Scores([1.0], ids=["a"]).top(1, query="a"), ScoresError, "no queries"),
        (lambda: Scores([1.0], ids=["a"])[["a", "A", "b"]], ScoresError, "^there is no instance 'A', 'b'"),
        (lambda: Scores([1.0], ids=["a"]).select(ids=["b"]), ScoresError, "^there is no instance 'b'"),
        (lambda: Scores([1.0], ids=[7]).select(ids=[8]), ScoresError, "^there are no scores of instance 8"),
        (lambda: Scores([[1.0]], ids=[7], queries=["q"])[:, ["r"]], ScoresError, "no query 'r'"),
        (lambda: Scores([[1.0, 2.0]], ids=[7], queries="qr"), ScoresError, "must be a list of names.*got 'qr'"),
        (lambda: Scores([[1.0, 2.0]], ids=[7], queries={"q", "r"}), ScoresError, "must be a list of names"),
        (lambda: Scores([[1.0, 2.0]], ids=[7], queries=["q", "r"]).select(queries="qr"), ScoresError, "got 'qr'"),
        (lambda: Scores([1.0], ids=[7]).top(10**9), ScoresError, "beyond the 1 instances there are. Give k=1"),
        (lambda: Scores([1.0], ids=[1.5]), ScoresError, "must be integers"),
        (lambda: Scores([1.0], ids=pandas.DatetimeIndex(["2026-11-17"])), ScoresError, "must be integers"),
        (lambda: Scores([1.0], ids=[1.5], mask_ids=[0]), InstanceIdError, r"got 1\.5 of type float"),
    ],
)
def test_unknown_and_ambiguous_names_are_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
