"""SGD-influence equals the derivative through the unrolled training, and predicts real retraining."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

import turnover
from tests.reference.hara_twin import correlation, fit_without, unrolled_scores
from turnover.baselines.hara2019 import SgdInfluence
from turnover.baselines.recorded_training import record
from turnover.baselines.walk_back import query_gradients, walk_back
from turnover.errors import BaselineError, ScoresError, StoreDamagedError, StoreError, StoreMismatchError
from turnover.training import TrainingRecipe

ROWS = 14
X = torch.sin(torch.arange(ROWS * 3, dtype=torch.float64)).view(ROWS, 3)
Y = (X[:, 0] > 0).long()
QUERIES = (torch.cos(torch.arange(15, dtype=torch.float64)).view(5, 3), torch.tensor([0, 1, 1, 0, 1]))
cross_entropy = partial(functional.cross_entropy, reduction="none")


@pytest.fixture(autouse=True)
def one_thread():
    """Tensors this small are only slowed down by threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def sgd(**settings) -> partial:
    return partial(torch.optim.SGD, **{"lr": 0.3, **settings})


def recipe(**changes) -> TrainingRecipe:
    given = {"build": build, "inputs": X, "targets": Y, "loss": cross_entropy, "optimiser": sgd(), "epochs": 4}
    return TrainingRecipe(**{**given, "batch_size": 4, **changes})


def decaying(optimiser):
    return LambdaLR(optimiser, lambda step: 0.9**step)


def exact(plan: TrainingRecipe, first: int = 0) -> torch.Tensor:
    """Scores in float64, before they become Scores."""
    recording = record(plan, seed=3, folder=None, last_epochs=None)
    asked = replace(plan, inputs=QUERIES[0], targets=QUERIES[1], ids=None)
    return walk_back(plan, recording, query_gradients(plan, recording, asked, torch.arange(5)), first=first)


CASES = {
    "plain": {},
    "weight decay": {"weight_decay": 0.05},
    "momentum": {"momentum": 0.9},
    "momentum and weight decay": {"momentum": 0.8, "weight_decay": 0.05},
    "dampening": {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.02},
    "nesterov": {"momentum": 0.8, "nesterov": True, "weight_decay": 0.02},
}


@pytest.mark.parametrize("case", CASES)
def test_scores_equal_the_derivative_through_the_unrolled_training(case):
    settings = {"lr": 0.3, **CASES[case]}
    plan = recipe(optimiser=sgd(**settings))
    truth = unrolled_scores(plan, QUERIES, seed=3, settings=lambda step: settings)
    torch.testing.assert_close(exact(plan), truth, rtol=1e-10, atol=1e-13)


def test_a_learning_rate_schedule_is_walked_back_exactly():
    plan = recipe(optimiser=sgd(momentum=0.7, weight_decay=0.01), schedule=decaying)
    truth = unrolled_scores(
        plan, QUERIES, seed=3, settings=lambda step: {"lr": 0.3 * 0.9**step, "momentum": 0.7, "weight_decay": 0.01}
    )
    torch.testing.assert_close(exact(plan), truth, rtol=1e-10, atol=1e-13)


