"""One small training that the tests of all applications ask: handwritten digits, a tenth with a wrong label."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import turnover

REPLICAS, ROWS, WRONG = 4, 500, 50


@dataclass(frozen=True)
class Digits:
    """A trained model with its data."""

    model: nn.Module
    influence: turnover.Influence
    x: Tensor
    y: Tensor
    true: Tensor
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    @property
    def wrong(self) -> np.ndarray:
        return (self.y != self.true).numpy()


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


@pytest.fixture(scope="session")
def digits() -> Digits:
    """Digits with a tenth of the training labels changed, and an MLP 64-256-10 trained on them."""
    sklearn_data = pytest.importorskip("sklearn.datasets", reason="scikit-learn is missing: turnover[sklearn]")
    pixels, labels = sklearn_data.load_digits(return_X_y=True)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    order = torch.from_numpy(rng.permutation(len(labels)))
    x, true = torch.tensor(pixels / 16.0, dtype=torch.float32)[order], torch.tensor(labels)[order]
    y = true.clone()
    wrong = torch.from_numpy(rng.choice(ROWS, WRONG, replace=False))
    y[wrong] = (y[wrong] + torch.from_numpy(rng.integers(1, 10, WRONG))) % 10
    model = turnover.wrap(mlp(), at=["1"], replicas=REPLICAS)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(15):
        for rows in torch.randperm(ROWS, generator=torch.Generator().manual_seed(epoch)).split(50):
            with turnover.instances(rows) as now:
                loss = nn.functional.cross_entropy(model(x[rows]), now.repeat(y[rows]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    data = turnover.with_instance_ids(TensorDataset(x[:ROWS], y[:ROWS]))
    return Digits(
        model=model,
        influence=turnover.Influence(model, train=data),
        x=x[:ROWS],
        y=y[:ROWS],
        true=true[:ROWS],
        validation=(x[ROWS : ROWS + 200], true[ROWS : ROWS + 200]),
        test=(x[ROWS + 200 :], true[ROWS + 200 :]),
    )


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread, and as many as before afterwards: a second one only waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
