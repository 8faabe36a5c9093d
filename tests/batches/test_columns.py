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


def test_reserved_ids_start_at_two_to_the_62():
    assert FIRST_RESERVED_ID == 2**62


@pytest.mark.parametrize("name", ["", "anna", "ünï", "x" * 1000, "\ud800"])
def test_a_string_is_hashed_as_documented(name):
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    assert instance_id_of(name) == int.from_bytes(digest, "little") % 2**62
    assert 0 <= instance_id_of(name) < FIRST_RESERVED_ID


def test_string_ids_never_change():
    assert instance_id_of("anna") == 885665737819309264
    assert instance_id_of("review-17") == 476552979230029453


@pytest.mark.parametrize(
    "value", [7, np.int32(7), np.uint64(7), torch.tensor(7), np.array(7)], ids=lambda value: type(value).__name__
)
def test_integers_are_used_as_they_are(value):
    given = with_instance_ids([{"uid": value}], id="uid")[0]["instance_id"]
    assert given == 7
    assert type(given) is int


def test_the_largest_id_that_may_be_given_is_one_below_the_reserved():
    assert ids_of(with_instance_ids([{"uid": 2**62 - 1}], id="uid")) == [2**62 - 1]


def test_strings_are_hashed_and_their_names_kept():
    data = with_instance_ids([{"uid": "a"}, {"uid": "b"}, {"uid": 3}], id="uid")
    assert ids_of(data) == [instance_id_of("a"), instance_id_of("b"), 3]
    assert data.names == {instance_id_of("a"): "a", instance_id_of("b"): "b"}


def test_names_are_complete_before_any_row_was_read():
    data = with_instance_ids([(0, "a"), (1, np.str_("b"))], id=1)
    assert data.names == names_of(["a", "b"])
    assert all(type(name) is str for name in data.names.values())


def test_names_survive_pickling_and_are_empty_for_numbered_rows():
    data = with_instance_ids([{"uid": "a"}], id="uid")
    assert data[0]["instance_id"] == instance_id_of("a")
    assert pickle.loads(pickle.dumps(data)).names == {instance_id_of("a"): "a"}
    assert with_instance_ids(["a", "b"]).names == {}


def test_names_of_a_column_map_ids_back_to_strings():
    assert names_of(["a", "b", "a", 3, None]) == {instance_id_of("a"): "a", instance_id_of("b"): "b"}


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


def test_the_column_is_found_in_dataclasses():
    assert with_instance_ids([Example(5)], id="uid")[0].instance_id == 5


def test_a_column_of_the_users_own_named_instance_id_serves_when_asked_for():
    rows = [{"instance_id": "a", "x": 1}, {"instance_id": 4, "x": 2}]
    data = with_instance_ids(rows, id="instance_id")
    assert ids_of(data) == [instance_id_of("a"), 4]
    assert rows[0]["instance_id"] == "a"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (True, InstanceIdError, r"row 1 has True in column 'uid', of type bool. An id is an integer or a string"),
        (np.bool_(True), InstanceIdError, r"of type bool"),
        (1.0, InstanceIdError, r"row 1 has 1.0 in column 'uid', of type float.*convert the column.*str\(\)"),
        (torch.tensor(1.0), InstanceIdError, r"has 1.0 .* of type float"),
        (torch.tensor([1, 2]), InstanceIdError, r"tensor\(\[1, 2\]\) .* of type Tensor"),
        (b"a", InstanceIdError, r"of type bytes"),
        ([1], InstanceIdError, r"of type list"),
        (["x" * 200], InstanceIdError, r"row 1 has \['x{70,75}\.\.\. in column"),
        (-1, InstanceIdError, r"row 1 has -1 in column 'uid', which is negative. An id is an integer from 0 on"),
        (None, MissingIdError, r"row 1 has None in column 'uid': the id is missing. Fill it in"),
        (float("nan"), MissingIdError, r"row 1 has nan in column 'uid': the id is missing"),
        (np.float32("nan"), MissingIdError, r"the id is missing"),
        ("", MissingIdError, r"row 1 has '' in column 'uid': the id is missing"),
        (
            2**62,
            InstanceIdError,
            r"row 1 has 4611686018427387904 .*from 2\*\*62 .* reserved.*give the column as strings",
        ),
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
        ("text", 0, r"row 0 is a str without names"),
    ],
    ids=repr,
)
def test_a_missing_column_is_named_with_its_nearest_neighbors(row, column, text):
    with pytest.raises(MissingIdError, match=text):
        with_instance_ids([row], id=column)[0]


