"""Out-of-sample predictions."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from turnover.errors import ScoresError
from turnover.scores import OutOfSample

PREDICTIONS = hnp.arrays(
    np.float32, hnp.array_shapes(min_dims=3, max_dims=3, max_side=5), elements=st.floats(-1, 2, width=32)
)


@given(PREDICTIONS, st.data())
def test_predictions_are_averaged_and_quality_is_that_of_the_given_label(replicas, data):
    networks, rows, classes = replicas.shape
    labels = data.draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows))
    result = OutOfSample(replicas, ids=range(rows), labels=labels)
    assert result.probs.dtype == result.replicas.dtype == result.label_quality.dtype == np.float32
    for row in range(rows):
        for one in range(classes):
            assert result.probs[row, one] == pytest.approx(sum(replicas[:, row, one].tolist()) / networks, abs=1e-6)
        assert result.label_quality[row] == np.clip(result.probs[row, labels[row]], 0, 1)
    assert result.label_quality.min() >= 0
    assert result.label_quality.max() <= 1


def test_arrays_are_read_only():
    result = pickle.loads(pickle.dumps(OutOfSample(np.ones((2, 1, 2)), ids=[7], labels=[0])))
    for array in (result.probs, result.replicas, result.ids, result.labels, result.label_quality):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        result.probs = None


def test_failed_rows_are_nan_and_counted():
    result = OutOfSample([[0.5, 0.5], [np.nan, 0.5]], ids=[7, 8], labels=[0, 0])
    assert np.isnan(result.label_quality[1])
    assert "failed  1 row (NaN)" in repr(result)


def test_quality_needs_labels():
    with pytest.raises(ScoresError, match="labels are not known"):
        OutOfSample([[0.5, 0.5]], ids=[7]).label_quality  # noqa: B018


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"replicas": [0.5, 0.5]}, r"replicas must have shape \[replicas, n, classes\] or .*got \[2\]"),
        ({"replicas": np.ones((0, 2, 2))}, r"replicas must have shape .*got \[0, 2, 2\]"),
        ({"ids": [7]}, "1 ids and 2 rows of predictions"),
        ({"labels": [0]}, "1 labels and 2 rows of predictions"),
        ({"labels": [0, 2]}, "labels must be from 0 to 1, since there are 2 classes, got 2 for row 1"),
        ({"labels": [-100, 0]}, "got -100 for row 0"),
        ({"labels": [0.0, 1.0]}, "labels must be integers, got float64"),
        ({"provenance": {"model": object()}}, r"provenance.model cannot be written as JSON"),
    ],
)
def test_what_does_not_fit_is_rejected_by_name(changes, message):
    with pytest.raises(ScoresError, match=message):
        OutOfSample(**{"replicas": np.ones((2, 2)), "ids": [7, 8], **changes})


def test_equal_means_equal_in_everything():
    base = {"replicas": [[0.5, np.nan]], "ids": [7], "labels": [0]}
    one = OutOfSample(**base)
    assert one.equals(OutOfSample(**base))
    for changes in ({"ids": [8]}, {"labels": None}, {"path": "x"}, {"provenance": {"seed": 0}}, {"replicas": [[1, 2]]}):
        assert not one.equals(OutOfSample(**{**base, **changes}))
    assert not one.equals(7)


def test_a_table_has_a_column_for_each_class():
    table = OutOfSample([[0.25, 0.75], [0.5, 0.5]], ids=[7, 8], labels=[1, 0]).to_pandas()
    assert table.index.tolist() == [7, 8]
    assert table.to_dict("list") == {
        "label": [1, 0],
        "label_quality": [0.75, 0.5],
        "prob_0": [0.25, 0.5],
        "prob_1": [0.75, 0.5],
    }
    assert list(OutOfSample([[1.0]], ids=[7]).to_pandas().columns) == ["prob_0"]
