"""From raw values to what a network takes."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnover.errors import RunError
from turnover.runs.folder import RunFolder
from turnover.runs.inputs import (
    _INPUTS,
    Column,
    ColumnInputs,
    NgramInputs,
    PixelInputs,
    checked_cells,
    read_inputs,
)

TEXTS = ["a good film", "a bad film", "ein schöner Film", ""]
TABLE = pd.DataFrame(
    {"size": [1.0, 3.0, None, 5.0], "color": ["red", None, "blue", "red"], "sold": [True, False, True, True]}
)
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 6, 4, 3), dtype=np.uint8)
FITTED = [
    (NgramInputs.fit(TEXTS, most=64), TEXTS),
    (ColumnInputs.fit(TABLE), TABLE),
    (PixelInputs.fit(IMAGES), IMAGES),
]


@pytest.mark.parametrize(("inputs", "values"), FITTED, ids=["ngrams", "columns", "pixels"])
def test_inputs_are_the_same_after_a_file_and_a_row_does_not_depend_on_its_neighbors(tmp_path, inputs, values):
    (tmp_path / "inputs.json").write_bytes(_INPUTS.dump_json(inputs))
    again = read_inputs(RunFolder(tmp_path))
    assert again == inputs
    assert torch.equal(again(values), inputs(values))
    alone = inputs(values.iloc[1:2] if isinstance(values, pd.DataFrame) else values[1:2])
    assert torch.allclose(alone[0], inputs(values)[1])


@settings(max_examples=20)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_texts_have_length_one_or_say_nothing(texts):
    lengths = NgramInputs.fit(texts, most=128)(texts).norm(dim=1)
    assert ((lengths - 1).abs().lt(1e-5) | (lengths == 0)).all()


def test_many_rows_get_fewer_buckets_so_that_they_fit_into_memory():
    assert NgramInputs.fit(TEXTS, rows=10**6).width == 512
    assert NgramInputs.fit(TEXTS, rows=10**4).width == 4096


def test_numbers_are_standardized_and_missing_ones_are_told():
    found = ColumnInputs.fit(TABLE)(TABLE)
    size, missing = found[:, 0], found[:, 1]
    assert missing.tolist() == [0, 0, 1, 0]
    assert abs(float(size[missing == 0].mean())) < 1e-6
    assert float(size[2]) == 0  # the mean takes its place


def test_a_category_that_was_not_seen_counts_as_other():
    inputs = ColumnInputs.fit(TABLE[["color"]])
    assert inputs(pd.DataFrame({"color": ["green", None, "blue"]})).tolist() == [[0, 0, 1], [0, 0, 1], [1, 0, 0]]


def test_a_column_that_is_absent_counts_as_missing():
    assert ColumnInputs.fit(TABLE)(pd.DataFrame({"size": [1.0]})).isfinite().all()


def test_new_cells_are_numbers_or_categories():
    columns = (Column("size"), Column("color", categories=("red",)))
    assert checked_cells(columns, {"size": "2.5", "color": "red"}) == {"size": 2.5, "color": "red"}


def test_pixels_of_training_images_are_standardized():
    found = PixelInputs.fit(IMAGES)(IMAGES)
    assert found.shape == (5, 3, 6, 4)
    assert torch.allclose(found.mean((0, 2, 3)), torch.zeros(3), atol=1e-4)
    assert torch.allclose(found.std((0, 2, 3)), torch.ones(3), atol=1e-2)


def test_an_image_of_one_color_does_not_divide_by_zero():
    black = np.zeros((2, 4, 4, 1), np.uint8)
    assert PixelInputs.fit(black)(black).isfinite().all()


@pytest.mark.parametrize("content", ["{}", "nonsense", '{"kind": "unknown"}'])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "inputs.json").write_text(content)
    with pytest.raises(RunError, match="missing or damaged"):
        read_inputs(RunFolder(tmp_path))
