"""Ids that are known without reading rows equal those that reading gives."""

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Subset, SubsetRandomSampler, TensorDataset

from turnover.batches import with_instance_ids
from turnover.batches.known import carries_ids, ids_of


class Unreadable(TensorDataset):
    def __getitem__(self, index):
        raise AssertionError("a row was read")


def rows(count: int = 10) -> TensorDataset:
    return TensorDataset(torch.arange(count).float(), torch.zeros(count))


@pytest.mark.parametrize(
    "data",
    [
        with_instance_ids(rows()),
        with_instance_ids(Subset(rows(), [7, 2, 2])),
        Subset(with_instance_ids(rows()), [3, 9]),
        with_instance_ids(ConcatDataset([rows(3), rows(4)])),
        DataLoader(with_instance_ids(rows()), batch_size=4),
        with_instance_ids(DataLoader(rows(), batch_size=4)),
    ],
    ids=["whole", "subset below", "subset above", "concatenated", "loader", "loader with ids"],
)
def test_known_ids_are_those_of_the_rows(data):
    read = [row[-1] for row in data]
    expected = torch.cat(read).tolist() if isinstance(data, DataLoader) else read
    assert ids_of(data).tolist() == expected
    assert carries_ids(data)


def test_no_row_is_read():
    data = with_instance_ids(Unreadable(torch.zeros(5), torch.zeros(5)))
    assert ids_of(data).tolist() == [0, 1, 2, 3, 4]


def test_where_only_reading_tells_nothing_is_said():
    data = with_instance_ids([{"user": 5}, {"user": 6}], id="user")
    assert ids_of(data) is None
    assert ids_of(DataLoader(with_instance_ids(rows()), sampler=SubsetRandomSampler([1, 2]))) is None


def test_hugging_face_columns_are_known():
    datasets = pytest.importorskip("datasets", reason="needs the extra text")
    data = with_instance_ids(datasets.Dataset.from_dict({"text": ["a", "b", "c"]})).select([2, 0])
    assert ids_of(data).tolist() == [2, 0]
    assert carries_ids(data)


def test_plain_data_carries_no_ids():
    assert not carries_ids(rows())
    assert not carries_ids(DataLoader(rows()))
