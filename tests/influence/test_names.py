"""Names from the data set to the answers: strings of an id column, groups, a Hugging Face column, an index."""

import datasets
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset

import turnover
from turnover.errors import InfluenceError, InstanceIdError
from turnover.ids import instance_id_of

ROWS = 24
DOCS = [f"doc-{number}" for number in range(ROWS)]
X = torch.randn(ROWS, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
QUERIES = (X[:3], Y[:3])

pytestmark = pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")


class ByName(nn.Module):
    """Takes inputs by name, as models of dict batches do, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.act, self.out = nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2)

    def forward(self, x):
        return self.out(self.act(self.hidden(x)))


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    wrapped = turnover.wrap(ByName(), at=["act"])
    with turnover.instances(range(ROWS)):
        wrapped(X)
    return wrapped


def _records():
    return [{"uid": name, "x": row, "labels": label} for name, row, label in zip(DOCS, X, Y, strict=True)]


def _without_uid(rows):
    return torch.stack([row["x"] for row in rows]), torch.stack([row["labels"] for row in rows])


class Own(Dataset):
    """A data set of the user's own class around one with ids."""

    def __init__(self):
        self.rows = turnover.with_instance_ids(_records(), id="uid")

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(_records())


def _hugging_face(**kept):
    data = datasets.Dataset.from_dict({"uid": DOCS, "x": X.tolist(), "labels": Y.tolist()})
    return turnover.with_instance_ids(data, id="uid").with_format("torch", **kept)


def _own_class():
    # A loader reads ids only of data sets that are known to have them: here the collate function keeps them.
    def collate(rows):
        x, y = _without_uid(rows)
        ids = torch.tensor([row["instance_id"] for row in rows])
        return {"x": x, "labels": y, "uid": [row["uid"] for row in rows], "instance_id": ids}

    return DataLoader(Own(), batch_size=5, collate_fn=collate)


SOURCES = {
    "dicts": lambda: turnover.with_instance_ids(_records(), id="uid"),
    "tuples": lambda: turnover.with_instance_ids(list(zip(X, DOCS, Y, strict=True)), id=1),
    "subset": lambda: Subset(turnover.with_instance_ids(_records(), id="uid"), range(ROWS)),
    "parts": lambda: ConcatDataset(
        [turnover.with_instance_ids(part, id="uid") for part in (_records()[:9], _records()[9:])]
    ),
    "loader": lambda: turnover.with_instance_ids(
        DataLoader(_records(), batch_size=5, collate_fn=_without_uid), id="uid"
    ),
    "workers": lambda: turnover.with_instance_ids(
        DataLoader(_records(), batch_size=12, collate_fn=_without_uid, num_workers=1), id="uid"
    ),
    "stream": lambda: turnover.with_instance_ids(Stream(), id="uid"),
    "own class": _own_class,
    "Hugging Face": _hugging_face,
    "Hugging Face, hidden": lambda: _hugging_face(columns=["x", "labels", "instance_id"]),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
@pytest.mark.parametrize("estimator", ["tod", "curvature"])
def test_every_answer_has_the_names_of_the_data(model, source, estimator, tmp_path):
    inf = turnover.Influence(model, train=source(), estimator=estimator)
    queries = QUERIES if estimator == "tod" else (X[:2], Y[:2])
    assert inf.train_ids.tolist() == DOCS
    scores = inf.pairwise(queries, out=tmp_path / "scores")
    assert scores.ids.tolist() == DOCS
    assert scores.mask_ids.tolist() == [instance_id_of(name) for name in DOCS]
    assert turnover.Scores.open(tmp_path / "scores").ids.tolist() == DOCS
    assert inf.pairwise(queries, out=tmp_path / "scores").ids.tolist() == DOCS
    assert inf.mean(queries).ids.tolist() == DOCS
    top = inf.top(queries, k=3, exclude=["doc-7"])
    kept = scores.select(ids=[name for name in DOCS if name != "doc-7"]).top(3)
    assert top.helpful_ids.tolist() == kept.helpful_ids.tolist()
    assert inf.pairwise(queries, ids=["doc-3", "doc-1"]).ids.tolist() == ["doc-3", "doc-1"]
    if estimator == "tod":
        assert inf.self_influence().ids.tolist() == DOCS
        assert inf.out_of_sample().ids.tolist() == DOCS


def test_rows_given_by_hand_are_asked_for_by_the_string_behind_their_id(model):
    hashes = torch.tensor([instance_id_of(name) for name in DOCS])
    inf = turnover.Influence(model, train=(X, Y, hashes), estimator="tod")
    assert inf.pairwise(QUERIES, ids=["doc-2"]).ids.tolist() == ["doc-2"]
    assert turnover.Influence(model).pairwise(QUERIES, ids=["doc-2"]).ids.tolist() == ["doc-2"]


def test_an_index_names_rows_that_are_numbered(model):
    index = pd.Index([f"2026-{number}" for number in range(ROWS)])
    inf = turnover.Influence(model, train=(X, Y, torch.arange(ROWS)), estimator="tod", names=index)
    assert inf.pairwise(QUERIES).ids.tolist() == index.tolist()
    assert inf.self_influence().ids.tolist() == index.tolist()
    assert inf.pairwise(QUERIES, ids=index[:2]).mask_ids.tolist() == [0, 1]
    assert inf.pairwise(QUERIES, ids=[0, 1]).ids.tolist() == index[:2].tolist()
    numbers = turnover.Influence(model, train=(X, Y, torch.arange(ROWS)), estimator="tod", names={0: 100, 1: 101})
    assert numbers.pairwise(QUERIES).ids.tolist() == [100, 101, *range(2, ROWS)]
    finished = turnover.Influence(ByName(), train=(X, Y), names=index)
    assert finished.pairwise(QUERIES).ids.tolist() == index.tolist()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda inf: inf.pairwise(QUERIES, ids=["dok-3"]), "no instance 'dok-3'. Did you mean 'doc-3'"),
        (lambda inf: inf.top(QUERIES, exclude=["nothing"]), "no instance 'nothing'"),
        (lambda inf: inf.pairwise(QUERIES, ids=[5]), "ids 5 are not in train"),
    ],
)
def test_unknown_names_are_errors_with_near_ones(model, ask, message):
    with pytest.raises(InfluenceError, match=message):
        ask(turnover.Influence(model, train=SOURCES["dicts"](), estimator="tod"))


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (torch.arange(ROWS), DOCS[:-1]),
        (torch.arange(ROWS), [*DOCS, "one more"]),
        (torch.arange(ROWS) // 3, DOCS),
        (torch.arange(ROWS) + 1, DOCS),
    ],
    ids=["too few", "too many", "of rows for groups", "ids from 1"],
)
def test_another_number_of_names_than_instances_is_an_error(model, ids, names):
    with pytest.raises(InstanceIdError, match=f"names has {len(names)} names, and train has .* Give one name for each"):
        turnover.Influence(model, train=(X, Y, ids), names=names)


def test_duplicate_names_are_an_error(model):
    with pytest.raises(InstanceIdError, match="'a' of 0 and 1"):
        turnover.Influence(model, train=(X, Y, torch.arange(ROWS)), names=["a"] * ROWS)
    rows = turnover.with_instance_ids([*_records(), _records()[0]], id="uid")
    inf = turnover.Influence(model, train=rows, estimator="tod")
    with pytest.raises(InstanceIdError, match="different rows with one id, 'doc-0'"):
        inf.pairwise(QUERIES)
