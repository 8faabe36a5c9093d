"""Batches in any form are taken apart into inputs, target and ids, and cut into rows."""

from collections import namedtuple

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from turnover.batches import batches_of, default_loss, open_batch, with_instance_ids
from turnover.errors import BatchError

X, Y, IDS = torch.randn(4, 6), torch.arange(4), torch.tensor([9, 7, 5, 3])


@pytest.mark.parametrize(
    "batch",
    [(X, Y, IDS), [X, Y, IDS], {"x": X, "labels": Y, "instance_id": IDS}, {"x": X, "label": Y, "instance_id": IDS}],
    ids=["tuple", "list", "labels", "label"],
)
def test_inputs_target_and_ids_are_told_apart(batch):
    opened = open_batch(batch)
    assert [*opened.args, *opened.kwargs.values()] == [X]
    assert opened.target is Y
    assert torch.equal(opened.ids, IDS)
    assert opened.rows == 4


def test_a_tuple_without_ids_ends_with_its_target():
    opened = open_batch((X, Y), with_ids=False)
    assert opened.target is Y
    assert opened.ids is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: open_batch((X, Y[:3]), with_ids=False), BatchError, "3 targets, but the inputs have 4 rows"),
        (lambda: open_batch({"x": X}, targets="y"), BatchError, "the batch has no 'y'; it has 'x'"),
        (lambda: open_batch((X, Y), targets="y"), BatchError, "targets='y' names an entry of dict batches"),
        (lambda: open_batch(("a", "b")), BatchError, "no tensor with rows"),
        (lambda: list(batches_of(3)), BatchError, "a int holds no rows"),
        (lambda: default_loss("cat"), BatchError, "targets are a str"),
    ],
    ids=["targets", "name", "name of a tuple", "text", "number", "loss"],
)
def test_what_cannot_be_taken_apart_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_row_of_a_namedtuple_is_a_namedtuple():
    pair = namedtuple("Pair", "left right")
    batch = open_batch({"pair": pair(torch.ones(4, 6), torch.zeros(4, 6)), "labels": torch.arange(4)})
    assert batch.row(2).kwargs["pair"].left.shape == (1, 6)
    assert int(batch.row(2).target) == 2


def test_an_input_without_rows_is_never_cut():
    batch = open_batch({"x": X, "scale": torch.ones(3), "names": ["a", "b", "c", "d"], "labels": Y})
    part = batch.part(1, 3)
    assert part.kwargs["scale"].shape == (3,)
    assert part.kwargs["names"] == ["b", "c"]
    assert part.rows == 2
    assert not batch.can_be_split


@pytest.mark.parametrize(
    "data",
    [
        (X, Y, torch.arange(4)),
        with_instance_ids(TensorDataset(X, Y)),
        DataLoader(with_instance_ids(TensorDataset(X, Y)), batch_size=3),
        [{"x": X[i], "labels": Y[i], "instance_id": i} for i in range(4)],
    ],
    ids=["tensors", "data set", "loader", "dicts"],
)
def test_data_in_any_form_gives_the_same_rows(data):
    batches = list(batches_of(data, training_rows=True, batch_size=3))
    inputs = torch.cat([next(iter([*batch.args, *batch.kwargs.values()])) for batch in batches])
    assert [batch.rows for batch in batches] == [3, 1]
    assert torch.equal(inputs, X)
    assert torch.cat([batch.ids for batch in batches]).tolist() == [0, 1, 2, 3]


def test_a_regression_with_one_output_compares_each_row_with_its_own_target():
    outputs, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([0.0, 4.0])
    assert default_loss(targets)(outputs, targets).tolist() == [1.0, 4.0]
    with pytest.raises(BatchError, match=r"outputs have shape \[2, 3\] and targets \[2\]"):
        default_loss(targets)(torch.zeros(2, 3), targets)


def test_ignored_tokens_do_not_count_in_the_default_loss():
    outputs, targets = torch.randn(1, 4, 5), torch.tensor([[2, 1, -100, -100]])
    short = default_loss(targets)(outputs[:, :2], targets[:, :2])
    assert torch.allclose(default_loss(targets)(outputs, targets), short)
