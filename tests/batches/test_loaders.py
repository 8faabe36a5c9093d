"""A loader keeps all its settings, and the user's collate_fn its rows; ids known without reading equal those read."""

import inspect
import pickle
from collections import UserDict

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

from tests.batches.rows import ByColumn, Example, Point, Stream, numbered
from turnover.batches import (
    InstanceIdDataset,
    carries_ids,
    ids_of,
    instance_id_of,
    split_ids,
    with_instance_ids,
)
from turnover.errors import BatchError, InstanceIdError


def plain_rows(rows):
    """A collate_fn that would notice an id."""
    assert all(type(row) is tuple and len(row) == 2 for row in rows)
    return torch.stack([x for x, _ in rows]), torch.stack([y for _, y in rows])


def note_worker(worker):
    torch.manual_seed(worker)


def test_batches_get_the_ids_of_their_rows():
    given = with_instance_ids(DataLoader(numbered(), batch_size=4, shuffle=True))
    seen = []
    for x, y, ids in given:
        assert ids.dtype == torch.int64
        assert torch.equal(x, ids * 10)
        assert torch.equal(y, ids % 2)
        seen += ids.tolist()
    assert sorted(seen) == list(range(10))
    assert len(given) == 3
    ((x, ids),) = with_instance_ids(DataLoader(torch.arange(3), batch_size=3))
    assert x.tolist() == ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("context", [None, "fork"])
