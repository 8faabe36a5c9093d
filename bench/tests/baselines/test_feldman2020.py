"""Feldman and Zhang's influence equals its definition, extends with more models, and agrees with leave-one-out."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from bench.tests.baselines.builders import Counted
from tests.reference.feldman_twin import accuracy, influence_twin, loss_turned_round, probability, trained
from turnover.errors import StoreError, TrainingError, TurnOverWarning
from turnover.training import TrainingRecipe
from turnover_bench.baselines.feldman2020 import FeldmanZhang
from turnover_bench.baselines.leave_one_out import LeaveOneOut
from turnover_bench.errors import BaselineError

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).long()
QX = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
QY = (QX[:, 0] > 0).long()
SCORES_OF = {"loss": loss_turned_round, "probability": probability, "accuracy": accuracy}


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def fast(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


def recipe(**changes) -> TrainingRecipe:
    return TrainingRecipe(**{"build": build, "inputs": X, "targets": Y, "epochs": 3, "batch_size": 5, **changes})


@pytest.mark.parametrize("measure", SCORES_OF)
def test_all_estimates_equal_their_definition(measure):
    method = FeldmanZhang(recipe(), models=14, share=0.6, seed=5, measure=measure)
    subsets, seeds = method.plan()
    models = trained(recipe(), subsets, seeds)

    def twin(row, x, y):
        return influence_twin(models, subsets, row, (x, y), SCORES_OF[measure])

    needed = np.array([[twin(row, x, y) for x, y in zip(QX, QY, strict=True)] for row in range(12)])
    found = method.pairwise((QX, QY))
    assert found.unit == measure
    assert np.allclose(found.values, needed[..., 0], atol=1e-6, equal_nan=True)
    assert np.allclose(found.stderr, needed[..., 1], atol=1e-6, equal_nan=True)
    own = np.array([twin(row, X[row], Y[row]) for row in range(12)])
    memorized = method.self_influence()
    assert np.allclose(memorized.values, own[:, 0], atol=1e-6)
    assert np.allclose(memorized.stderr, own[:, 1], atol=1e-6)

    def mean_score(model, x, y):
        return sum(SCORES_OF[measure](model, one, label) for one, label in zip(x, y, strict=True)) / len(x)

    whole = np.array([influence_twin(models, subsets, row, (QX, QY), mean_score) for row in range(12)])
    mean = method.mean((QX, QY))
    assert np.allclose(mean.values, whole[:, 0], atol=1e-6)
    assert np.allclose(mean.stderr, whole[:, 1], atol=1e-6)


def test_rows_in_all_or_none_of_the_subsets_are_nan_and_the_warning_says_how_many_models_cure_it():
    with pytest.warns(TurnOverWarning, match=r"rows are in all or in none of the 3 subsets.*more are needed") as heard:
        found = FeldmanZhang(recipe(), models=3).pairwise((QX, QY))
    subsets, _ = FeldmanZhang(recipe(), models=3).plan()
    failed = subsets.all(0) | ~subsets.any(0)
    assert failed.any()
    assert np.array_equal(np.isnan(found.values).all(1), failed)
    assert not np.isnan(found.values[~failed]).any()
    assert str(heard[0].message).startswith(f"{failed.sum()} of 12 rows")
    needed = int(str(heard[0].message).rsplit("models=", 1)[1].rstrip("."))
    with pytest.warns(TurnOverWarning, match="1 more are needed"):
        FeldmanZhang(recipe(), models=needed - 1).self_influence()
    # Warnings are errors in this suite: this number is enough, and a row that is covered needs none.
    assert np.isfinite(FeldmanZhang(recipe(), models=needed).self_influence().values).all()
    FeldmanZhang(recipe(), models=3).pairwise((QX, QY), ids=np.flatnonzero(~failed))


def test_more_models_extend_a_cache_and_fewer_read_it(tmp_path, monkeypatch):
    pytest.importorskip("zarr", reason="needs the extra store")
    monkeypatch.setattr("turnover_bench.baselines.feldman2020._BLOCK", 20)
    short = {"epochs": 1, "batch_size": 12}

    def ask(models, **changes):
        count = Counted(build)
        plan = recipe(build=count, **{**short, **changes})
        method = FeldmanZhang(plan, models=models, cache=tmp_path, identity={"task": "line"})
        return method.pairwise((QX, QY)), count.built

    def blocks_and_built(models):
        scores, built = ask(models)
        whole = FeldmanZhang(recipe(**short), models=models).pairwise((QX, QY))
        assert np.array_equal(scores.values, whole.values)
        assert np.array_equal(scores.stderr, whole.stderr)
        return built

    # Besides trainings: one look at the model, and one for the shape in each block.
    assert blocks_and_built(28) == 28 + 1 + 2  # 0-20, 20-28
    assert blocks_and_built(48) == 20 + 1 + 4  # 28-40, 40-48 are new
    assert blocks_and_built(24) == 0 + 1 + 2
    folder = next(tmp_path.iterdir())
    assert sorted(block.name for block in folder.iterdir()) == [
        "models-00000-00020",
        "models-00020-00028",
        "models-00028-00040",
        "models-00040-00048",
    ]
    # In a new process, so to speak: memorization from what pairwise stored.
    count = Counted(build)
    again = FeldmanZhang(recipe(build=count, **short), models=28, cache=tmp_path, identity={"task": "line"})
    again.self_influence(queries=(QX, QY))
    assert count.built == 1 + 2
    with pytest.raises(StoreError, match="epochs"):
        ask(20, epochs=2)


def test_it_agrees_with_leave_one_out_in_rank_and_sign():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(24, 2, generator=random)
    y = (x[:, 0] > 0).long()
    y[:3] = 1 - y[:3]
    plan = TrainingRecipe(partial(nn.Linear, 2, 2), x, y, optimizer=fast, epochs=6, batch_size=24)
    qx = torch.randn(20, 2, generator=random)
    queries = qx, (qx[:, 0] > 0).long()
    one = LeaveOneOut(plan).pairwise(queries).values
    other = FeldmanZhang(plan, models=200, share=0.7).pairwise(queries)
    correlations = [np.corrcoef(_ranks(one[:, q]), _ranks(other.values[:, q]))[0, 1] for q in range(20)]
    # By chance a query's rank correlation over 24 rows is 0 ± 0.21.
    assert np.mean(correlations) > 0.5
    clear = np.abs(other.values) > 3 * other.stderr
    assert clear.sum() > 20
    assert (np.sign(one) == np.sign(other.values))[clear].mean() > 0.95


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: FeldmanZhang(recipe(), models=1), BaselineError, "`models` must be >= 2"),
        (lambda: FeldmanZhang(recipe(), seed=-1), BaselineError, "`seed` >= 0, got models=100, seed=-1"),
        (lambda: FeldmanZhang(recipe(), share=1.0), BaselineError, "share=1.0 of 12 rows is 12 rows"),
        (lambda: FeldmanZhang(recipe(), measure="margin"), BaselineError, "one of loss, probability, accuracy"),
        # Before anything is trained.
        (lambda: FeldmanZhang(recipe(), processes=999), TrainingError, "`processes` must be an integer from 1 to"),
        (
            lambda: FeldmanZhang(
                recipe(build=partial(nn.Linear, 3, 1), targets=X[:, :1]), models=30, measure="accuracy"
            ).self_influence(),
            BaselineError,
            "need class scores .* Use measure='loss'",
        ),
        (
            lambda: FeldmanZhang(
                recipe(optimizer=partial(torch.optim.SGD, lr=float("inf"))), models=30
            ).self_influence(),
            BaselineError,
            "30 of 30 models .* not finite. Lower the learning rate",
        ),
    ],
)
def test_bad_input_is_rejected_with_the_cure(call, error, message):
    with pytest.raises(error, match=message):
        call()


def _ranks(values: np.ndarray) -> np.ndarray:
    return values.argsort().argsort()
