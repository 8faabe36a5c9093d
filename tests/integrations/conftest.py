"""A small classification: a model with masks and its rows, for the adapters to other packages."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import turnover


@dataclass(frozen=True)
class Trained:
    model: nn.Module
    x: Tensor
    y: Tensor

    @property
    def rows(self) -> TensorDataset:
        return TensorDataset(self.x, self.y)

    @property
    def influence(self) -> turnover.Influence:
        return turnover.Influence(self.model, train=turnover.with_instance_ids(self.rows))


@pytest.fixture(scope="session")
def trained() -> Trained:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(60, 5)
        y = (x[:, 0] > 0).long()
        net = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 2, bias=False))
        model = turnover.wrap(net, at=["1"], seed=0, replicas=4)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        ids = torch.arange(60)
        for _ in range(60):
            optimizer.zero_grad()
            with turnover.instances(ids) as now:
                functional.cross_entropy(model(x), now.repeat(y)).backward()
            optimizer.step()
    return Trained(model.eval(), x, y)
