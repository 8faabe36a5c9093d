"""Splits: classes in proportion, copies and groups on one side, every class trained, whatever the rows are."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from turnover.errors import DataFileError
from turnover.runs._splits import copies_of, draw_rows, split_rows
from turnover.runs.config import RunConfig
from turnover.runs.table import TO_BE_SPLIT, Rows

CONFIG = RunConfig("rows.csv")


def rows_of(labels, *, texts=None, groups=(), fixed=None, kind: Any = "text", values=None):
    labels = np.asarray(labels)
    values = (
        ([f"text {place}" for place in range(len(labels))] if texts is None else texts) if values is None else values
    )
    return Rows.of(
        kind,
        pa.table({"label": labels}),
        texts if values is None else values,
        labels,
        [f"class {number}" for number in range(labels.max() + 1)],
        name="rows.csv",
        label_column="label",
        names=[f"line {place}" for place in range(len(labels))],
        origins=range(len(labels)),
        splits=np.full(len(labels), TO_BE_SPLIT) if fixed is None else np.asarray(fixed),
        groups=groups,
    )


def counts_of(rows, splits):
    return np.stack([np.bincount(rows.labels[splits == split], minlength=len(rows.label_names)) for split in range(3)])


def test_classes_are_split_in_proportion():
    rows = rows_of(np.repeat([0, 1, 2], [600, 300, 100]))
    splits = split_rows(rows, CONFIG)
    assert splits.dtype == np.int8
    assert counts_of(rows, splits).tolist() == [[480, 240, 80], [60, 30, 10], [60, 30, 10]]


def test_the_seed_alone_decides_which_rows_go_where():
    rows = rows_of(np.arange(100) % 2)
    one, again, other = (split_rows(rows, RunConfig("rows.csv", seed=seed)) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    # At random, not from one end.
    assert 20 < np.flatnonzero(one == 1).mean() < 80


@settings(max_examples=50)
@given(st.data())
def test_copies_stay_together_every_class_is_trained_and_no_split_is_empty(data):
    size = data.draw(st.integers(12, 120), label="rows")
    classes = data.draw(st.integers(2, 4), label="classes")
    labels = np.array(
        [*range(classes), *data.draw(st.lists(st.integers(0, classes - 1), min_size=size, max_size=size))]
    )
    different = data.draw(st.integers(len(labels) // 2, 2 * len(labels)), label="different texts")
    chosen = data.draw(st.lists(st.integers(0, different), min_size=len(labels), max_size=len(labels)))
    assume(len(set(chosen)) >= classes + 4)
    rows = rows_of(labels, texts=[f"text {number}" for number in chosen])
    splits = split_rows(rows, RunConfig("rows.csv", seed=data.draw(st.integers(0, 5))))
    for number in set(chosen):
        assert len(set(splits[np.array(chosen) == number])) == 1
    counts = counts_of(rows, splits)
    assert (counts[0] > 0).all()
    assert (counts.sum(1) > 0).all()


@given(st.integers(30, 300), st.integers(2, 6), st.integers(0, 3))
def test_rows_that_all_differ_are_split_as_asked_to_the_row(size, classes, seed):
    labels = np.random.default_rng(seed).integers(0, classes, size)
    labels[:classes] = np.arange(classes)
    rows = rows_of(labels)
    shares = counts_of(
        rows, split_rows(rows, RunConfig("rows.csv", validation=0.2, test=0.3, seed=seed))
    ) / np.bincount(labels)
    asked_shares = np.array([[0.5], [0.2], [0.3]])
    # A class of n rows cannot come nearer than about a row; a split as a whole is exact.
    assert (np.abs(shares - asked_shares) <= 2.01 / np.bincount(labels)).all()


@given(st.integers(0, 20))
def test_groups_and_copies_across_groups_stay_on_one_side(seed):
    rng = np.random.default_rng(seed)
    groups = [f"group {number}" for number in rng.integers(0, 30, 200)]
    texts = [f"text {number}" for number in range(200)]
    texts[7] = texts[100]
    rows = rows_of(rng.integers(0, 2, 200), groups=groups, texts=texts)
    splits = split_rows(rows, RunConfig("rows.csv", seed=seed))
    for group in set(groups):
        assert len(set(splits[np.array(groups) == group])) == 1
    assert splits[7] == splits[100]
    assert set(splits) == {0, 1, 2}
    assert 0.6 < (splits == 0).mean() < 0.95


def test_splits_that_files_gave_hold_and_only_the_others_are_split():
    fixed = np.array([-1] * 40 + [1] * 10)
    rows = rows_of(np.arange(50) % 2, fixed=fixed)
    splits = split_rows(rows, CONFIG)
    assert (splits[40:] == 1).all()
    assert np.bincount(splits[:40], minlength=3).tolist() == [36, 0, 4]
    all_given = rows_of(np.arange(50) % 2, fixed=[-1] * 30 + [1] * 10 + [2] * 10)
    assert np.array_equal(split_rows(all_given, CONFIG), np.maximum(all_given.splits, 0))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (rows_of([0, 1, 1]), "3 rows of 2 classes: train and validation and test need 4.*--test 0"),
        (rows_of([0, 1] * 10, texts=["same"] * 20), "are 1 different ones: copies stay on one side"),
        (rows_of([0, 1] * 10, groups=["a", "b"] * 10), "are 2 different ones: groups and copies.*omit --group"),
        (rows_of([0, 1] * 10, texts=["a", "b"] * 9 + ["c", "d"], fixed=[1] * 20), "no training row"),
        (rows_of([0, 1] * 10 + [2], fixed=[0] * 20 + [1]), "no training row of .* has the label 'class 2'"),
    ],
)
def test_rows_that_cannot_be_split_say_why(rows, message):
    with pytest.raises(DataFileError, match=message):
        split_rows(rows, CONFIG)


def test_a_class_that_is_one_group_only_is_trained_on():
    groups = ["only"] * 10 + [f"group {place}" for place in range(40)]
    rows = rows_of([2] * 10 + [0, 1] * 20, groups=groups)
    splits = split_rows(rows, CONFIG)
    assert (splits[:10] == 0).all()
    assert set(splits) == {0, 1, 2}


def test_copies_of_texts_images_and_tables_are_found():
    texts = rows_of([0] * 4, texts=["Ab  c", " ab C", "abc", "ab c."])
    assert copies_of(texts).tolist() == [0, 0, 1, 2]
    pixels = np.zeros((4, 2, 2, 1), np.uint8)
    pixels[2, 0, 0] = 1
    assert copies_of(rows_of([0] * 4, kind="image", values=pixels)).tolist() == [0, 0, 1, 0]
    table = pa.table({"x": [1.0, None, 1.0, None, 3.0], "town": ["Ulm", None, "ulm ", None, "Ulm"]})
    assert copies_of(rows_of([0] * 5, kind="table", values=table)).tolist() == [0, 1, 0, 1, 2]


def test_equal_rows_of_a_table_with_few_values_are_no_copies():
    table = pa.table({"x": [0.0, 1.0] * 50})
    rows = rows_of(np.arange(100) % 2, kind="table", values=table)
    assert len(set(copies_of(rows))) == 100
    assert np.bincount(split_rows(rows, CONFIG)).tolist() == [80, 10, 10]


@given(st.lists(st.integers(1, 60), min_size=2, max_size=6), st.integers(1, 100), st.integers(0, 3))
def test_drawn_rows_are_as_many_as_asked_and_keep_proportions(sizes, most, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    drawn = draw_rows(labels, most, seed=seed)
    assert len(drawn) == len(set(drawn)) == min(most, len(labels))
    counts = np.bincount(labels[drawn], minlength=len(sizes))
    if most >= len(sizes):
        assert (counts > 0).all()
    exact = np.array(sizes) * len(drawn) / len(labels)
    # Rare classes get a row in any case, at the cost of the others.
    assert (counts >= np.floor(exact) - len(sizes)).all()
    assert (counts <= np.maximum(np.ceil(exact), 1)).all()
