"""Results as pandas and xarray objects and back."""

import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from tests.scores import made_up
from turnover.errors import MissingExtraError, ScoresError
from turnover.scores import OutOfSample, Scores


def without(scores, *names):
    """The same scores, without something that a table has no room for."""
    fields = "ids queries unit null null_spread offset path replicas provenance standardized".split()
    kept = {name: getattr(scores, name) for name in fields if name not in names}
    if "stderr" in scores.sources and "stderr" not in names:
        kept["stderr"] = scores.stderr
    return Scores(scores.values, **kept)


@given(made_up.scores(unique=False))
def test_xarray_keeps_everything(scores):
    assert Scores.from_xarray(scores.to_xarray()).equals(scores)


@given(made_up.scores(unique=False))
def test_a_wide_table_keeps_all_that_it_has_room_for(scores):
    kept = without(scores, "null", *(["stderr"] if scores.queries else []))
    assert Scores.from_pandas(scores.to_pandas()).equals(kept)


@given(made_up.scores().filter(len))
def test_a_long_table_keeps_standard_errors_too(scores):
    assert Scores.from_pandas(scores.to_pandas(long=True)).equals(without(scores, "null"))


@given(made_up.scores(pairs=True).filter(len), st.randoms())
def test_a_table_may_be_sorted_and_cut(scores, random):
    names, ids = list(scores.queries), scores.ids.tolist()
    random.shuffle(names)
    random.shuffle(ids)
    table = scores.to_pandas().loc[ids, names[:1]]
    expected = without(scores, "null", "stderr").select(ids=ids, queries=names[:1])
    assert Scores.from_pandas(table).equals(expected)


def test_a_table_has_instances_down_and_queries_across():
    table = Scores([[1.0, 2.0], [3.0, 4.0]], ids=[7, 8], queries=["a", "b"]).to_pandas()
    assert (table.index.name, table.columns.name) == ("instance", "query")
    assert table.loc[8].to_dict() == {"a": 3.0, "b": 4.0}


def test_scores_of_no_query_have_columns_for_score_and_error():
    table = Scores([1.0, 2.0], ids=[7, 8], null_spread=0.5).to_pandas()
    assert table.to_dict("list") == {"score": [1.0, 2.0], "stderr": [0.5, 0.5]}
    assert table.index.tolist() == [7, 8]


def test_any_table_of_numbers_will_do():
    scores = Scores.from_pandas(pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=[7, 8]), unit="margin")
    assert (scores.queries, scores.unit, scores.values.tolist()) == (("a", "b"), "margin", [[1, 3], [2, 4]])
    assert Scores.from_pandas(pd.Series([1.0, 2.0], index=[7, 8])).equals(Scores([1.0, 2.0], ids=[7, 8]))
    score = pd.DataFrame({"score": [1.0], "stderr": [0.5]}, index=[7])
    assert Scores.from_pandas(score).equals(Scores([1.0], ids=[7], stderr=[0.5]))


def test_pairs_that_a_long_table_lacks_are_failed_ones():
    table = pd.DataFrame({"instance": [7, 8, 8], "query": ["a", "b", "a"], "score": [1.0, 2.0, 3.0]})
    assert np.array_equal(Scores.from_pandas(table).values, [[1, np.nan], [3, 2]], equal_nan=True)
    with pytest.raises(ScoresError, match="instance 8 and query 'a' are in the table twice"):
        Scores.from_pandas(pd.concat([table, table.iloc[[2]]]))


def test_a_query_may_have_the_name_of_a_column():
    scores = Scores([[1.0], [2.0]], ids=[7, 8], queries=["score"])
    assert Scores.from_pandas(scores.to_pandas()).equals(scores)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"a": [1.0]}, index=[1.5]), "ids must be integers"),
        (pd.DataFrame({"a": ["x"]}, index=[7]), "values must be real numbers"),
        (pd.DataFrame({1.5: [1.0]}, index=[7]), r"string or an integer, got 1\.5"),
        ([1.0], "must be a pandas DataFrame or Series, got a list"),
    ],
    ids=["numbers as ids", "words as scores", "number as name", "list"],
)
def test_other_tables_are_rejected(table, message):
    with pytest.raises(ScoresError, match=message):
        Scores.from_pandas(table)


def test_a_dataset_can_be_asked_by_name_and_knows_the_sign():
    scores = Scores([[1.0, 2.0]], ids=[7], queries=["a", "b"], null_spread=[0.5, 0.25])
    dataset = scores.to_xarray()
    assert float(dataset.score.sel(instance=7, query="b")) == 2.0
    assert float(dataset.stderr.sel(instance=7, query="b")) == 0.25
    assert dataset.attrs["sign"] == "positive: the training instance helps"
    assert Scores.from_xarray(dataset.transpose()).equals(scores)


def test_other_datasets_are_rejected():
    with pytest.raises(ScoresError, match="must be a Dataset with a variable 'score'"):
        Scores.from_xarray(xr.Dataset())
    with pytest.raises(ScoresError, match=r"score must have the dimensions .*got \['row'\]"):
        Scores.from_xarray(xr.Dataset({"score": ("row", [1.0])}))


def test_lists_as_a_table_have_a_row_for_each_entry():
    scores = Scores([[1.0, 0.0], [3.0, np.nan]], ids=[7, 8], queries=["a", "b"], null_spread=[0.5, 0.25])
    table = scores.top(2).to_pandas()
    assert table.to_dict("list") == {
        "query": ["a", "a", "a", "a", "b", "b"],
        "side": ["helpful", "helpful", "harmful", "harmful", "helpful", "harmful"],
        "place": [0, 1, 0, 1, 0, 0],
        "instance": [8, 7, 7, 8, 7, 7],
        "score": [3.0, 1.0, 1.0, 3.0, 0.0, 0.0],
        "stderr": [0.5, 0.5, 0.5, 0.5, 0.25, 0.25],
    }
    assert "query" not in Scores([1.0], ids=[7]).top(1).to_pandas()


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("pandas", lambda: Scores([1.0], ids=[7]).to_pandas()),
        ("pandas", lambda: Scores.from_pandas(None)),
        ("pandas", lambda: Scores([1.0], ids=[7]).top(1).to_pandas()),
        ("pandas", lambda: OutOfSample([[1.0]], ids=[7]).to_pandas()),
        ("xarray", lambda: Scores([1.0], ids=[7]).to_xarray()),
        ("xarray", lambda: Scores.from_xarray(None)),
        ("zarr", lambda: Scores([1.0], ids=[7]).save("nowhere")),
        ("zarr", lambda: Scores.open("nowhere")),
    ],
)
def test_a_missing_package_is_named_with_the_extra_to_install(package, call, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}: pip install 'turnover\[store\]'"):
        call()
