"""Leave-one-out retraining equals retraining by hand, and resumes."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from bench.tests.baselines.builders import Counted
from turnover.errors import StoreError, TrainingError, TurnOverWarning
from turnover.training import TrainingRecipe
from turnover_bench.baselines.leave_one_out import LeaveOneOut
from turnover_bench.errors import BaselineError

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).long()
QX = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
QY = (QX[:, 0] > 0).long()


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def recipe(**changes) -> TrainingRecipe:
    given = {"build": build, "inputs": X, "targets": Y, "optimizer": momentum, "epochs": 3, "batch_size": 5}
    return TrainingRecipe(**{**given, **changes})


def losses_by_hand(left_out: int | None, seed: int, batch_size: int, x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
    """Losses on x after a training that never uses one row, in whose place there is nothing."""
    torch.manual_seed(seed)
    model = build()
    parameters = list(model.parameters())
    velocity = [None] * len(parameters)
    order = torch.Generator().manual_seed(seed)
    for _ in range(3):
        permutation = torch.randperm(12, generator=order).tolist()
        for start in range(0, 12, batch_size):
            batch = permutation[start : start + batch_size]
            rows = [row for row in batch if row != left_out]
            gradients = [torch.zeros_like(p) for p in parameters]
            if rows:
                losses = functional.cross_entropy(model(X[rows]), Y[rows], reduction="none")
                gradients = torch.autograd.grad(losses.sum() / len(batch), parameters)
            with torch.no_grad():
                for place, (p, g) in enumerate(zip(parameters, gradients, strict=True)):
                    g = g.add(p, alpha=0.01)
                    velocity[place] = g.clone() if velocity[place] is None else velocity[place].mul(0.9).add(g)
                    p.add_(velocity[place], alpha=-0.1)
    with torch.no_grad():
        return functional.cross_entropy(model(x), y, reduction="none").numpy()


@pytest.mark.parametrize("batch_size", [1, 5])
def test_scores_equal_a_training_written_by_hand_bit_for_bit(batch_size):
    found = LeaveOneOut(recipe(batch_size=batch_size), seeds=[3]).pairwise((QX, QY))
    with_it = losses_by_hand(None, 3, batch_size, QX, QY)
    needed = np.stack([losses_by_hand(row, 3, batch_size, QX, QY) - with_it for row in range(12)])
    assert found.values.dtype == needed.dtype == np.float32
    assert np.array_equal(found.values, needed)
    assert (needed != 0).all()
    assert found.stderr is None


def test_self_influence_has_each_row_as_its_own_query_bit_for_bit():
    found = LeaveOneOut(recipe(), seeds=[0]).self_influence(ids=[7, 2])
    for row, score in zip([7, 2], found.values, strict=True):
        # All rows that are asked about go through the model together, here as there.
        with_it, without = (losses_by_hand(left_out, 0, 5, X[[7, 2]], Y[[7, 2]]) for left_out in (None, row))
        assert score == (without - with_it)[[7, 2].index(row)]


def test_several_seeds_are_averaged_with_the_standard_error_of_their_mean():
    apart = np.stack([LeaveOneOut(recipe(), seeds=[seed]).pairwise((QX, QY)).values for seed in (0, 1, 2)])
    together = LeaveOneOut(recipe(), seeds=(0, 1, 2)).pairwise((QX, QY))
    assert np.allclose(together.values, apart.mean(0), atol=1e-7)
    assert np.allclose(together.stderr, apart.std(0, ddof=1) / np.sqrt(3), atol=1e-7)
    assert together.replicas == 3
    assert together.unit == "loss"
    assert together.path == "leave-one-out retraining, 3 seeds"
    assert together.provenance["seeds"] == [0, 1, 2]


def test_finished_seeds_are_not_trained_again_and_other_data_are_rejected(tmp_path):
    pytest.importorskip("zarr", reason="needs the extra store")
    count = Counted(build)
    options = {"cache": tmp_path, "identity": {"task": "line"}}
    first = LeaveOneOut(recipe(build=count), seeds=[0], **options).pairwise((QX, QY))
    assert count.built == 15  # 13 trainings, one look at the model, one for the shape
    both = LeaveOneOut(recipe(build=count), seeds=[0, 1], **options).pairwise((QX, QY))
    assert count.built == 15 + 13 + 3
    mean = LeaveOneOut(recipe(build=count), seeds=[0, 1], **options).mean((QX, QY))
    assert count.built == 31 + 3
    assert np.array_equal(first.values, LeaveOneOut(recipe()).pairwise((QX, QY)).values)
    assert np.allclose(both.values.mean(1), mean.values, atol=1e-6)
    # Another question has its own folder; other data under the same question do not fit.
    LeaveOneOut(recipe(), seeds=[0], **options).self_influence(ids=[1])
    with pytest.raises(StoreError, match="data"):
        LeaveOneOut(recipe(inputs=X + 1), seeds=[0], **options).pairwise((QX, QY))
    with pytest.raises(StoreError, match="task"):
        LeaveOneOut(recipe(), seeds=[0], cache=tmp_path, identity={"task": "curve"}).pairwise((QX, QY))


def test_an_interrupted_seed_goes_on_where_it_stopped(tmp_path):
    pytest.importorskip("zarr", reason="needs the extra store")
    options = {"cache": tmp_path, "identity": {}}

    class Stopping(Counted):
        def __call__(self) -> nn.Module:
            if self.built == 8:
                raise KeyboardInterrupt
            return super().__call__()

    with pytest.raises(KeyboardInterrupt):
        LeaveOneOut(recipe(build=Stopping(build)), **options).pairwise((QX, QY))
    count = Counted(build)
    found = LeaveOneOut(recipe(build=count), **options).pairwise((QX, QY))
    assert count.built == 2 + 13 - 6  # 6 of the 8 built before were trainings
    assert np.array_equal(found.values, LeaveOneOut(recipe()).pairwise((QX, QY)).values)


def test_retrainings_that_diverge_are_nan_after_a_warning():
    def wild(parameters):
        return torch.optim.SGD(parameters, lr=float("inf"))

    with pytest.warns(TurnOverWarning, match="2 of 2 retrainings .* Lower the learning rate"):
        found = LeaveOneOut(recipe(optimizer=wild)).pairwise((QX, QY), ids=[0, 1])
    assert np.isnan(found.values).any(1).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: LeaveOneOut(recipe(), seeds=[]), BaselineError, "must be one or more different integers"),
        (lambda: LeaveOneOut(recipe(), seeds=[1, 1]), BaselineError, "must be one or more different integers"),
        (lambda: LeaveOneOut(recipe(), processes=999), TrainingError, "`processes` must be an integer from 1 to"),
        (lambda: LeaveOneOut(recipe(), identity={"x": X}), StoreError, r"identity.x .* Tensor"),
    ],
)
def test_bad_input_is_rejected_with_the_cure(call, error, message):
    with pytest.raises(error, match=message):
        call()
