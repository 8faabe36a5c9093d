"""What denoising is for: on digits of which a tenth is mislabeled it finds far more of them."""

import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

pytest.importorskip("sklearn", reason="the digits ship with scikit-learn")

import turnover
from turnover.influence import Ridge
from turnover.runs.digits import DigitsConfig, DigitsData, load_digits

HIDDEN, EPOCHS = 256, 12


@lru_cache
def digits() -> tuple[nn.Module, DigitsData]:
    """Return a trained model with masks on both hidden layers, and its data."""
    data = load_digits(DigitsConfig(seed=3))
    torch.manual_seed(3)
    hidden = [nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU()]
    model = turnover.wrap(nn.Sequential(*hidden, nn.Linear(HIDDEN, 10, bias=False)), at=["1", "3"])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(EPOCHS):
        for ids in torch.randperm(len(data.labels)).split(64):
            with turnover.instances(ids):
                loss = nn.functional.cross_entropy(model(data.images[ids]), data.labels[ids])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model, data


def asked(estimator: Ridge | str, count: int = 40) -> turnover.Scores:
    model, data = digits()
    train = turnover.with_instance_ids(TensorDataset(data.images, data.labels))
    queries = data.validation_images[:count], data.validation_labels[:count]
    return turnover.Influence(model, train=train, estimator=estimator).pairwise(queries)


def found_in_worst_tenth(scores: turnover.Scores) -> float:
    changed = digits()[1].changed.numpy()
    worst = np.argsort(scores.mean().values)[: int(changed.sum())]
    return float(changed[worst].mean())


def test_denoised_means_find_far_more_changed_labels_than_raw_ones():
    assert found_in_worst_tenth(asked(Ridge())) > found_in_worst_tenth(asked("tod")) + 0.15


@pytest.mark.parametrize("weight", [0.0, pytest.param(1.0, marks=pytest.mark.slow)])
def test_projected_features_give_the_same_scores(weight):
    exact = asked(Ridge(form="kernel", gradients=weight))
    projected = asked(Ridge(form="primal", gradients=weight))
    assert "2,560 features, kernel form" in exact.path
    assert "2,040 projected features" in projected.path
    assert np.corrcoef(exact.values.ravel(), projected.values.ravel())[0, 1] > 0.99


MEMORY = """
import resource, sys, torch, turnover
from torch import nn
from torch.utils.data import TensorDataset
from turnover.influence import Ridge
from turnover.layers.root import masking_of
rows = int(sys.argv[1])
torch.set_num_threads(1)
net = turnover.wrap(nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 10)), at=["1"])
masking_of(net).learned.passes = 1
data = turnover.with_instance_ids(TensorDataset(torch.randn(rows, 8), torch.arange(rows) % 10))
queries = torch.randn(20, 8), torch.arange(20) % 10
inf = turnover.Influence(net, train=data, estimator=Ridge(projection=512, gradients=1), memory=2**24)
mean = inf.mean(queries)
assert "510 projected features, primal form" in mean.path and mean.values.shape == (rows,), mean.path
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_denoising_100_000_rows_takes_hardly_more_memory_than_10_000():
    few, many = (
        int(subprocess.run([sys.executable, "-c", MEMORY, rows], capture_output=True, text=True, check=True).stdout)
        for rows in ("10000", "100000")
    )
    # The rows themselves, their ids and labels, and a few numbers for each of them; 510 features would be 200 MB.
    assert many < few + 40 * 2**10