def test_a_schedule_of_the_momentum_is_walked_back_exactly():
    plan = recipe(
        optimiser=sgd(momentum=0.9), schedule=partial(OneCycleLR, max_lr=0.4, total_steps=17, base_momentum=0.5)
    )
    seen = []

    def see(step):
        seen.append({name: step.optimiser.param_groups[0][name] for name in ("lr", "momentum")})

    plan.fit(seed=3, on_step=see)
    assert len({one["momentum"] for one in seen}) > 5
    truth = unrolled_scores(plan, QUERIES, seed=3, settings=seen.__getitem__)
    torch.testing.assert_close(exact(plan), truth, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_last_epochs_are_the_derivative_by_the_weights_of_those_epochs(epochs):
    settings = {"lr": 0.3, "momentum": 0.9}
    plan = recipe(optimiser=sgd(**settings))
    from_step = (4 - epochs) * 4
    truth = unrolled_scores(plan, QUERIES, seed=3, settings=lambda step: settings, from_step=from_step)
    recorded = SgdInfluence.train(plan, seed=3, last_epochs=epochs)
    walked = SgdInfluence.train(plan, seed=3).last(epochs)
    torch.testing.assert_close(exact(plan, from_step), truth, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(recorded.pairwise(QUERIES).values, truth, rtol=1e-6)
    np.testing.assert_array_equal(recorded.pairwise(QUERIES).values, walked.pairwise(QUERIES).values)
    assert recorded.steps == walked.steps == epochs * 4
    assert recorded.storage_bytes == (epochs * 4 + 1) * 32 * 8


def groups(parameters):
    every = list(parameters)
    return torch.optim.SGD(
        [{"params": every[:2], "lr": 0.1, "weight_decay": 0.1}, {"params": every[2:], "momentum": 0.9}], lr=0.3
    )


def test_parameter_groups_and_frozen_parameters_have_their_own_steps():
    """The small change of one row's weight, by retraining, is what the score says."""

    def partly_frozen() -> nn.Module:
        model = build()
        model[0].bias.requires_grad_(False)
        return model

    plan = recipe(build=partly_frozen, optimiser=groups)
    scores = exact(plan)
    for row in (0, 5):
        found = []
        for size in (-1e-4, 1e-4):
            weights = torch.ones(ROWS, dtype=torch.float64)
            weights[row] += size
            model = plan.fit(seed=3, weights=weights)
            found.append(cross_entropy(model(QUERIES[0]), QUERIES[1]).detach())
        torch.testing.assert_close(scores[row], -(found[1] - found[0]) / 2e-4, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("kind", ["dropout", "wrapped"])
def test_masks_and_dropout_are_those_of_the_training(kind):
    def with_dropout() -> nn.Module:
        model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2, bias=False)).double()
        return model if kind == "dropout" else turnover.wrap(model)

    plan = recipe(build=with_dropout, ids=torch.arange(100, 100 + ROWS))
    scores = exact(plan)
    row, found = 5, []
    for size in (-1e-4, 1e-4):
        weights = torch.ones(ROWS, dtype=torch.float64)
        weights[row] += size
        found.append(cross_entropy(plan.fit(seed=3, weights=weights)(QUERIES[0]), QUERIES[1]).detach())
    torch.testing.assert_close(scores[row], -(found[1] - found[0]) / 2e-4, rtol=1e-5, atol=1e-9)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 12)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        q, k, v = self.inner(x.view(-1, 1, 1, 3).expand(-1, 1, 2, 3)).chunk(3, -1)
        return self.out(functional.scaled_dot_product_attention(q, k, v).mean((1, 2)))


def test_attention_has_its_second_derivative():
    scores = SgdInfluence.train(recipe(build=Attention, inputs=X.float())).pairwise((QUERIES[0].float(), QUERIES[1]))
    assert np.isfinite(scores.values).all()
    assert np.abs(scores.values).max() > 0


def test_queries_that_share_a_walk_have_the_scores_they_have_alone():
    plan = recipe(optimiser=sgd(momentum=0.9))
    together, alone = (SgdInfluence.train(plan, at_once=count).pairwise(QUERIES) for count in (None, 1))
    np.testing.assert_allclose(together.values, alone.values, rtol=1e-6)


def test_mean_and_self_influence_are_those_of_pairwise():
    influence = SgdInfluence.train(recipe(ids=torch.arange(50, 50 + ROWS)), at_once=4)
    pairs = influence.pairwise(QUERIES)
    np.testing.assert_allclose(influence.mean(QUERIES).values, pairs.values.mean(1), rtol=1e-5, atol=1e-8)
    own = influence.self_influence()
    np.testing.assert_allclose(own.values, np.diagonal(influence.pairwise((X, Y)).values), rtol=1e-5)
    some = influence.self_influence(ids=[55, 52])
    assert some.ids.tolist() == [55, 52]
    np.testing.assert_allclose(some.values, own.values[[5, 2]], rtol=1e-5)
    assert influence.pairwise(QUERIES, ids=[60]).ids.tolist() == [60]
    assert pairs.unit == "loss"
    assert "Hara" in pairs.path
    assert pairs.provenance["steps"] == 16
    with pytest.raises(ScoresError):
        influence.mean(QUERIES, ids=[3])


def test_inputs_may_be_a_dict():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = build()

        def forward(self, *, x):
            return self.inner(x)

    named = SgdInfluence.train(recipe(build=Named, inputs={"x": X})).pairwise(({"x": QUERIES[0]}, QUERIES[1]))
    np.testing.assert_array_equal(named.values, SgdInfluence.train(recipe()).pairwise(QUERIES).values)


