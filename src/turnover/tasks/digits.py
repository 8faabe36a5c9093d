"""The demo's task: find wrong labels among handwritten digits that ship with scikit-learn."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover.errors import MissingExtraError


@dataclass(frozen=True)
class DigitsConfig:
    """How the demo is run."""

    seed: int = 0
    epochs: int = 30
    changed: float = 0.1
    hidden: int = 512
    batch_size: int = 64
    learning_rate: float = 1e-3


@dataclass(frozen=True)
class DigitsData:
    """Training digits of which some labels were changed, and clean validation digits."""

    images: Tensor
    labels: Tensor
    true_labels: Tensor
    validation_images: Tensor
    validation_labels: Tensor

    @property
    def changed(self) -> Tensor:
        """Tell for every training row whether its label was changed."""
        return self.labels != self.true_labels


@dataclass
class Curves:
    """Mean losses after each epoch."""

    keep: list[float] = field(default_factory=list)
    flip: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class DigitsResult:
    """What the demo found."""

    data: DigitsData
    curves: Curves
    accuracy: float
    self_influence: Tensor
    unseen_labels: Tensor
    suspects: Tensor
    seconds: float

    @property
    def found(self) -> int:
        """Return how many of the suspects have a changed label."""
        return int(self.data.changed[self.suspects].sum())


def load_digits(config: DigitsConfig) -> DigitsData:
    """Return the digits, four fifths for training, with a share of the training labels changed to another digit."""
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise MissingExtraError("the digits ship with scikit-learn: pip install 'turnover[cli]'.") from error
    pixels, labels = load(return_X_y=True)
    rng = np.random.default_rng(config.seed)
    order = rng.permutation(len(labels))
    images = torch.tensor(pixels[order] / 16.0, dtype=torch.float32)
    true = torch.tensor(labels[order])
    split = len(order) * 4 // 5
    given = true[:split].clone()
    wrong = torch.tensor(rng.choice(split, size=round(config.changed * split), replace=False))
    given[wrong] = (given[wrong] + torch.tensor(rng.integers(1, 10, size=len(wrong)))) % 10
    return DigitsData(images[:split], given, true[:split], images[split:], true[split:])


def digits_model(config: DigitsConfig) -> nn.Module:
    """Return an MLP with masks on both hidden layers; without an output bias, nothing in it leaks."""
    torch.manual_seed(config.seed)
    mlp = nn.Sequential(
        nn.Linear(64, config.hidden),
        nn.ReLU(),
        nn.Linear(config.hidden, config.hidden),
        nn.ReLU(),
        nn.Linear(config.hidden, 10, bias=False),
    )
    return turnover.wrap(mlp, at=["1", "3"], seed=config.seed)


def run_digits(
    config: DigitsConfig, *, on_epoch: Callable[[int, Curves], None] = lambda epoch, curves: None
) -> DigitsResult:
    """Train on digits with changed labels and look for them by self-influence.

    Args:
        config: how to run.
        on_epoch: called after each epoch with its number, from 1, and the curves so far.
    """
    start = time.perf_counter()
    data, model, curves = load_digits(config), digits_model(config), Curves()
    rows = turnover.with_instance_ids(TensorDataset(data.images, data.labels))
    shuffle = torch.Generator().manual_seed(config.seed)
    loader = DataLoader(rows, batch_size=config.batch_size, shuffle=True, generator=shuffle)
    optimiser = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    for epoch in range(1, config.epochs + 1):
        model.train()
        for x, y, ids in loader:
            with turnover.instances(ids):
                loss = functional.cross_entropy(model(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        add_to_curves(curves, model, data)
        on_epoch(epoch, curves)
    engine = turnover.Influence(model, train=rows)
    influence = torch.tensor(engine.self_influence(progress=False).values)
    unseen = torch.tensor(engine.out_of_sample(progress=False).probs).argmax(1)
    suspects = influence.argsort(descending=True)[: round(0.1 * len(influence))]
    with torch.no_grad():
        right = model(data.validation_images).argmax(1) == data.validation_labels
    seconds = time.perf_counter() - start
    return DigitsResult(data, curves, float(right.float().mean()), influence, unseen, suspects, seconds)


@torch.no_grad()
def add_to_curves(curves: Curves, model: nn.Module, data: DigitsData) -> None:
    """Add the mean losses of training rows in keep and flip view and of validation rows in full view."""
    model.eval()
    ids = torch.arange(len(data.labels))
    with turnover.instances(ids, view="keep"):
        curves.keep.append(float(functional.cross_entropy(model(data.images), data.labels)))
    with turnover.instances(ids, view="flip"):
        curves.flip.append(float(functional.cross_entropy(model(data.images), data.labels)))
    curves.validation.append(float(functional.cross_entropy(model(data.validation_images), data.validation_labels)))
