"""Scores: what they hold, what they reject, means, parts and text."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.reference import scores_twin
from tests.scores import made_up as made
from turnover.errors import ScoresError
from turnover.scores import Scores


def test_arrays_are_float32_and_int64_and_read_only():
    scores = Scores([[1, 2], [3, 4]], ids=[7, 8], stderr=np.ones((2, 2)), null=np.eye(2), offset=[0.5, 0.25])
    assert scores.ids.dtype == np.int64
    for name in ("values", "stderr", "null", "null_spread", "offset"):
        array = getattr(scores, name)
        assert array.dtype == np.float32
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
        with pytest.raises(AttributeError):
            setattr(scores, name, array)
    with pytest.raises(ValueError, match="read-only"):
        scores.ids[0] = 0


def test_what_was_given_may_change_afterwards():
    values, ids = np.ones((2, 2), np.float32), np.array([7, 8])
    scores = Scores(values, ids=ids)
    view = values.view()
    view.flags.writeable = False
    of_view = Scores(view, ids=ids)
    values[:], ids[:] = 0, 0
    assert scores.values.all()
    assert of_view.values.all()
    assert scores.ids.tolist() == [7, 8]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values": 1.0}, r"values must have shape \[instances, queries\] or \[instances\], got \[\]"),
        ({"values": np.ones((2, 2, 2))}, r"or \[instances\], got \[2, 2, 2\]"),
        ({"values": [["a", "b"]] * 2}, "values must be real numbers, got <U1"),
        ({"values": [[1, 2], [3]]}, "values cannot be read as an array"),
        ({"values": torch.ones(2, 2, requires_grad=True)}, "values cannot be read as an array"),
        ({"ids": [7]}, "there are 1 ids and 2 rows of values"),
        ({"ids": [7, -1]}, "ids must be integers from 0 to .*, got -1"),
        ({"ids": [7.0, 8.0]}, "ids must be integers, got float64"),
        ({"ids": [[7], [8]]}, r"ids must have 1 dimension, got shape \[2, 1\]"),
        ({"ids": np.array([1, 2**63], np.uint64)}, r"ids must be below 2\*\*63, got 9223372036854775808"),
        ({"queries": ["a"]}, "there are 1 names in queries= and 2 queries"),
        ({"queries": ["a", "a"]}, "two queries have the name 'a'"),
        ({"queries": ["a", 1.5]}, "name of a query must be a string or an integer, got 1.5"),
        ({"queries": ["a", True]}, "name of a query must be a string or an integer, got True"),
        ({"values": [1.0, 2.0], "queries": ["a", "b"]}, "queries= has nothing to name"),
        ({"unit": ""}, "unit must name what scores are differences of.*got ''"),
        ({"path": None}, "path must be a string .*got None"),
        ({"replicas": 0}, "replicas must be an integer >= 1, got 0"),
        ({"stderr": [[1.0, 2.0], [1.0, -0.5]]}, r"stderr must be >= 0 everywhere, got -0\.5"),
        ({"stderr": [1.0, 2.0]}, r"stderr must have the shape of values, \[2, 2\], got \[2\]"),
        ({"offset": [1.0, 2.0, 3.0]}, r"offset must have shape \[2\], one per query, got \[3\]"),
        ({"values": [1.0, 2.0], "offset": [1.0]}, r"offset must have shape .*or \[2\], one per row, got \[1\]"),
        ({"null_spread": np.ones((2, 2))}, r"null_spread must have shape \[2\], one per query, got \[2, 2\]"),
        ({"null": [1.0, 2.0]}, r"null must hold the scores of j null ids, \[j, 2\], got \[2\]"),
        ({"null": [[1.0, 2.0]]}, "null must hold the scores of 2 null ids or more, got 1"),
        ({"provenance": {"loss": print}}, r"provenance.loss cannot be written as JSON"),
        ({"provenance": {"damping": np.inf}}, r"provenance.damping cannot be written as JSON"),
    ],
)
def test_what_does_not_fit_is_rejected_by_name(changes, message):
    with pytest.raises(ScoresError, match=message):
        Scores(**{"values": np.ones((2, 2)), "ids": [7, 8], **changes})


def test_standard_errors_are_those_of_replicas_or_else_the_spread_of_the_null():
    values = np.zeros((2, 2))
    assert Scores(values, ids=[7, 8]).stderr is None
    null = [[1.0, 2.0], [3.0, 6.0]]
    of_null = Scores(values, ids=[7, 8], null=null)
    assert np.allclose(of_null.stderr, [[2**0.5, 8**0.5]] * 2)
    assert of_null.null_spread.tolist() == of_null.stderr[0].tolist()
    assert Scores(values, ids=[7, 8], null=null, stderr=np.ones((2, 2))).stderr.tolist() == [[1, 1], [1, 1]]
    assert Scores(values, ids=[7, 8], null_spread=0.5).null_spread.tolist() == [0.5, 0.5]
    assert Scores([1.0, 2.0], ids=[7, 8], null_spread=0.5).stderr.tolist() == [0.5, 0.5]
    assert Scores([1.0, 2.0], ids=[7, 8], null_spread=[0.5, 0.25]).stderr.tolist() == [0.5, 0.25]


@given(made.tables(numbers=made.FINITE).filter(lambda table: len(table[1]) >= 2))
def test_the_spread_of_the_null_is_the_twins(table):
    null, _ = table
    spread = Scores(np.zeros((1, null.shape[1])), ids=[7], null=null).null_spread
    twin = [scores_twin.spread(column) for column in null.T.tolist()]
    assert np.allclose(spread, twin, rtol=1e-5, atol=1e-6, equal_nan=True)


@given(made.tables(numbers=made.FINITE), st.integers(0, 99))
def test_the_mean_is_the_twins_and_so_is_its_offset(table, seed):
    values, ids = table
    offset = np.random.default_rng(seed).normal(size=values.shape[1]).astype(np.float32)
    mean = Scores(values, ids=ids, offset=offset).mean()
    twin = [scores_twin.mean(row) for row in values.tolist()]
    assert np.allclose(mean.values, twin, rtol=1e-6, atol=1e-6, equal_nan=True)
    # What was subtracted from a mean is the mean of what was subtracted.
    before = [scores_twin.mean(row) for row in (values + offset).tolist()]
    assert np.allclose(mean.values + mean.offset, before, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_a_mean_is_about_instances_only():
    scores = Scores([[1.0, 2.0]], ids=[7], path="generic", replicas=3, provenance={"seed": 0}, unit="margin")
    mean = scores.mean()
    assert (mean.shape, mean.queries, mean.unit, mean.replicas) == ((1,), None, "margin", 3)
    assert mean.path == "generic; mean of 2 queries"
    assert mean.provenance == {"seed": 0}
    assert mean.stderr is None
    assert Scores([[1.0]], ids=[7]).mean().path == "mean of 1 query"
    with pytest.raises(ScoresError, match="there are no queries to average over"):
        mean.mean()


def test_the_error_of_a_mean_is_that_of_null_ids_means():
    random = np.random.default_rng(0)
    shared = random.normal(size=(2000, 1))
    null = shared + 0.1 * random.normal(size=(2000, 50))
    mean = Scores(np.zeros((2, 50)), ids=[7, 8], null=null).mean()
    # Errors of the queries go together: a mean of 50 is hardly better than one.
    assert mean.stderr.shape == (2,)
    assert np.allclose(mean.stderr, null.mean(axis=1).std(ddof=1), rtol=1e-4)
    # Nobody knows how they go together where only spreads were kept.
    assert Scores(np.zeros((2, 50)), ids=[7, 8], null_spread=np.ones(50)).mean().stderr is None
    assert Scores(np.zeros((2, 50)), ids=[7, 8], stderr=np.ones((2, 50))).mean().stderr is None


@given(made.scores(unique=False), st.data())
def test_a_part_is_what_the_twin_picks(scores, data):
    ids = data.draw(st.lists(st.sampled_from(scores.ids.tolist()), max_size=5)) if len(scores) else []
    rows = scores_twin.rows_of(ids, scores.ids.tolist())
    part = scores.select(ids=ids)
    assert part.ids.tolist() == scores.ids[rows].tolist()
    assert np.array_equal(part.values, scores.values[rows], equal_nan=True)
    assert part.stderr is None if scores.stderr is None else np.array_equal(part.stderr, scores.stderr[rows])
    if scores.offset is not None:
        raw = np.broadcast_to(scores.offset, scores.shape)[rows]
        assert np.array_equal(np.broadcast_to(part.offset, part.shape), raw)
    if scores.queries is not None:
        names = data.draw(st.lists(st.sampled_from(scores.queries), unique=True))
        columns = [scores.queries.index(name) for name in names]
        both = scores.select(ids=ids, queries=names)
        assert both.queries == tuple(names)
        assert np.array_equal(both.values, scores.values[np.ix_(rows, columns)], equal_nan=True)
        assert both.equals(part.select(queries=names))
        assert both.null is None if scores.null is None else np.array_equal(both.null, scores.null[:, columns])


def test_a_part_that_is_not_there_is_rejected_by_name():
    scores = Scores(np.ones((2, 2)), ids=[7, 8], queries=["left", "right"])
    with pytest.raises(ScoresError, match="no scores of instance 1, 2, 3, 4, 5 and 2 more"):
        scores.select(ids=[7, 1, 2, 3, 4, 5, 6, 9])
    with pytest.raises(ScoresError, match="no query 'rigth'; did you mean 'right'"):
        scores.select(queries=["rigth"])
    with pytest.raises(ScoresError, match=r"no query 0; see \.queries"):
        scores.top(1, query=0)
    with pytest.raises(ScoresError, match="there are no queries to choose from"):
        Scores([1.0], ids=[7]).select(queries=["a"])


def test_numpy_functions_take_scores():
    scores = Scores([[1.0, 2.0]], ids=[7])
    assert np.asarray(scores) is scores.values
    assert np.asarray(scores, np.float64).dtype == np.float64
    assert np.abs(scores).tolist() == [[1.0, 2.0]]
    changed = scores.to_numpy()
    changed[:] = 0
    assert scores.values.tolist() == [[1.0, 2.0]]
    assert (len(scores), scores.shape) == (1, (1, 2))


@given(made.scores(unique=False))
def test_copies_are_equal_and_read_only(scores):
    for other in (pickle.loads(pickle.dumps(scores)), copy.deepcopy(scores), copy.copy(scores)):
        assert other.equals(scores)
        assert not other.values.flags.writeable
        assert not other.ids.flags.writeable
    top = scores.top(2)
    other = pickle.loads(pickle.dumps(top))
    assert other.equals(top)
    assert not other.helpful_ids.flags.writeable


@pytest.mark.parametrize(
    "changes",
    [
        {"values": [[1.0, 3.0]]},
        {"ids": [8]},
        {"queries": ["a", "b"]},
        {"unit": "margin"},
        {"stderr": [[1.0, 2.0]]},
        {"null": np.ones((2, 2))},
        {"null_spread": 1.0},
        {"offset": 1.0},
        {"path": "generic"},
        {"replicas": 2},
        {"provenance": {"seed": 0}},
        {"standardized": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_equal_means_equal_in_everything(changes):
    base = {"values": [[1.0, np.nan]], "ids": [7]}
    assert Scores(**base).equals(Scores(**base))
    assert not Scores(**base).equals(Scores(**{**base, **changes}))
    assert not Scores(**{**base, **changes}).equals(Scores(**base))
    assert not Scores(**base).equals(base)


def test_provenance_is_a_copy_that_files_give_back_unchanged():
    provenance = {"sites": ("fc1", "fc2"), "options": {"keep": 0.5}}
    scores = Scores([1.0], ids=[7], provenance=provenance)
    provenance["options"]["keep"] = 0.9
    assert scores.provenance == {"sites": ["fc1", "fc2"], "options": {"keep": 0.5}}


def test_scores_read_well():
    text = repr(
        Scores(
            [[0.5, np.nan], [-1.0, 2.0]],
            ids=[7, 8],
            queries=["is it good?", "q" * 40],
            null_spread=0.25,
            offset=[0.125, 0.25],
            path="generic, broadcast at fc1",
            provenance={"seed": 0},
        )
    )
    assert text.splitlines() == [
        "Scores of 2 training instances on 2 queries, in units of loss (positive: the training instance helps)",
        "  queries     is it good?, qqqqqqqqqqqqqqqqqqqqq...",
        "  values      -1 to 2, mean 0.5; 1 of 4 failed (NaN)",
        "  stderr      0.25; standard deviation of null ids",
        "  noise       0.24 of the standard deviation of scores, signal 94% of their variance (median of the queries)",
        "  offset      0.125 to 0.25, mean 0.188; mean of null ids, subtracted",
        "  path        generic, broadcast at fc1",
        "  provenance  seed",
    ]
