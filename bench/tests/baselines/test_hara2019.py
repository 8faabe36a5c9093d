"""SGD-influence answers questions as all baselines do, rejects what it cannot walk back, and predicts retraining."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from bench.tests.baselines.builders import QUERIES, X, build, cross_entropy, recipe, sgd
from tests.reference.hara_twin import correlation, fit_without
from turnover.errors import BaselineError
from turnover.training import TrainingRecipe
from turnover_bench.baselines.hara2019 import SgdInfluence


def test_queries_that_share_a_walk_have_the_scores_they_have_alone():
    plan = recipe(optimizer=sgd(momentum=0.9))
    together, alone = (SgdInfluence.train(plan, at_once=count).pairwise(QUERIES) for count in (None, 1))
    np.testing.assert_allclose(together.values, alone.values, rtol=1e-6)
    assert "Hara" in together.path
    assert together.provenance["steps"] == 16


def normalized() -> nn.Module:
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
        ({"optimizer": partial(torch.optim.Adam, lr=0.1)}, r"Adam; .*torch\.optim\.SGD only"),
        ({"optimizer": sgd(maximize=True)}, "maximize"),
        ({"build": normalized}, "'1': batch normalization"),
        ({"build": Counting}, "buffers 'seen'"),
        ({"build": lambda: build().requires_grad_(False)}, "changes no parameter"),
        ({"build": lambda: build().bfloat16(), "inputs": X.bfloat16()}, "bfloat16"),
        ({"optimizer": sgd(lr=1e200, weight_decay=1.0)}, "diverged"),
    ],
)
def test_what_cannot_be_walked_back_is_rejected(changes, text):
    with pytest.raises(BaselineError, match=text):
        SgdInfluence.train(recipe(**changes))


def test_bad_options_are_rejected():
    with pytest.raises(BaselineError, match=r"`last_epochs` must be .* from 1 to 4, .* got 5"):
        SgdInfluence.train(recipe(), last_epochs=5)
    with pytest.raises(BaselineError, match="needs 12 steps and 8 were recorded"):
        SgdInfluence.train(recipe(), last_epochs=2).last(3)
    with pytest.raises(BaselineError, match=r"`at_once` must be .* got 0"):
        SgdInfluence.train(recipe(), at_once=0)


# Real retraining along the same batches


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
    model, optimizer = MODELS[case]
    return TrainingRecipe(model, x, y, optimizer=optimizer, epochs=epochs, batch_size=20), queries


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


@pytest.mark.slow
@pytest.mark.parametrize("case", MODELS)
def test_scores_predict_retraining_along_the_same_batches(case):
    plan, queries = on_digits(case, 15)
    rows = range(0, 120, 4)
    influence = SgdInfluence.train(plan, seed=1)
    whole, last = (scores_of(one, queries, rows) for one in (influence, influence.last(1)))
    of_last = correlation(last, change(plan, queries, rows, range(14, 15)))
    of_whole = correlation(whole, change(plan, queries, rows, None))
    print(f"{case}: r = {of_last:.4f} for the last epoch, {of_whole:.4f} for all")
    assert of_last > 0.95
    assert of_whole > 0.95
