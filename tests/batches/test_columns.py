"""Ids and groups of the user's own: which values serve, and what is said about the others."""

import pickle
from collections import namedtuple
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Subset

from turnover.batches import FIRST_RESERVED_ID, columns, instance_id_of, names_of, with_instance_ids
from turnover.errors import InstanceIdError, MissingIdError

Row = namedtuple("Row", ["uid", "x"])


@dataclass
class Example:
    uid: object
    x: int = 0


def ids_of(data):
    return [row["instance_id"] for row in data]


@pytest.mark.parametrize("name", ["", "anna", "ünï", "x" * 1000, "\ud800"])
def test_a_string_is_hashed_as_documented(name):
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    assert instance_id_of(name) == int.from_bytes(digest, "little") % 2**62
    assert 0 <= instance_id_of(name) < FIRST_RESERVED_ID == 2**62


def test_string_ids_never_change():
    assert instance_id_of("anna") == 885665737819309264
    assert instance_id_of("review-17") == 476552979230029453


@pytest.mark.parametrize(
    "value",
    [7, np.int32(7), np.uint64(7), torch.tensor(7), np.array(7), 2**62 - 1],
    ids=lambda value: type(value).__name__,
)
def test_integers_are_used_as_they_are(value):
    given = with_instance_ids([{"uid": value}], id="uid")[0]["instance_id"]
    assert given == int(value)
    assert type(given) is int


def test_strings_are_hashed_and_their_names_kept_also_before_any_row_was_read():
    data = with_instance_ids([{"uid": "a"}, {"uid": np.str_("b")}, {"uid": 3}], id="uid")
    assert data.names == names_of(["a", "b", "a", 3, None]) == {instance_id_of("a"): "a", instance_id_of("b"): "b"}
    assert all(type(name) is str for name in data.names.values())
    assert ids_of(data) == [instance_id_of("a"), instance_id_of("b"), 3]
    assert pickle.loads(pickle.dumps(data)).names == data.names
    assert with_instance_ids(["a", "b"]).names == {}


@pytest.mark.parametrize(
    ("row", "column", "expected"),
    [
        ((5, "x"), 0, (5, "x", 5)),
        ((5, 6), -1, (5, 6, 6)),
        ([5, "x"], 0, [5, "x", 5]),
        (Row(5, "x"), "uid", (5, "x", 5)),
        (Row(5, "x"), 0, (5, "x", 5)),
        ({"uid": 5}, "uid", {"uid": 5, "instance_id": 5}),
        ({0: 5}, 0, {0: 5, "instance_id": 5}),
    ],
    ids=repr,
)
def test_the_column_is_found_in_every_form_of_row_and_left_in_place(row, column, expected):
    assert with_instance_ids([row], id=column)[0] == expected
    assert with_instance_ids([Example(5)], id="uid")[0].instance_id == 5


def test_a_column_of_the_users_own_named_instance_id_serves_when_asked_for():
    rows = [{"instance_id": "a", "x": 1}, {"instance_id": 4, "x": 2}]
    assert ids_of(with_instance_ids(rows, id="instance_id")) == [instance_id_of("a"), 4]
    assert rows[0]["instance_id"] == "a"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (True, InstanceIdError, r"row 1 has True in column 'uid', of type bool. An id is an integer or a string"),
        (np.bool_(True), InstanceIdError, r"of type bool"),
        (1.0, InstanceIdError, r"row 1 has 1.0 in column 'uid', of type float.*convert the column.*str\(\)"),
        (torch.tensor([1, 2]), InstanceIdError, r"tensor\(\[1, 2\]\) .* of type Tensor"),
        (["x" * 200], InstanceIdError, r"row 1 has \['x{70,75}\.\.\. in column"),
        (-1, InstanceIdError, r"row 1 has -1 in column 'uid', which is negative. An id is an integer from 0 on"),
        (None, MissingIdError, r"row 1 has None in column 'uid': the id is missing. Fill it in"),
        (np.float32("nan"), MissingIdError, r"row 1 has .*nan.* in column 'uid': the id is missing"),
        ("", MissingIdError, r"row 1 has '' in column 'uid': the id is missing"),
        (2**62, InstanceIdError, r"row 1 has 4611686018427387904 .*from 2\*\*62 .* reserved.*the column as strings"),
        (2**70, InstanceIdError, r"reserved"),
    ],
    ids=lambda value: repr(value)[:20],
)
@pytest.mark.parametrize("kind", ["id", "groups"])
def test_a_value_that_cannot_be_an_id_names_row_value_and_cure(value, error, text, kind):
    data = with_instance_ids([{"uid": 1}, {"uid": value}], **{kind: "uid"})
    assert data[0]["instance_id"] == 1
    with pytest.raises(error, match=text):
        data[1]


