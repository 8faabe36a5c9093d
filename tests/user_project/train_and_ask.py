"""What a type checker sees of the public names in a project of a user; `make check` reads it by pyright and mypy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, assert_type

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import turnover
from turnover.batches import InstanceIdDataset, InstanceIdIterable
from turnover.scores import OutOfSample, Top


class Classifier(nn.Module):
    """A model with a method of its own, which wrapping must not hide."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(4, 64), nn.ReLU())
        self.head = nn.Linear(64, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.hidden(x))

    def embed(self, x: Tensor) -> Tensor:
        return self.hidden(x)


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield torch.zeros(4), torch.tensor(0)


def train(folder: Path) -> turnover.Influence:
    rows = TensorDataset(torch.randn(8, 4), torch.zeros(8, dtype=torch.int64))
    data = assert_type(turnover.with_instance_ids(rows), InstanceIdDataset)
    assert_type(turnover.with_instance_ids([("a", 0)]), InstanceIdDataset)
    assert_type(turnover.with_instance_ids(Stream()), InstanceIdIterable)
    loader = assert_type(turnover.with_instance_ids(DataLoader(rows, batch_size=4)), DataLoader[Any])
    model = assert_type(turnover.wrap(Classifier(), at=["hidden.1"], replicas=2), Classifier)
    optimizer = torch.optim.Adam(model.parameters())
    for x, y, ids in loader:
        with turnover.instances(ids, view="keep"):
            loss = nn.functional.cross_entropy(model(x), y.repeat(2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    turnover.save(model, folder)
    again = assert_type(turnover.load(folder, model=Classifier()), Classifier)
    assert_type(turnover.unwrap(again), Classifier).embed(torch.zeros(1, 4))
    return turnover.Influence(again, train=data)


def ask(influence: turnover.Influence, queries: tuple[Tensor, Tensor]) -> list[int]:
    scores = assert_type(influence.pairwise(queries), turnover.Scores)
    assert_type(influence.out_of_sample(), OutOfSample)
    low, high = scores.interval()
    print((high - low).mean(), scores.method)
    top = assert_type(influence.top(queries, k=3, label="predicted"), Top)
    return [int(number) for number in top.harmful_ids.ravel()]