def test_a_folder_gives_the_same_scores_and_is_opened_again(tmp_path, monkeypatch):
    monkeypatch.setattr("turnover.baselines.recorded_training._BLOCK_BYTES", 5 * 32 * 8)
    plan = recipe(optimiser=sgd(momentum=0.9))
    memory, disk = SgdInfluence.train(plan, seed=2), SgdInfluence.train(plan, seed=2, folder=tmp_path / "run")
    again = SgdInfluence.open(plan, tmp_path / "run")
    for other in (disk, again):
        np.testing.assert_array_equal(other.pairwise(QUERIES).values, memory.pairwise(QUERIES).values)
    files = sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert again.storage_bytes == disk.storage_bytes == files > memory.storage_bytes == 17 * 32 * 8
    trained = plan.fit(seed=2)
    assert all(torch.equal(a, b) for a, b in zip(trained.parameters(), again.model.parameters(), strict=True))
    assert not again.model.training
    called = []
    monkeypatch.setattr(TrainingRecipe, "fit", lambda *_, **__: called.append(1))
    SgdInfluence.train(plan, seed=2, folder=tmp_path / "run")
    assert not called


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"inputs": X + 1}, "inputs"),
        ({"targets": 1 - Y}, "targets"),
        ({"ids": torch.arange(ROWS)}, "ids"),
        ({"epochs": 3}, "epochs, optimiser or schedule"),
        ({"batch_size": 5}, "batch size, optimiser or schedule"),
        ({"optimiser": sgd(lr=0.2)}, "optimiser or schedule"),
        ({"schedule": decaying}, "optimiser or schedule"),
        ({"build": lambda: nn.Linear(3, 2).double()}, "initial parameters"),
        ({"loss": lambda outputs, targets: 2 * cross_entropy(outputs, targets)}, "another loss or model"),
    ],
)
def test_a_folder_of_another_recipe_or_other_data_is_refused_by_name(tmp_path, changes, named):
    SgdInfluence.train(recipe(), folder=tmp_path)
    with pytest.raises(StoreMismatchError, match=named):
        SgdInfluence.open(recipe(**changes), tmp_path)


def test_a_training_that_was_cut_off_does_not_count_and_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("turnover.baselines.recorded_training._BLOCK_BYTES", 3 * 32 * 8)
    plan = recipe()
    calls = []

    def fails(outputs, targets):
        calls.append(1)
        if len(calls) > 10:
            raise KeyboardInterrupt
        return cross_entropy(outputs, targets)

    with pytest.raises(KeyboardInterrupt):
        SgdInfluence.train(replace(plan, loss=fails), folder=tmp_path)
    with pytest.raises(BaselineError, match=r"cut off: 3 of 6 blocks .* Run SgdInfluence.train"):
        SgdInfluence.open(plan, tmp_path)
    whole = SgdInfluence.train(plan, folder=tmp_path)
    np.testing.assert_array_equal(whole.mean(QUERIES).values, SgdInfluence.train(plan).mean(QUERIES).values)


def test_missing_and_damaged_steps_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("turnover.baselines.recorded_training._BLOCK_BYTES", 3 * 32 * 8)
    influence = SgdInfluence.train(recipe(), folder=tmp_path)
    block = tmp_path / "arrays" / "parameters" / "c" / "2" / "0"
    content = block.read_bytes()
    block.write_bytes(bytes(len(content)))
    with pytest.raises(StoreDamagedError, match="steps from 6 on"):
        SgdInfluence.open(recipe(), tmp_path).mean(QUERIES)
    block.unlink()
    with pytest.raises(StoreDamagedError, match="parameters/c/2/0"):
        SgdInfluence.open(recipe(), tmp_path)
    with pytest.raises(StoreDamagedError, match=r"steps from 6 on .* are missing"):
        influence.mean(QUERIES)


def test_a_folder_without_a_recorded_training_is_refused(tmp_path):
    with pytest.raises(StoreError, match="no store"):
        SgdInfluence.open(recipe(), tmp_path)
    influence = SgdInfluence.train(recipe())
    influence.mean(QUERIES).save(tmp_path / "scores")
    with pytest.raises(BaselineError, match="no recorded training"):
        SgdInfluence.open(recipe(), tmp_path / "scores")


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = build()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.inner(x)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"optimiser": partial(torch.optim.Adam, lr=0.1)}, r"Adam; .*torch\.optim\.SGD only"),
        ({"optimiser": sgd(maximize=True)}, "maximize"),
        ({"build": normalised}, "'1': batch normalisation"),
        ({"build": Counting}, "buffers 'seen'"),
        ({"build": lambda: build().requires_grad_(False)}, "changes no parameter"),
        ({"build": lambda: build().bfloat16(), "inputs": X.bfloat16()}, "bfloat16"),
        ({"optimiser": sgd(lr=1e200, weight_decay=1.0)}, "diverged"),
    ],
)
def test_what_cannot_be_walked_back_is_refused(changes, text):
    with pytest.raises(BaselineError, match=text):
        SgdInfluence.train(recipe(**changes))


