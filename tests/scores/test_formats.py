"""Results as pandas and xarray objects."""

import sys

import numpy as np
import pytest
from hypothesis import given

from tests.scores import made_up
from turnover.errors import MissingExtraError
from turnover.scores import OutOfSample, Scores


@given(made_up.scores(unique=False))
def test_a_dataset_holds_all_numbers_under_their_names(scores):
    dataset = scores.to_xarray()
    kept = {"score": scores.values, "instance": scores.ids}
    kept |= {name: getattr(scores, name) for name in ("stderr", "null", "null_spread", "offset")}
    for name, array in kept.items():
        assert (array is None) == (name not in dataset)
        assert array is None or np.array_equal(dataset[name].to_numpy(), array, equal_nan=array.dtype.kind == "f")
    assert ("query" in dataset) == (scores.queries is not None)


@given(made_up.scores().filter(len))
def test_a_long_table_has_a_row_for_each_pair(scores):
    table = scores.to_pandas(long=True)
    assert np.array_equal(table["score"].to_numpy(), scores.values.ravel(), equal_nan=True)
    assert ("stderr" in table) == (scores.stderr is not None)
    if scores.queries is not None and len(scores.queries):
        instance, query = scores.ids[-1], scores.queries[-1]
        (pair,) = table[(table["instance"] == instance) & (table["query"] == query)]["score"]
        assert np.array_equal(pair, scores.values[-1, -1], equal_nan=True)
    assert table.attrs["turnover"]["unit"] == scores.unit


def test_scores_of_no_query_have_columns_for_score_and_error():
    table = Scores([1.0, 2.0], ids=[7, 8], null_spread=0.5).to_pandas()
    assert table.to_dict("list") == {"score": [1.0, 2.0], "stderr": [0.5, 0.5]}
    assert table.index.tolist() == [7, 8]


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
        ("pandas", lambda: Scores([1.0], ids=[7]).top(1).to_pandas()),
        ("pandas", lambda: OutOfSample([[1.0]], ids=[7]).to_pandas()),
        ("xarray", lambda: Scores([1.0], ids=[7]).to_xarray()),
        ("zarr", lambda: Scores([1.0], ids=[7]).save("nowhere")),
        ("zarr", lambda: Scores.open("nowhere")),
    ],
)
def test_a_missing_package_is_named_with_the_extra_to_install(package, call, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{package}: pip install 'turnover\[store\]'"):
        call()
