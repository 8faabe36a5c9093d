"""Ids are attached to every form of row and batch, and come off again; equal content has one digest."""

import copy
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map
from torch.utils.data import default_collate

from tests.batches.rows import Example, Point
from tests.plain_ids import plain_repr
from turnover.batches import attach, split_ids
from turnover.batches.rows import digest
from turnover.errors import BatchError, InstanceIdError, MissingIdError

IDS = torch.tensor([7, 4])


@dataclass(frozen=True)
class Frozen:
    x: object


@dataclass(slots=True)
class Slotted:
    x: object


@dataclass(slots=True)
class SlottedWithRoom:
    x: object
    instance_id: int | None = None


class SharedCopy(MutableMapping):
    """A mapping whose shallow copy writes into the original."""

    def __init__(self, items):
        self.items_ = items

    def __getitem__(self, key):
        return self.items_[key]

    def __setitem__(self, key, value):
        self.items_[key] = value

    def __delitem__(self, key):
        del self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


class FixedKeys(UserDict):
    """A mapping that takes no keys but its own."""

    def __setitem__(self, key, value):
        if key != "x":
            raise KeyError(key)
        super().__setitem__(key, value)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((1, 2), (1, 2, 5)),
        ((), (5,)),
        ([1, 2], [1, 2, 5]),
        ({"x": 1}, {"x": 1, "instance_id": 5}),
        (3, (3, 5)),
        ("text", ("text", 5)),
        (None, (None, 5)),
        (torch.Size([1, 2]), (1, 2, 5)),
        (MappingProxyType({"x": 1}), {"x": 1, "instance_id": 5}),
        (SharedCopy({"x": 1}), {"x": 1, "instance_id": 5}),
        (FixedKeys({"x": 1}), {"x": 1, "instance_id": 5}),
    ],
    ids=plain_repr,
)
def test_every_form_of_row_takes_an_id(row, expected):
    before = copy.deepcopy(row) if not isinstance(row, MappingProxyType) else row
    given = attach(row, 5)
    assert given == expected
    assert type(given) is type(expected)
    assert row == before


@pytest.mark.parametrize("bare", [torch.ones(2), np.ones(2)], ids=["tensor", "array"])
def test_a_bare_tensor_or_array_becomes_a_pair(bare):
    row, number = attach(bare, 5)
    assert row is bare
    assert number == 5


@pytest.mark.parametrize("kind", [UserDict, OrderedDict])
def test_a_mapping_keeps_its_type_and_the_original_its_keys(kind):
    row = kind(x=1)
    given = attach(row, IDS)
    assert type(given) is kind
    assert list(given) == ["x", "instance_id"]
    assert list(row) == ["x"]
    back, ids = split_ids(given)
    assert type(back) is kind
    assert back == row
    assert torch.equal(ids, IDS)


def test_a_mapping_that_shares_its_storage_is_left_as_it_was():
    own = SharedCopy({"x": 1, "instance_id": 3})
    assert attach(own, 5, replace=True) == {"x": 1, "instance_id": 5}
    assert own["instance_id"] == 3


def test_a_namedtuple_gets_a_last_field_and_stays_what_it_was():
    given = attach(Point(1, 2), 5)
    assert given == (1, 2, 5)
    assert given._fields == ("x", "y", "instance_id")
    assert isinstance(given, Point)
    assert given.total() == 3
    assert repr(given) == "Point(x=1, y=2, instance_id=5)"
    assert given._replace(x=9) == (9, 2, 5)
    assert type(attach(Point(0, 0), 1)) is type(given)


def test_a_namedtuple_with_id_goes_through_collate_and_tree_map():
    batch = default_collate([attach(Point(1, 2), 5), attach(Point(3, 4), 6)])
    doubled = tree_map(lambda part: part * 2, batch)
    assert torch.equal(doubled.instance_id, torch.tensor([10, 12]))
    rest, ids = split_ids(batch)
    assert type(rest) is Point
    assert torch.equal(ids, torch.tensor([5, 6]))


def test_a_namedtuple_that_declares_the_id_loses_only_that_field():
    row_type = namedtuple("Row", ["instance_id", "x"])
    rest, ids = split_ids(row_type(IDS, 1))
    assert rest._asdict() == {"x": 1}
    assert torch.equal(ids, IDS)


@pytest.mark.parametrize("kind", [Example, Frozen, SlottedWithRoom])
def test_a_dataclass_becomes_a_copy_with_the_attribute(kind):
    row = kind([1])
    given = attach(row, IDS)
    assert type(given) is kind
    assert given.x is row.x
    assert given.instance_id is IDS
    assert getattr(row, "instance_id", None) is None
    back, ids = split_ids(given)
    assert back == row
    assert getattr(back, "instance_id", None) is None
    assert torch.equal(ids, IDS)


def test_a_dataclass_with_slots_and_no_room_is_told_which_field_to_add():
    with pytest.raises(BatchError, match=r"Slotted cannot take .* has slots.*instance_id: int \| None = None"):
        attach(Slotted(1), 5)


