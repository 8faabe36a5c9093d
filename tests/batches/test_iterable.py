"""Rows of an iterable are counted, and rejected where counting would give wrong ids."""

import pytest
import torch
from torch.utils.data import ChainDataset, DataLoader, IterableDataset, get_worker_info

from tests.batches.rows import Stream
from turnover.batches import InstanceIdIterable, instance_id_of, with_instance_ids
from turnover.errors import BatchError, InstanceIdError


class Once:
    def __init__(self):
        self.rows = iter("ab")

    def __iter__(self):
        return self.rows


def take_your_part(worker):
    info = get_worker_info()
    info.dataset.start = worker
    info.dataset.step = info.num_workers


def test_rows_are_counted_in_order_in_every_epoch():
    data = with_instance_ids(Stream(["a", "b", "c"]))
    assert isinstance(data, InstanceIdIterable)
    assert isinstance(data, IterableDataset)
    chained = with_instance_ids(ChainDataset([Stream("ab"), Stream("c")]))
    for _ in range(3):
        assert list(data) == list(chained) == [("a", 0), ("b", 1), ("c", 2)]


def test_an_iterable_that_gives_nothing_the_second_time_is_an_error_and_an_empty_one_is_not():
    data = with_instance_ids(Once())
    assert list(data) == [("a", 0), ("b", 1)]
    with pytest.raises(BatchError, match=r"Once gave no rows the second time: it can be iterated only once"):
        list(data)
    empty = with_instance_ids(Stream([]))
    assert list(empty) == list(empty) == []


def test_a_stream_that_changes_its_order_is_an_error_in_the_second_epoch():
    stream = Stream(list(range(50)))
    stream.shuffled = True
    data = with_instance_ids(stream)
    list(data)
    with pytest.raises(InstanceIdError, match=r"""Your iterable changes its order: give id="column".*augmentation"""):
        list(data)


def test_a_changed_order_is_found_when_the_first_epoch_was_left_early():
    stream = Stream(list("abcd"))
    data = with_instance_ids(stream)
    rows = iter(data)
    assert [next(rows), next(rows)] == [("a", 0), ("b", 1)]
    stream.rows = list("abdc")
    assert list(data) == [("a", 0), ("b", 1), ("d", 2), ("c", 3)]
    stream.rows = list("bacd")
    with pytest.raises(InstanceIdError, match="row 0 is not what it was in an earlier epoch"):
        list(data)


def test_one_worker_counts_and_several_are_refused():
    data = with_instance_ids(Stream(list(range(6))))
    batches = list(DataLoader(data, batch_size=4, num_workers=1))
    assert [ids.tolist() for _, ids in batches] == [[0, 1, 2, 3], [4, 5]]
    batches = iter(DataLoader(data, num_workers=2))
    with pytest.raises(BatchError, match=r"""cannot be counted by 2 workers.*id="column".*use one worker"""):
        next(batches)
    batches._shutdown_workers()  # the exception keeps the iterator alive, and its workers


def test_with_a_column_several_workers_each_read_their_own_part():
    rows = [{"uid": 10 + index} for index in range(8)]
    data = with_instance_ids(Stream(rows), id="uid")
    loader = DataLoader(data, batch_size=2, num_workers=2, worker_init_fn=take_your_part)
    batches = list(loader)
    assert all(torch.equal(batch["uid"], batch["instance_id"]) for batch in batches)
    assert sorted(torch.cat([batch["instance_id"] for batch in batches]).tolist()) == list(range(10, 18))


def test_with_a_column_the_order_may_change():
    stream = Stream([{"uid": name} for name in "abcdef"])
    stream.shuffled = True
    data = with_instance_ids(stream, id="uid")
    assert data.names == {}
    for _ in range(3):
        assert all(row["instance_id"] == instance_id_of(row["uid"]) for row in data)
    assert sorted(data.names.values()) == list("abcdef")


def test_two_different_rows_with_one_id_in_one_epoch_are_an_error_and_equal_ones_are_not():
    rows = [{"uid": 4, "x": torch.ones(1)}, {"uid": 5, "x": torch.ones(2)}, {"uid": 4, "x": torch.ones(3)}]
    with pytest.raises(InstanceIdError, match=r"row 0 and row 2 are different rows with one id, 4 in column 'uid'"):
        list(with_instance_ids(Stream(rows), id="uid"))
    same = [{"uid": 4, "x": torch.ones(2)}, {"uid": 4, "x": torch.ones(2)}]
    assert [row["instance_id"] for row in with_instance_ids(Stream(same), id="uid")] == [4, 4]
    shared = with_instance_ids(Stream(rows), groups="uid")
    assert [row["instance_id"] for row in shared] == [4, 5, 4]
