"""Map-style data sets with ids behave like the data set below, plus an id."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from tests.batches.rows import ByColumn
from tests.plain_ids import plain_repr
from turnover.batches import InstanceIdDataset, instance_id_of, with_instance_ids
from turnover.errors import BatchError, InstanceIdError


class Squares(Dataset):
    """A data set that reads many rows at once and can be configured."""

    classes = ("even", "odd")

    def __init__(self, size=6):
        self.size = size
        self.epoch = 0
        self.calls = []

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        self.calls.append(index)
        return index**2, index % 2

    def __getitems__(self, indices):
        self.calls.append(list(indices))
        return [(index**2, index % 2) for index in indices]

    def set_epoch(self, epoch):
        self.epoch = epoch


class Greedy(Squares):
    """Gives one row less than it was asked for."""

    def __getitems__(self, indices):
        return super().__getitems__(indices)[:-1]


class Endless(Dataset):
    """Never says that an index is out of range, as many data sets do."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return (index,)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([("a", 0), ("b", 1)], ("b", 1, 1)),
        ([["a", 0], ["b", 1]], ["b", 1, 1]),
        ((("a",), ("b",)), ("b", 1)),
        (["a", "b"], ("b", 1)),
        (range(5, 9), (6, 1)),
        ([{"x": 1}, {"x": 2}], {"x": 2, "instance_id": 1}),
        (torch.tensor([3, 4]), (4, 1)),
        (np.array([3, 4]), (4, 1)),
        (Squares(), (1, 1, 1)),
    ],
    ids=plain_repr,
)
def test_anything_with_numbered_rows_gets_ids(data, expected):
    given = with_instance_ids(data)
    assert isinstance(given, InstanceIdDataset)
    assert given[1] == expected
    assert type(given[1]) is type(expected)
    assert len(given) == len(data)
    assert given.dataset is data


def test_iteration_ends_with_the_length_and_an_index_out_of_range_is_the_error_of_the_data_set_below():
    assert list(with_instance_ids(Endless())) == [(0, 0), (1, 1)]
    assert list(with_instance_ids([])) == []
    with pytest.raises(IndexError, match="list index out of range"):
        with_instance_ids([("a", 0)])[1]


def test_attributes_of_the_data_set_below_show_through():
    below = Squares()
    data = with_instance_ids(below)
    assert data.classes == ("even", "odd")
    data.set_epoch(3)
    assert below.epoch == 3
    data.size = 2
    assert below.size == len(data) == 2
    data.note = "mine"
    assert not hasattr(below, "note")
    assert data.note == "mine"
    with pytest.raises(AttributeError, match="nothing"):
        data.nothing  # noqa: B018


def test_pickling_keeps_rows_ids_and_attributes():
    data = pickle.loads(pickle.dumps(with_instance_ids(Subset(Squares(), [4, 2]))))
    assert list(data) == [(16, 0, 4), (4, 0, 2)]
    assert data.dataset.dataset.classes == ("even", "odd")


def test_many_rows_are_read_in_one_go_where_the_data_set_can_and_none_may_be_lost():
    below = Squares()
    assert with_instance_ids(below).__getitems__([4, 2]) == [(16, 0, 4), (4, 0, 2)]
    assert below.calls == [[4, 2]]
    assert with_instance_ids(["a", "b"]).__getitems__([1]) == [("b", 1)]
    with pytest.raises(BatchError, match=r"Greedy.__getitems__ gave 1 rows for 2 indices"):
        with_instance_ids(Greedy()).__getitems__([0, 1])


@pytest.mark.parametrize(
    "index",
    [[3, 1], torch.tensor([3, 1]), np.array([3, 1]), slice(3, 0, -2)],
    ids=["list", "tensor", "array", "slice"],
)
def test_rows_read_as_one_batch_get_all_their_ids(index):
    if isinstance(index, slice):
        data, x = with_instance_ids(np.arange(5)), np.array([3, 1])
    else:
        data, x = with_instance_ids(TensorDataset(torch.arange(5))), torch.tensor([3, 1])
    given, ids = data[index]
    assert given.tolist() == x.tolist()
    assert ids.dtype == torch.int64
    assert ids.tolist() == [3, 1]


def test_rows_read_as_one_batch_use_the_column():
    data = with_instance_ids(ByColumn(), id="uid")
    assert data[[3, 1]]["instance_id"].tolist() == [13, 11]
    assert data[2]["instance_id"] == 12
    assert data[[]]["instance_id"].tolist() == []
    with pytest.raises(InstanceIdError, match=r"2 rows were read at once, and id='x' does not hold one value"):
        with_instance_ids(OneAtATime([{"x": 3}, {"x": 4}]), id="x")[[0, 1]]


class OneAtATime(list):
    """Gives its first row for many indices, too."""

    def __getitem__(self, index):
        return super().__getitem__(index if isinstance(index, int) else 0)


@pytest.mark.parametrize(
    "wrap", [lambda data: data, lambda data: Subset(data, [0]), lambda data: ConcatDataset([data])]
)
def test_giving_ids_twice_is_an_error(wrap):
    with pytest.raises(InstanceIdError, match=r"already carries instance ids.*Use it as it is.*\.dataset"):
        with_instance_ids(wrap(with_instance_ids(["a"])))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("text", r"a str has no numbered rows. Give a list of rows"),
        ({"train": [1]}, r"a dict has no numbered rows.*of several data sets each by itself"),
        ({1, 2}, r"a set has no numbered rows.*of a set sorted"),
        (3, r"a int holds no rows. Give a data set"),
        (nn.Sequential(nn.ReLU()), r"a Sequential holds no rows. Give a data set"),
        (TensorDataset, r"a type holds no rows. Give a data set"),
        (torch.tensor(3), r"a Tensor holds no rows. Give a data set"),
        (np.array(3), r"a ndarray holds no rows. Give a data set"),
        ((row for row in [1]), r"a generator can be iterated only once.*Give something that starts anew"),
        (iter([1]), r"a list_iterator can be iterated only once"),
        (map(str, [1]), r"a map can be iterated only once"),
    ],
    ids=plain_repr,
)
def test_what_is_no_data_set_is_told_what_to_give_instead(data, text):
    with pytest.raises(BatchError, match=text):
        with_instance_ids(data)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_over_it_gives_shuffled_batches_with_their_ids(workers):
    data = with_instance_ids(TensorDataset(torch.arange(20) * 10, torch.arange(20) % 2))
    seen = []
    for x, y, ids in DataLoader(data, batch_size=6, shuffle=True, num_workers=workers):
        assert ids.dtype == torch.int64
        assert torch.equal(x, ids * 10)
        assert torch.equal(y, ids % 2)
        seen += ids.tolist()
    assert sorted(seen) == list(range(20))
    assert seen != list(range(20))


def test_names_are_complete_although_workers_read_the_rows():
    data = with_instance_ids([{"uid": name} for name in "abcd"], id="uid")
    ids = torch.cat([batch["instance_id"] for batch in DataLoader(data, num_workers=2)]).tolist()
    assert [data.names[number] for number in ids] == list("abcd")
    assert ids[0] == instance_id_of("a")