def test_bad_queries_and_options_are_refused():
    influence = SgdInfluence.train(recipe(), last_epochs=2)
    with pytest.raises(BaselineError, match=r"tuple \(inputs, targets\)"):
        influence.mean(QUERIES[0])
    with pytest.raises(BaselineError, match="no queries"):
        influence.pairwise((X[:0], Y[:0]))
    with pytest.raises(BaselineError, match="last_epochs=5: the recipe has 4"):
        SgdInfluence.train(recipe(), last_epochs=5)
    with pytest.raises(BaselineError, match="needs 12 steps and 8 were recorded"):
        influence.last(3)
    with pytest.raises(BaselineError, match="at_once=0"):
        SgdInfluence.train(recipe(), at_once=0)


def test_a_walk_that_explodes_says_where():
    """Parameters grow from 1 to 1e25 on the way forth, derivatives from there on by as much on the way back."""
    x = X.float()
    plan = recipe(build=partial(nn.Linear, 3, 1), inputs=x, targets=x[:, :1], loss=None, optimiser=sgd(lr=60.0))
    influence = SgdInfluence.train(plan)
    with pytest.raises(BaselineError, match=r"no longer finite at step \d+ of 16"):
        influence.mean((x, x[:, :1]))


def digits(rows: int, queries: int) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Fours and nines, with a tenth of the training labels changed so that rows harm too."""
    from sklearn.datasets import load_digits

    data = load_digits()
    chosen = np.flatnonzero(np.isin(data.target, [4, 9]))
    x = torch.from_numpy(data.data[chosen] / 16).float()
    y = torch.from_numpy((data.target[chosen] == 9).astype(np.int64))
    y[: rows // 10] = 1 - y[: rows // 10]
    return x[:rows], y[:rows], (x[rows : rows + queries], y[rows : rows + queries])


def mlp(units: type[nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Linear(64, 16), units(), nn.Linear(16, 2))


MODELS = {
    "logistic regression": (partial(nn.Linear, 64, 2), sgd(lr=0.1)),
    "MLP with ReLU": (partial(mlp, nn.ReLU), sgd(lr=0.1)),
    "MLP with tanh": (partial(mlp, nn.Tanh), sgd(lr=0.1)),
    "MLP with tanh and momentum": (partial(mlp, nn.Tanh), sgd(lr=0.01, momentum=0.9)),
}


def on_digits(case: str, epochs: int) -> tuple[TrainingRecipe, tuple[torch.Tensor, torch.Tensor]]:
    x, y, queries = digits(120, 40)
    model, optimiser = MODELS[case]
    return TrainingRecipe(model, x, y, optimiser=optimiser, epochs=epochs, batch_size=20), queries


def change(plan: TrainingRecipe, queries, rows: range, epochs: range | None) -> torch.Tensor:
    """The queries' losses of models trained without each row, in some epochs or in all, minus those with it."""

    def losses(model: nn.Module) -> torch.Tensor:
        return cross_entropy(model(queries[0]), queries[1]).detach()

    def without(row: int) -> nn.Module:
        if epochs is not None:
            return fit_without(plan, row, seed=1, epochs=epochs)
        return plan.fit([other for other in range(len(plan)) if other != row], seed=1)

    base = losses(plan.fit(seed=1))
    return torch.stack([losses(without(row)) - base for row in rows])


def scores_of(influence: SgdInfluence, queries, rows: range) -> torch.Tensor:
    return torch.tensor(influence.pairwise(queries).values[list(rows)])


def test_scores_predict_retraining_of_logistic_regression():
    plan, queries = on_digits("logistic regression", 4)
    rows = range(0, 120, 8)
    influence = SgdInfluence.train(plan, seed=1)
    assert correlation(scores_of(influence, queries, rows), change(plan, queries, rows, None)) > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_scores_predict_retraining_along_the_same_batches(case):
    plan, queries = on_digits(case, 15)
    rows = range(0, 120, 4)
    influence = SgdInfluence.train(plan, seed=1)
    whole, last = (scores_of(one, queries, rows) for one in (influence, influence.last(1)))
    assert correlation(last, change(plan, queries, rows, range(14, 15))) > 0.95
    assert correlation(whole, change(plan, queries, rows, None)) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("case", ["logistic regression", "MLP with tanh", "MLP with tanh and momentum"])
def test_with_smooth_units_the_first_epoch_is_predicted_too(case):
    plan, queries = on_digits(case, 15)
    rows = range(0, 120, 8)
    influence = SgdInfluence.train(plan, seed=1)
    first = scores_of(influence, queries, rows) - scores_of(influence.last(14), queries, rows)
    assert correlation(first, change(plan, queries, rows, range(1))) > 0.99
