"""Hugging Face data sets get a column, and its ids are rows of the root."""

import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from turnover.batches import instance_id_of, names_of, with_instance_ids
from turnover.errors import InstanceIdError, MissingIdError, TurnOverWarning

datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")

# `sort` of datasets itself uses what pyarrow will drop.
pytestmark = pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")

ROWS = 20


@pytest.fixture(autouse=True, scope="module")
def no_progress_bars():
    datasets.disable_progress_bars()


def table(size=ROWS, start=0):
    return datasets.Dataset.from_dict({"x": list(range(start, start + size))})


@pytest.fixture
def on_disk(tmp_path):
    folder = str(tmp_path / "rows")
    concatenated().save_to_disk(folder)
    return datasets.load_from_disk(folder)


def ids_of(data):
    return [row["instance_id"] for row in data]


CUTS = {
    "nothing": lambda data: data,
    "select": lambda data: data.select([5, 3, 3]),
    "range": lambda data: data.select(range(5, 12)),
    "range of range": lambda data: data.select(range(5, 18)).select(range(2, 9)),
    "shuffle": lambda data: data.shuffle(seed=1),
    "range, shuffled": lambda data: data.select(range(5, 12)).shuffle(seed=1),
    "shuffle, range": lambda data: data.shuffle(seed=1).select(range(3, 9)),
    "filter": lambda data: data.filter(lambda row: row["x"] % 3 == 0),
    "sort": lambda data: data.sort("x", reverse=True),
    "skip": lambda data: data.skip(4),
    "shard": lambda data: data.shard(4, 2),
    "split": lambda data: data.train_test_split(0.3, seed=0)["test"],
    "ordered split": lambda data: data.train_test_split(0.3, shuffle=False)["test"],
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_ids_are_root_rows_whether_given_before_or_after(cut):
    before = cut(with_instance_ids(table()))
    after = with_instance_ids(cut(table()))
    assert ids_of(after) == after["x"][:]
    assert before[:] == after[:]
    assert after.features["instance_id"].dtype == "int64"


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_ids_are_root_rows_of_memory_mapped_files(on_disk, cut):
    after = with_instance_ids(cut(on_disk))
    assert ids_of(after) == after["x"][:]


def test_a_cut_of_a_concatenation_is_warned_about():
    data = concatenated()
    assert ids_of(with_instance_ids(data)) == list(range(20))
    assert ids_of(with_instance_ids(data.shuffle(seed=0))) == data.shuffle(seed=0)["x"][:]
    with pytest.warns(TurnOverWarning, match=r"cut out of a concatenated one.*Give ids first, then select"):
        given = with_instance_ids(data.select(range(5, 15)))
    assert ids_of(given) == list(range(10))
    with pytest.warns(TurnOverWarning, match="cut out of a concatenated one"):
        within_one = with_instance_ids(data.select(range(10, 14)))
    assert ids_of(within_one) == list(range(4))


def test_splits_do_not_share_ids():
    splits = datasets.DatasetDict(train=table(5), test=table(3))
    given = with_instance_ids(splits)
    assert isinstance(given, datasets.DatasetDict)
    assert ids_of(given["train"]) == [0, 1, 2, 3, 4]
    assert ids_of(given["test"]) == [5, 6, 7]
    plain = with_instance_ids({"train": table(2), "test": table(2)})
    assert type(plain) is dict
    assert ids_of(plain["test"]) == [2, 3]


def concatenated():
    return datasets.concatenate_datasets([table(8), table(12, 8)])


def test_integers_and_strings_of_a_column_are_used():
    numbers = datasets.Dataset.from_dict({"uid": [7, 5, 9]})
    assert ids_of(with_instance_ids(numbers, id="uid")) == [7, 5, 9]
    strings = datasets.Dataset.from_dict({"uid": ["a", "b"]})
    assert ids_of(with_instance_ids(strings, id="uid")) == [instance_id_of("a"), instance_id_of("b")]
    assert names_of(strings["uid"])[instance_id_of("b")] == "b"
    assert with_instance_ids(strings.with_format("numpy"), id="uid")["instance_id"][:].tolist() == ids_of(
        with_instance_ids(strings, id="uid")
    )
    assert isinstance(with_instance_ids(table().with_format("torch"))[3]["instance_id"], torch.Tensor)
    users = datasets.Dataset.from_dict({"user": ["a", "b", "a"]})
    assert ids_of(with_instance_ids(users, groups="user")) == [instance_id_of(name) for name in "aba"]
    for empty in (table(0), table().select([]), table().filter(lambda row: False)):
        assert with_instance_ids(empty).column_names == ["x", "instance_id"]


def test_two_rows_of_two_splits_with_one_id_are_an_error():
    splits = datasets.DatasetDict(
        train=datasets.Dataset.from_dict({"uid": [4, 5]}), test=datasets.Dataset.from_dict({"uid": [6, 5]})
    )
    with pytest.raises(InstanceIdError, match=r"row 1 of split 'train' and row 1 of split 'test' are different rows"):
        with_instance_ids(splits, id="uid")


def test_streams_are_counted_and_keep_their_features():
    data = with_instance_ids(table(4).to_iterable_dataset())
    for _ in range(2):
        assert list(data) == [{"x": number, "instance_id": number} for number in range(4)]
    assert data.column_names == ["x", "instance_id"]
    torches = with_instance_ids(table(4).to_iterable_dataset().with_format("torch"))
    assert isinstance(next(iter(torches))["instance_id"], torch.Tensor)


def test_a_stream_that_does_not_know_its_columns_is_counted():
    stream = datasets.IterableDataset.from_generator(lambda: ({"x": number} for number in range(3)))
    assert stream.column_names is None
    assert ids_of(with_instance_ids(stream)) == [0, 1, 2]
    with pytest.raises(MissingIdError, match=r"row 0 has no column 'y', only 'x'"):
        list(with_instance_ids(stream, id="y"))


def test_a_stream_that_is_shuffled_below_its_ids_is_an_error_in_the_second_epoch():
    stream = table(16).to_iterable_dataset(num_shards=4).shuffle(seed=0, buffer_size=4)
    data = with_instance_ids(stream)
    list(data)
    data.set_epoch(1)
    with pytest.raises(InstanceIdError, match=r"Your iterable changes its order: give id="):
        list(data)


def test_streams_of_several_splits_do_not_share_ids():
    splits = datasets.IterableDatasetDict(train=table(2).to_iterable_dataset(), test=table(2).to_iterable_dataset())
    given = with_instance_ids(splits)
    assert isinstance(given, datasets.IterableDatasetDict)
    assert ids_of(given["train"]) == [0, 1]
    assert ids_of(given["test"]) == [2**40, 2**40 + 1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_over_a_table_reads_root_rows(workers):
    loader = DataLoader(table().shuffle(seed=2).with_format("torch"), batch_size=8, num_workers=workers)
    batches = list(with_instance_ids(loader))
    assert all(torch.equal(batch["instance_id"], batch["x"]) for batch in batches)
    assert len(batches) == 3


def test_ids_beyond_32_bits_arrive_unchanged():
    large = [2**31, 2**53 + 1, 2**62 - 1]
    data = datasets.Dataset.from_dict({"uid": large})
    assert ids_of(with_instance_ids(data, id="uid")) == large
    assert np.asarray(with_instance_ids(data, id="uid")["instance_id"][:]).tolist() == large


@pytest.mark.parametrize("package", ["datasets", "pyarrow", "transformers", "pandas"])
def test_datasets_is_not_imported_for_data_that_need_it_not(package, monkeypatch):
    monkeypatch.delitem(sys.modules, package, raising=False)  # an import would put it back
    list(with_instance_ids(["a"]))
    assert package not in sys.modules