def test_two_different_rows_with_one_id_are_an_error_that_names_both():
    data = with_instance_ids([{"uid": 4}, {"uid": 5}, {"uid": 4}], id="uid")
    assert data[0]["instance_id"] == 4
    with pytest.raises(
        InstanceIdError, match=r"row 0 and row 2 are different rows with one id, 4 in column 'uid'.*groups='uid'"
    ):
        data[2]


def test_rows_with_one_id_are_found_through_subsets_and_concatenations():
    left, right = [{"uid": "a"}, {"uid": "b"}], [{"uid": "c"}, {"uid": "a"}]
    data = with_instance_ids(ConcatDataset([Subset(left, [1, 0]), right]), id="uid")
    with pytest.raises(InstanceIdError, match=r"row 0 and row 3 are different rows with one id, 'a'"):
        list(data)


def test_reading_the_same_row_twice_is_fine():
    rows = [{"uid": 4}, {"uid": 5}]
    data = with_instance_ids(ConcatDataset([rows, Subset(rows, [1, 1, 0])]), id="uid")
    assert ids_of(data) == [4, 5, 5, 5, 4]
    assert ids_of(data) == [4, 5, 5, 5, 4]


def test_rows_of_one_group_share_an_id():
    rows = [("x", "anna"), ("y", "ben"), ("z", "anna"), ("w", 3)]
    data = with_instance_ids(rows, groups=1)
    assert [row[-1] for row in data] == [instance_id_of("anna"), instance_id_of("ben"), instance_id_of("anna"), 3]
    assert sorted(data.names.values()) == ["anna", "ben"]


@pytest.fixture
def colliding_hash(monkeypatch):
    """All strings of one length have one hash: real collisions of 62 bits cannot be found."""
    monkeypatch.setattr(columns, "instance_id_of", len)


@pytest.mark.usefixtures("colliding_hash")
@pytest.mark.parametrize("kind", ["id", "groups"])
def test_two_strings_with_one_hash_are_an_error_that_names_both(kind):
    data = with_instance_ids([{"uid": "a"}, {"uid": "b"}], **{kind: "uid"})
    with pytest.raises(InstanceIdError, match=r"'b' and 'a' both have the instance id 1. Rename one of them"):
        list(data)
    with pytest.raises(InstanceIdError, match="'b' and 'a' both have the instance id 1"):
        names_of(["a", "b"])


@pytest.mark.usefixtures("colliding_hash")
def test_a_number_that_equals_the_hash_of_a_string_is_an_error():
    with pytest.raises(InstanceIdError, match="1 and 'a' both have the instance id 1"):
        list(with_instance_ids([{"g": "a"}, {"g": 1}], groups="g"))


def test_id_and_groups_together_are_refused_with_the_difference():
    with pytest.raises(
        InstanceIdError, match=r"id='a' and groups='b' were both given. With id= every row .* Give one of the two"
    ):
        with_instance_ids([{}], id="a", groups="b")


@pytest.mark.parametrize("column", [True, 1.5, ["uid"]], ids=repr)
def test_a_column_that_is_neither_name_nor_position_is_refused(column):
    with pytest.raises(InstanceIdError, match=r"id=.* is of type \w+. Give the name of a column, or its position"):
        with_instance_ids([{}], id=column)
