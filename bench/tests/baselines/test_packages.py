"""Methods of other packages: scores of every row with the API of all baselines, and what they cannot do is told."""

import importlib.util
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from turnover.errors import MissingExtraError, TooLargeError
from turnover.training import TrainingRecipe
from turnover_bench.baselines import (
    DATTRI_SOLVERS,
    METHODS,
    CaptumSimilarity,
    DattriInfluenceFunctions,
    DattriSolver,
    Trak,
    check_method,
    trained_method,
    training_weights,
)
from turnover_bench.errors import BaselineError

ROWS, QUERIES = 240, 8
PACKAGED = {name: method for name, method in METHODS.items() if method.package is not None}
SLOW = ("dattri-cg", "captum-arnoldi")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))


@pytest.fixture(scope="module")
def recipe() -> TrainingRecipe:
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(ROWS) % 3
    inputs = torch.randn(ROWS, 6, generator=generator) + 0.7 * nn.functional.one_hot(targets, 6)
    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    return TrainingRecipe(network, inputs, targets, optimizer=sgd, epochs=20, batch_size=40)


@pytest.fixture(scope="module")
def queries(recipe):
    """The first rows themselves: a row must help itself."""
    return recipe.inputs[:QUERIES], recipe.targets[:QUERIES]


def need(package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed: make -C bench packages installs it")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in PACKAGED]
)
def test_a_method_scores_all_rows_and_says_that_a_row_helps_itself(name, recipe, queries):
    need(PACKAGED[name].package[0])
    state = torch.get_rng_state()
    method = trained_method(name, recipe, seed=1)
    scores = method.pairwise(queries)
    assert scores.shape == (ROWS, QUERIES)
    assert np.isfinite(scores.values).all()
    if name != "dattri-cg":  # it needs a Hessian with more regularization than dattri's examples have
        assert scores.values.diagonal().mean() > max(0, 2 * scores.values.mean())
    some = method.pairwise(queries, ids=[7, 3])
    np.testing.assert_allclose(some.values, scores.values[[7, 3]], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(method.mean(queries).values, scores.values.mean(1), rtol=1e-3, atol=1e-5)
    assert METHODS[name].package[1] in scores.path
    assert method.storage_bytes >= sum(value.nbytes for value in method.weights[0].values())
    if method.has_self_influence:
        assert method.self_influence().shape == (ROWS,)
    else:
        with pytest.raises(BaselineError, match="no self-influence"):
            method.self_influence()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", ["cg", "datainf"])
def test_queries_that_are_solved_once_have_the_scores_of_dattri(name, recipe, queries):
    need("dattri")
    solver = DattriSolver("", "IFAttributorCG", {"regularization": 10.0}) if name == "cg" else DATTRI_SOLVERS[name]
    method = DattriInfluenceFunctions(recipe, training_weights(recipe), solver=solver)
    rows = DataLoader(TensorDataset(recipe.inputs, recipe.targets), batch_size=16)
    with torch.no_grad():
        expected = method.attributor.attribute(rows, DataLoader(TensorDataset(*queries), batch_size=5))
    found = method.pairwise(queries).values
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(found).max())
    assert (found.diagonal() > 0).all()


@pytest.mark.parametrize("name", PACKAGED)
def test_a_missing_package_is_named_with_what_installs_it_before_anything_is_trained(name, recipe, monkeypatch):
    package, distribution = PACKAGED[name].package
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None if asked == package else real(asked))
    monkeypatch.setattr(TrainingRecipe, "fit", None)
    with pytest.raises(MissingExtraError, match=f"pip install {distribution}"):
        check_method(name)
    with pytest.raises(MissingExtraError, match=f"pip install {distribution}"):
        trained_method(name, recipe)


def _of_floats(recipe):
    return TrainingRecipe(partial(nn.Linear, 6, 1), recipe.inputs, recipe.targets[:, None].float(), epochs=1)


def _too_wide():
    wide = 400_000  # its factor would take 640 GB
    return TrainingRecipe(partial(nn.Linear, wide, 2), torch.zeros(4, wide), torch.arange(4) % 2, epochs=1)


def _without_hidden(recipe):
    linear = TrainingRecipe(partial(nn.Linear, 6, 3), recipe.inputs, recipe.targets, epochs=1)
    return CaptumSimilarity(linear, training_weights(linear)).pairwise((recipe.inputs[:2], recipe.targets[:2]))


@pytest.mark.parametrize(
    ("package", "build", "error", "part"),
    [
        ("captum", lambda recipe: CaptumSimilarity(recipe, []), BaselineError, "one state dict or more"),
        ("trak", lambda recipe: Trak(recipe, training_weights(recipe), projection=50), BaselineError, ">= 101, got 50"),
        (
            "dattri",
            lambda recipe: DattriInfluenceFunctions(recipe, training_weights(recipe), solver="gc"),
            BaselineError,
            "one of cg, lissa, datainf, got 'gc'",
        ),
        (
            "captum",
            lambda recipe: trained_method("captum-tracin", _of_floats(recipe)),
            BaselineError,
            "class numbers as targets",
        ),
        ("kronfluence", lambda recipe: trained_method("kronfluence-ekfac", _too_wide()), TooLargeError, "factors"),
        ("captum", _without_hidden, BaselineError, "needs a hidden layer"),
    ],
    ids=["no weights", "projection", "solver", "regression", "too wide", "no hidden layer"],
)
def test_what_a_method_cannot_do_is_told(package, build, error, part, recipe):
    need(package)
    with pytest.raises(error, match=part):
        build(recipe)
