"""All baselines answer the same questions; answers are kept in parts, resumed, and rejected for another method."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from turnover.errors import StoreError, TrainingError
from turnover.training import TrainingRecipe
from turnover_bench.baselines import (
    ConjugateGradients,
    FeldmanZhang,
    InfluenceFunctions,
    LeaveOneOut,
    SgdInfluence,
    TracIn,
)
from turnover_bench.errors import BaselineError

pytest.importorskip("zarr", reason="needs the extra store")

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] > 0).long()
QUERIES = (X[:7] + 0.1, Y[:7])
OTHER = (X[:7] - 0.1, Y[:7])
THREE_GRADIENTS = 3 * 8 * 4


class Loss:
    """Cross-entropy that counts its calls and stops at one of them; to a folder it is always the same loss."""

    def __init__(self, stop: int | None = None) -> None:
        self.calls, self.stop = 0, stop

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.stop:
            raise KeyboardInterrupt
        return functional.cross_entropy(outputs, targets, reduction="none")

    def __repr__(self) -> str:
        return "Loss"


def recipe(**changes: Any) -> TrainingRecipe:
    given = {"build": partial(nn.Linear, 3, 2), "inputs": X, "targets": Y, "loss": Loss(), "epochs": 3}
    return TrainingRecipe(**{**given, "batch_size": 4, **changes})


def koh(plan: TrainingRecipe, _: Path, seed: int = 0, **options: Any) -> InfluenceFunctions:
    model = recipe().fit(seed=seed)
    return InfluenceFunctions(plan, model, **{"damping": 0.1, "memory": THREE_GRADIENTS, **options})


def tracin(plan: TrainingRecipe, folder: Path, seed: int = 0, **options: Any) -> TracIn:
    checkpoints = folder / f"tracin-{seed}"
    if not checkpoints.exists():
        TracIn.train(recipe(), folder=checkpoints, seed=seed)
    return TracIn(plan, checkpoints=checkpoints, **{"memory": THREE_GRADIENTS, **options})


def hara(plan: TrainingRecipe, folder: Path, seed: int = 0, **options: Any) -> SgdInfluence:
    SgdInfluence.train(recipe(), folder=folder / f"hara-{seed}", seed=seed)
    return SgdInfluence.open(plan, folder / f"hara-{seed}", **{"at_once": 3, **options})


METHODS = {"koh2017": koh, "pruthi2020": tracin, "hara2019": hara}
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "pairwise": lambda method: method.pairwise(QUERIES),
    "mean": lambda method: method.mean(QUERIES, ids=[4, 2]),
    "self_influence": lambda method: method.self_influence(),
}


BASELINES: dict[str, Callable[..., Any]] = {
    "koh2017, cg": lambda plan, **options: InfluenceFunctions(plan, plan.fit(), damping=0.1, **options),
    "koh2017, exact": lambda plan, **options: InfluenceFunctions(
        plan, plan.fit(), damping=0.1, solver="exact", **options
    ),
    "pruthi2020": partial(TracIn.train, every=2),
    "hara2019": partial(SgdInfluence.train, at_once=4),
    "leave one out": LeaveOneOut,
    "feldman2020": partial(FeldmanZhang, models=20),
}
every_baseline = pytest.mark.parametrize("make", BASELINES.values(), ids=BASELINES)


@every_baseline
def test_mean_and_self_influence_are_parts_of_pairwise_and_rows_come_in_the_order_of_the_ids(make):
    method = make(recipe(ids=torch.arange(100, 112)))
    whole, own = method.pairwise((X, Y)), method.self_influence()
    np.testing.assert_allclose(method.mean((X, Y)).values, whole.values.mean(1), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(own.values, np.diag(whole.values), rtol=1e-4, atol=1e-7)
    assert (whole.unit, whole.ids.tolist()) == ("loss", list(range(100, 112)))
    for chosen, values in (
        (method.pairwise((X, Y), ids=[107, 103]), whole.values),
        (method.self_influence(ids=[107, 103]), own.values),
    ):
        assert chosen.ids.tolist() == [107, 103]
        np.testing.assert_allclose(chosen.values, values[[7, 3]], rtol=1e-5, atol=1e-7)


@every_baseline
def test_bad_questions_are_rejected_with_the_cure(make):
    method = make(recipe())
    for error, message, ask in (
        (TrainingError, r"must be a tuple \(inputs, targets\), got a Tensor", lambda: method.pairwise(X)),
        (TrainingError, "there are no queries", lambda: method.mean((X[:0], Y[:0]))),
        (BaselineError, r"1 of 2 ids are not .* \[99\]", lambda: method.self_influence(ids=[3, 99])),
        (BaselineError, "is empty or has an id twice", lambda: method.mean(QUERIES, ids=[3, 3])),
        (BaselineError, "cache='folder' needs identity=", lambda: make(recipe(), cache="folder")),
    ):
        with pytest.raises(error, match=message):
            ask()


@pytest.mark.parametrize("name", ["koh2017", "pruthi2020"])
def test_little_memory_changes_no_score(tmp_path, name):
    large, small = (METHODS[name](recipe(), tmp_path, memory=memory).pairwise(QUERIES) for memory in (1 << 28, 1))
    np.testing.assert_allclose(small.values, large.values, rtol=1e-4, atol=1e-7)


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", METHODS)
def test_a_cache_changes_no_score_and_is_not_computed_again(tmp_path, name, question):
    make, ask = METHODS[name], QUESTIONS[question]
    without = ask(make(recipe(), tmp_path))
    cached = ask(make(recipe(), tmp_path, cache=tmp_path / "cache", identity={"task": "line"}))
    assert cached.equals(without)
    loss = Loss()
    method = make(recipe(loss=loss), tmp_path, cache=tmp_path / "cache", identity={"task": "line"})
    before = loss.calls
    assert ask(method).equals(without)
    assert loss.calls == before


@pytest.mark.parametrize("question", ["pairwise", "self_influence"])
@pytest.mark.parametrize("name", METHODS)
def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(tmp_path, name, question):
    make, ask = METHODS[name], QUESTIONS[question]

    def run(folder: str, loss: Loss) -> Any:
        return ask(make(recipe(loss=loss), tmp_path, cache=tmp_path / folder, identity={}))

    whole = Loss()
    expected = run("whole", whole)
    stopped = Loss(stop=whole.calls - 1)
    with pytest.raises(KeyboardInterrupt):
        run("stopped", stopped)
    assert [b'"complete": false' in file.read_bytes() for file in (tmp_path / "stopped").rglob("tiles.json")] == [True]
    resumed = Loss()
    assert run("stopped", resumed).equals(expected)
    assert 0 < resumed.calls < whole.calls
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


@pytest.mark.parametrize(
    ("name", "changes", "options", "named"),
    [
        ("koh2017", {"inputs": X + 1}, {}, "data"),
        ("koh2017", {"ids": torch.arange(12)}, {}, "data"),
        ("koh2017", {"loss": partial(functional.cross_entropy, reduction="none")}, {}, "loss"),
        ("koh2017", {}, {"seed": 1}, "model"),
        ("koh2017", {}, {"damping": 0.2}, "damping"),
        ("koh2017", {}, {"solver": ConjugateGradients(tolerance=1e-3)}, "solver"),
        ("koh2017", {}, {"parameters": "weight"}, "parameters"),
        ("koh2017", {}, {"memory": 1 << 20}, "memory"),
        ("pruthi2020", {}, {"seed": 1}, "checkpoints"),
        ("pruthi2020", {}, {"parameters": "weight"}, "parameters"),
        ("hara2019", {}, {"seed": 1}, "seed"),
        ("hara2019", {}, {"at_once": 2}, "at_once"),
        ("hara2019", {}, {"identity": {"task": "curve"}}, "identity.task"),
    ],
)
def test_a_folder_of_other_data_model_or_options_is_rejected_by_name(tmp_path, name, changes, options, named):
    given = {"cache": tmp_path / "cache", "identity": {"task": "line"}}
    METHODS[name](recipe(), tmp_path, **given).mean(QUERIES)
    other = METHODS[name](recipe(**changes), tmp_path, **{**given, **options})
    with pytest.raises(StoreError, match=named):
        other.mean(QUERIES)


@pytest.mark.parametrize("name", METHODS)
def test_other_queries_have_a_folder_of_their_own(tmp_path, name):
    method = METHODS[name](recipe(), tmp_path, cache=tmp_path / "cache", identity={})
    plain = METHODS[name](recipe(), tmp_path)
    for queries in (QUERIES, OTHER, QUERIES):
        assert method.pairwise(queries).equals(plain.pairwise(queries))
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert not np.array_equal(plain.pairwise(QUERIES).values, plain.pairwise(OTHER).values)


@pytest.mark.parametrize("name", METHODS)
def test_rows_that_change_between_training_and_scoring_are_an_error(tmp_path, name):
    plan = replace(recipe(), inputs=X.clone())
    method = METHODS[name](plan, tmp_path)
    method.mean(QUERIES)
    plan.inputs[3] += 1
    with pytest.raises(BaselineError, match=r"other rows than the recipe has now .* start again: "):
        method.mean(QUERIES)