@pytest.mark.parametrize(
    ("row", "column", "text"),
    [
        (
            {"user_id": 1, "text": ""},
            "userid",
            r"row 0 has no column 'userid', only 'user_id', 'text'. Did you mean 'user_id'\?",
        ),
        ({"a": 1, "b": 2}, "userid", r"only 'a', 'b'. Give the name of one as id="),
        ({}, "uid", r"row 0 has no column 'uid', only none at all"),
        (Row(1, 2), "uud", r"no column 'uud', only 'uid', 'x'. Did you mean 'uid'\?"),
        (Example(1), "uld", r"no column 'uld', only 'uid', 'x'. Did you mean 'uid'\?"),
        (Example(1), 0, r"no column 0, only 'uid', 'x'"),
        (
            (1, 2),
            "uid",
            r"row 0 is a tuple without names, so id='uid' finds nothing. Give the position .* such as id=0",
        ),
        ((1, 2), 2, r"row 0 has 2 items, so id=2 finds nothing. Give a position from 0 to 1"),
        ((1, 2), -3, r"id=-3 finds nothing"),
        (torch.ones(2), "uid", r"row 0 is a Tensor without names.*let the data set return tuples"),
    ],
    ids=repr,
)
def test_a_missing_column_is_named_with_its_nearest_neighbors(row, column, text):
    with pytest.raises(MissingIdError, match=text):
        with_instance_ids([row], id=column)[0]


def test_two_different_rows_with_one_id_are_an_error_through_subsets_and_concatenations():
    left, right = [{"uid": "a"}, {"uid": "b"}], [{"uid": "c"}, {"uid": "a"}]
    data = with_instance_ids(ConcatDataset([Subset(left, [1, 0]), right]), id="uid")
    text = r"row 0 and row 3 are different rows with one id, 'a' in column 'uid'.*groups='uid'"
    with pytest.raises(InstanceIdError, match=text):
        list(data)


def test_rows_of_one_group_share_an_id():
    data = with_instance_ids([("x", "anna"), ("y", "ben"), ("z", "anna"), ("w", 3)], groups=1)
    assert [row[-1] for row in data] == [instance_id_of("anna"), instance_id_of("ben"), instance_id_of("anna"), 3]
    assert sorted(data.names.values()) == ["anna", "ben"]


@pytest.mark.parametrize("kind", ["id", "groups"])
def test_two_names_of_one_instance_are_an_error_that_names_both(monkeypatch, kind):
    # All strings of one length have one hash: real collisions of 62 bits cannot be found.
    monkeypatch.setattr(columns, "instance_id_of", len)
    data = with_instance_ids([{"uid": "a"}, {"uid": "b"}], **{kind: "uid"})
    with pytest.raises(InstanceIdError, match=r"'b' and 'a' both have the instance id 1. Rename one of them"):
        list(data)
    with pytest.raises(InstanceIdError, match="'b' and 'a' both have the instance id 1"):
        names_of(["a", "b"])
    with pytest.raises(InstanceIdError, match="1 and 'a' both have the instance id 1"):
        list(with_instance_ids([{"g": "a"}, {"g": 1}], **{kind: "g"}))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (
            {"id": "a", "groups": "b"},
            r"id='a' and groups='b' were both given. With id= every row .* Give one of the two",
        ),
        ({"id": True}, r"id=True is of type bool. Give the name of a column, or its position"),
        ({"groups": ["uid"]}, r"groups=\['uid'\] is of type list"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns, text):
    with pytest.raises(InstanceIdError, match=text):
        with_instance_ids([{}], **columns)