@pytest.mark.parametrize(
    "row", [{"instance_id": 1}, UserDict(instance_id=1), attach(Point(1, 2), 5), SlottedWithRoom(1, 2)], ids=plain_repr
)
def test_a_row_that_has_an_id_already_is_refused_unless_it_is_the_users_own(row):
    with pytest.raises(InstanceIdError, match=r"already has 'instance_id'.*id='instance_id'"):
        attach(row, 5)
    given = attach(row, 6, replace=True)
    assert (given["instance_id"] if isinstance(given, Mapping) else given.instance_id) == 6


@pytest.mark.parametrize("batch", [(1, 2), [1, 2], {"x": 1}, Point(1, 2), Example(1), SharedCopy({"x": 1})])
def test_splitting_undoes_attaching(batch):
    rest, ids = split_ids(attach(batch, IDS))
    assert rest == batch
    assert type(rest) is (dict if isinstance(batch, SharedCopy) else type(batch))
    assert torch.equal(ids, IDS)


@pytest.mark.parametrize(
    "batch",
    [
        (torch.zeros(2), np.array([7, 4], dtype=np.uint16)),
        (torch.zeros(2), IDS.to(torch.int32)),
        {"x": 0, "instance_id": [7, 4]},
    ],
    ids=["array", "int32", "list"],
)
def test_split_ids_are_int64_whatever_integers_they_were(batch):
    found = split_ids(batch)[1]
    assert found.dtype == torch.int64
    assert found.tolist() == [7, 4]


@pytest.mark.parametrize(
    ("batch", "text"),
    [
        ({"x": 1, "y": 2}, r"dict, has no 'instance_id', only 'x', 'y'.*with_instance_ids"),
        (Point(1, 2), r"no 'instance_id', only 'x', 'y'"),
        (Example(1), r"Example, has no 'instance_id'"),
        (SlottedWithRoom(1), r"SlottedWithRoom, has no 'instance_id'"),
        ((1, 2), r"the batch ends in int; its last item must be the ids, integers in one dimension"),
        ((), r"the batch is empty"),
        ((torch.zeros(2), torch.zeros(2)), r"the last item of the batch must be integers .* float32 of shape \(2,\)"),
        ((torch.zeros(2), torch.zeros(2, 1).long()), r"int64 of shape \(2, 1\)"),
        ((torch.zeros(2), torch.tensor([True])), r"is bool of shape"),
        (torch.zeros(2), r"a Tensor, has no 'instance_id'"),
    ],
)
def test_a_batch_without_ids_is_a_named_error(batch, text):
    with pytest.raises(MissingIdError, match=text):
        split_ids(batch)


@pytest.mark.parametrize("ids", [torch.zeros(2), ["a", "b"], np.zeros((2, 2), int), [None]], ids=plain_repr)
def test_an_instance_id_that_cannot_be_ids_is_a_named_error(ids):
    with pytest.raises(InstanceIdError, match="'instance_id' of the batch must be integers in one dimension"):
        split_ids({"x": 1, "instance_id": ids})


# Digests


class Picture:
    def __init__(self, raw):
        self.raw = raw

    def tobytes(self):
        return self.raw


DIFFERENT = [
    *(0, 1, True, 0.0, 1j, None, "", "0", b"0", (), (0,), [0], ((0,),), (0, 1)),
    *({"a": 0}, {"a": 1}, {"b": 0}, Example(0), Example(1), Picture(b"a"), Picture(b"b")),
    *(np.zeros(2), np.zeros((1, 2)), np.zeros(2, np.float32), np.float64(0)),
    *(np.array(["a"], dtype=object), np.array(["b"], dtype=object)),
    *(torch.zeros(2), torch.zeros(2, 1), torch.zeros(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
    *(torch.tensor(0.0), torch.zeros(2, dtype=torch.bool), torch.zeros(0)),
    *(torch.zeros(1, dtype=torch.complex64), torch.ones(1, dtype=torch.complex64)),
]


def test_digests_repeat_and_differ_where_content_does():
    digests = [digest(value) for value in DIFFERENT]
    assert len(set(digests)) == len(DIFFERENT)
    assert digests == [digest(copy.deepcopy(value)) for value in DIFFERENT]
    assert max(digests) < 2**64
    # Computed in another process, whose own hashes of strings are others.
    assert digest({"a": ("x", 1, 2.5)}) == 8827611629947428410


def test_a_digest_is_of_what_is_shown_not_of_how_it_is_stored():
    square, wave = torch.arange(4.0).reshape(2, 2), torch.tensor([1 + 2j])
    assert digest(square.T) == digest(square.T.contiguous())
    assert digest(square.numpy().T) == digest(square.numpy().T.copy())
    assert digest(wave.conj()) == digest(torch.tensor([1 - 2j])) != digest(wave)


def test_unknown_objects_sparse_tensors_and_rows_that_hold_themselves_come_to_an_end():
    itself = []
    itself.append(itself)
    for make in (object, lambda: torch.eye(2).to_sparse(), lambda: itself):
        assert digest(make()) == digest(make())