def test_worker_processes_and_pickling_give_the_same_batches(context):
    loader = DataLoader(numbered(), batch_size=4, num_workers=2, multiprocessing_context=context, collate_fn=plain_rows)
    for given in (with_instance_ids(loader), pickle.loads(pickle.dumps(with_instance_ids(loader)))):
        batches = list(given)
        assert [ids.tolist() for _, _, ids in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert all(torch.equal(x, ids * 10) for x, _, ids in batches)


def test_shuffling_is_that_of_the_original_loader():
    def loader():
        return DataLoader(numbered(), batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(5))

    plain = [x.tolist() for x, _ in loader()]
    given = [x.tolist() for x, _, _ in with_instance_ids(loader())]
    assert given == plain


SETTINGS = {
    "batch_size": 3,
    "num_workers": 2,
    "collate_fn": plain_rows,
    "pin_memory": False,
    "drop_last": True,
    "timeout": 30,
    "worker_init_fn": note_worker,
    "multiprocessing_context": "fork",
    "generator": torch.Generator(),
    "prefetch_factor": 3,
    "persistent_workers": True,
    "pin_memory_device": "cpu",
    "in_order": False,
}
MADE_BY_ARGUMENTS = {"dataset", "shuffle", "sampler", "batch_sampler"}


class MyLoader(DataLoader):
    def __init__(self, data, note):
        super().__init__(data, batch_size=2)
        self.note = note


def test_every_setting_of_a_loader_and_its_class_are_kept():
    mine = with_instance_ids(MyLoader(numbered(), note="mine"))
    assert (type(mine), mine.note) == (MyLoader, "mine")
    known = set(inspect.signature(DataLoader.__init__).parameters) - {"self"} - MADE_BY_ARGUMENTS
    assert known == set(SETTINGS), "a new setting of DataLoader: add it to SETTINGS"
    sampler = RandomSampler(range(10))
    loader = DataLoader(numbered(), sampler=sampler, **SETTINGS)
    given = with_instance_ids(loader)
    assert type(given) is DataLoader
    assert given is not loader
    for name in SETTINGS.keys() - {"collate_fn"}:
        assert getattr(given, name) == getattr(loader, name), name
    assert given.sampler is sampler
    assert given.batch_sampler is loader.batch_sampler
    assert given.collate_fn.collate_fn is plain_rows
    assert given.dataset.dataset is loader.dataset
    assert loader.collate_fn is plain_rows


def test_persistent_workers_and_running_iterators_stay_with_the_original():
    loader = DataLoader(numbered(4), batch_size=2, num_workers=1, persistent_workers=True)
    assert len(next(iter(loader))) == 2
    given = with_instance_ids(loader)
    for _ in range(2):
        assert [ids.tolist() for _, _, ids in given] == [[0, 1], [2, 3]]
    assert len(next(iter(loader))) == 2


@pytest.mark.parametrize(
    "collate",
    [
        lambda rows: (1, 2),
        lambda rows: [1, 2],
        lambda rows: {"x": 1},
        lambda rows: UserDict(x=1),
        lambda rows: Point(1, 2),
        lambda rows: Example(torch.zeros(2)),
    ],
    ids=["tuple", "list", "dict", "mapping", "namedtuple", "dataclass"],
)
def test_every_form_of_batch_takes_ids_and_gives_them_back(collate):
    plain = collate(None)
    (batch,) = with_instance_ids(DataLoader(numbered(2), batch_size=2, collate_fn=collate))
    rest, ids = split_ids(batch)
    assert type(rest) is type(plain)
    assert ids.tolist() == [0, 1]


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_sampler": BatchSampler(SequentialSampler(range(10)), 4, drop_last=True)},
        {"batch_sampler": [[3, 1], [2]]},
        {"sampler": [5, 5, 2], "batch_size": 2},
        {"sampler": WeightedRandomSampler([0.0] * 9 + [1.0], 4)},
        {"batch_size": 4, "drop_last": True},
    ],
)
def test_samplers_and_dropped_rests_work_as_before(settings):
    plain = list(DataLoader(numbered(), **settings))
    given = list(with_instance_ids(DataLoader(numbered(), **settings)))
    assert len(given) == len(plain)
    for (x, _, ids), (expected, _) in zip(given, plain, strict=True):
        assert torch.equal(x, expected)
        assert torch.equal(ids * 10, expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_without_automatic_batching_each_row_has_its_id(workers):
    loader = DataLoader(numbered(4), batch_size=None, sampler=[2, 0, 3], num_workers=workers)
    rows = list(with_instance_ids(loader))
    assert [number for _, _, number in rows] == [2, 0, 3]
    assert [x.item() for x, _, _ in rows] == [20, 0, 30]


def test_batches_that_the_data_set_makes_itself_have_all_ids():
    sampler = BatchSampler(SequentialSampler(range(6)), 4, drop_last=False)
    loader = DataLoader(ByColumn(), batch_size=None, sampler=sampler)
    assert [batch["instance_id"].tolist() for batch in with_instance_ids(loader)] == [[0, 1, 2, 3], [4, 5]]
    own = with_instance_ids(loader, id="uid")
    assert [batch["instance_id"].tolist() for batch in own] == [[10, 11, 12, 13], [14, 15]]


@pytest.mark.parametrize("kind", [list, Stream])
def test_ready_batches_take_their_ids_from_a_column(kind):
    batches = [{"uid": torch.tensor([4, 5])}, {"uid": ["a", "b", "c"]}]
    given = list(with_instance_ids(DataLoader(kind(batches), batch_size=None), id="uid"))
    assert given[0]["instance_id"].tolist() == [4, 5]
    assert given[1]["instance_id"].tolist() == [instance_id_of(name) for name in "abc"]


@pytest.mark.parametrize("kind", [list, Stream])
def test_many_values_in_the_column_of_one_row_are_refused(kind):
    loader = DataLoader(kind([{"uid": [4, 5]}]), batch_size=1)
    with pytest.raises(InstanceIdError, match=r"row 0 has \[4, 5\] in column 'uid', of type list"):
        next(iter(with_instance_ids(loader, id="uid")))


def test_iterable_data_sets_under_several_workers_are_refused_at_once_without_a_column():
    loader = DataLoader(Stream([{"uid": 3}, {"uid": 4}]), num_workers=2)
    with pytest.raises(BatchError, match=r"""cannot be counted by 2 workers.*id="column"""):
        with_instance_ids(loader)
    ids = [batch["instance_id"].item() for batch in with_instance_ids(loader, id="uid")]
    assert sorted(ids) == [3, 3, 4, 4]


def test_a_loader_over_data_with_ids_is_returned_as_it_is():
    data = with_instance_ids(numbered())
    for part in (data, Subset(data, [1]), ConcatDataset([data, Subset(data, [2])])):
        loader = DataLoader(part)
        assert with_instance_ids(loader) is loader
    given = with_instance_ids(DataLoader(numbered()))
    assert isinstance(given.dataset, InstanceIdDataset)
    assert with_instance_ids(given) is given


def test_a_column_for_data_that_have_ids_already_is_an_error():
    loader = DataLoader(with_instance_ids([{"uid": 3}]))
    with pytest.raises(InstanceIdError, match=r"already carries ids, so id='uid' has no use"):
        with_instance_ids(loader, id="uid")


def test_parts_with_and_without_ids_are_an_error():
    data = ConcatDataset([with_instance_ids(numbered()), numbered()])
    with pytest.raises(InstanceIdError, match=r"some parts .* carry ids and others do not. Concatenate first"):
        with_instance_ids(DataLoader(data))


@pytest.mark.parametrize(
    "parts",
    [
        ConcatDataset([with_instance_ids(numbered()), with_instance_ids(numbered())]),
        ChainDataset([with_instance_ids(Stream("ab")), with_instance_ids(Stream("cd"))]),
    ],
    ids=["concat", "chain"],
)
def test_parts_that_were_numbered_one_by_one_are_an_error(parts):
    with pytest.raises(
        InstanceIdError, match=r"given ids one by one, so different rows share an id.*Concatenate first"
    ):
        with_instance_ids(DataLoader(parts))


def test_parts_of_one_root_may_be_numbered_one_by_one():
    root = numbered()
    parts = ConcatDataset([with_instance_ids(Subset(root, [5, 6])), with_instance_ids(Subset(root, [1]))])
    loader = DataLoader(parts, batch_size=3)
    assert with_instance_ids(loader) is loader
    assert next(iter(loader))[2].tolist() == [5, 6, 1]
    own = ConcatDataset([with_instance_ids([{"uid": number}], id="uid") for number in (3, 4)])
    assert with_instance_ids(DataLoader(own)).dataset is own


def sort_in_place(rows):
    rows.sort(key=lambda row: -row[0])
    return default_collate(rows)


def drop_in_place(rows):
    rows.pop()
    return default_collate(rows)


@pytest.mark.parametrize("collate", [sort_in_place, drop_in_place])
def test_a_collate_fn_that_moves_rows_is_refused_and_told_what_works(collate):
    loader = DataLoader(numbered(), batch_size=5, collate_fn=collate)
    with pytest.raises(BatchError, match=r"reorders or drops rows.*DataLoader\(with_instance_ids\(dataset\)"):
        next(iter(with_instance_ids(loader)))
    x, _, ids = next(iter(DataLoader(with_instance_ids(numbered()), batch_size=5, collate_fn=collate)))
    assert torch.equal(x, ids * 10)


def replace_in_place(rows):
    for index, (x, y) in enumerate(rows):
        rows[index] = (x + 1, y)
    return default_collate(rows)


def test_a_collate_fn_may_put_other_rows_in_place():
    x, _, ids = next(iter(with_instance_ids(DataLoader(numbered(), batch_size=5, collate_fn=replace_in_place))))
    assert torch.equal(x, ids * 10 + 1)


def test_a_row_of_none_is_refused_because_it_would_be_dropped():
    rows = [(1, 2), None]
    loader = DataLoader(rows, batch_size=2, collate_fn=lambda given: default_collate([row for row in given if row]))
    with pytest.raises(BatchError, match=r"the row with id 1 is None.*Leave such rows out"):
        next(iter(with_instance_ids(loader)))


def test_a_loader_that_only_stands_in_for_another_is_refused():
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    loader = accelerate.Accelerator(cpu=True).prepare(DataLoader(numbered()))
    with pytest.raises(BatchError, match=r"only stands in for another loader. Give ids to the DataLoader first"):
        with_instance_ids(loader)


@pytest.mark.parametrize(
    "data",
    [
        with_instance_ids(numbered()),
        with_instance_ids(Subset(numbered(), [7, 2, 2])),
        Subset(with_instance_ids(numbered()), [3, 9]),
        with_instance_ids(ConcatDataset([numbered(3), numbered(4)])),
        DataLoader(with_instance_ids(numbered()), batch_size=4),
        with_instance_ids(DataLoader(numbered(), batch_size=4)),
    ],
    ids=["whole", "subset below", "subset above", "concatenated", "loader", "loader with ids"],
)
def test_known_ids_are_those_of_the_known_rows(data):
    read = [row[-1] for row in data]
    expected = torch.cat(read).tolist() if isinstance(data, DataLoader) else read
    assert ids_of(data).tolist() == expected
    assert carries_ids(data)


def test_where_only_reading_tells_nothing_is_said():
    data = with_instance_ids([{"user": 5}, {"user": 6}], id="user")
    assert ids_of(data) is None
    assert ids_of(DataLoader(with_instance_ids(numbered()), sampler=SubsetRandomSampler([1, 2]))) is None
