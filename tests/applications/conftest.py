"""One small training that the tests of all applications ask: handwritten digits, a tenth with a wrong label."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import turnover
from turnover.training import TrainingRecipe

REPLICAS, ROWS, WRONG = 4, 500, 50


@dataclass(frozen=True)
class Digits:
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


@pytest.fixture(scope="session")
def train_mlp() -> Callable[..., nn.Module]:
    def build() -> nn.Module:
        plain = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        return turnover.wrap(plain, at=["1"], replicas=REPLICAS)

    def train(x: Tensor, y: Tensor, *, ids: Tensor | None = None, epochs: int, batch_size: int = 50) -> nn.Module:
        adam = partial(torch.optim.Adam, lr=5e-3)
        return TrainingRecipe(build, x, y, optimizer=adam, epochs=epochs, batch_size=batch_size, ids=ids).fit()

    return train


@pytest.fixture(scope="session")
def digits(train_mlp) -> Digits:
    """Digits with a tenth of the training labels changed, and an MLP 64-256-10 trained on them."""
    sklearn_data = pytest.importorskip("sklearn.datasets", reason="scikit-learn is missing: turnover[sklearn]")
    pixels, labels = sklearn_data.load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = torch.from_numpy(rng.permutation(len(labels)))
    x, true = torch.tensor(pixels / 16.0, dtype=torch.float32)[order], torch.tensor(labels)[order]
    y = true.clone()
    wrong = torch.from_numpy(rng.choice(ROWS, WRONG, replace=False))
    y[wrong] = (y[wrong] + torch.from_numpy(rng.integers(1, 10, WRONG))) % 10
    model = train_mlp(x[:ROWS], y[:ROWS], epochs=15)
    data = turnover.with_instance_ids(TensorDataset(x[:ROWS], y[:ROWS]))
    return Digits(
        model=model,
        influence=turnover.Influence(model, estimator="tod", train=data),
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
