"""Influence functions predict what leave-one-out retraining measures."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

import turnover
from turnover.errors import TurnOverWarning
from turnover.training import TrainingRecipe
from turnover_bench.baselines import ConjugateGradients, Exact, Hessian, InfluenceFunctions, Lissa, RowLosses
from turnover_bench.errors import BaselineError

L2 = 0.05


def logistic(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(outputs[:, 0], targets, reduction="none")


class Digits:
    """Threes and eights, and L2-regularized logistic regression solved to its minimum by Newton's method."""

    def __init__(self, n: int = 300, queries: int = 30) -> None:
        data = load_digits()
        chosen = np.isin(data.target, [3, 8])
        x = torch.tensor(data.data[chosen] / 16)
        y = torch.tensor((data.target[chosen] == 8).astype(np.float64))
        self.x, self.y, self.queries = x[:n], y[:n], (x[n : n + queries], y[n : n + queries])
        build = partial(nn.Linear, 64, 1, dtype=torch.float64)
        self.recipe = TrainingRecipe(build, self.x, self.y, loss=logistic)
        self.theta = self.fit(torch.ones(n, dtype=torch.float64))
        self.model = build()
        with torch.no_grad():
            self.model.weight.copy_(self.theta[None, :64])
            self.model.bias.copy_(self.theta[64:])

    def fit(self, weights: Tensor) -> Tensor:
        x, theta = _with_ones(self.x), torch.zeros(65, dtype=torch.float64)
        for _ in range(50):
            p = torch.sigmoid(x @ theta)
            gradient = x.T @ (weights * (p - self.y)) / len(x) + L2 * theta
            if gradient.norm() < 1e-13:
                break
            curved = x.T @ ((weights * p * (1 - p))[:, None] * x) / len(x)
            theta = theta - torch.linalg.solve(curved + L2 * torch.eye(65, dtype=torch.float64), gradient)
        assert gradient.norm() < 1e-12
        return theta

    def query_losses(self, theta: Tensor) -> Tensor:
        inputs, targets = self.queries
        return logistic((_with_ones(inputs) @ theta)[:, None], targets)

    def retrained(self, rows: list[int], weight: float = 0.0) -> np.ndarray:
        """The query losses with these rows at a smaller weight, one at a time, minus those with all rows at 1."""
        found = []
        for row in rows:
            weights = torch.ones(len(self.x), dtype=torch.float64)
            weights[row] = weight
            found.append(self.query_losses(self.fit(weights)) - self.query_losses(self.theta))
        return torch.stack(found).numpy()


def _with_ones(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)


@pytest.fixture(scope="module")
def digits() -> Digits:
    return Digits()


ROWS = list(range(0, 300, 3))


@pytest.mark.parametrize(
    ("solver", "r"),
    [("cg", 0.99), ("exact", 0.99), (Lissa(depth=300, repeats=2), 0.95)],
    ids=["cg", "exact", "lissa"],
)
def test_scores_correlate_with_real_leave_one_out_retraining_in_the_unit_of_the_loss(digits, solver, r):
    found = InfluenceFunctions(digits.recipe, digits.model, solver=solver, l2=L2).pairwise(digits.queries, ids=ROWS)
    predicted, real = found.values.ravel(), digits.retrained(ROWS).ravel()
    measured, slope = np.corrcoef(predicted, real)[0, 1], np.polyfit(predicted, real, 1)[0]
    print(f"{found.path}: r = {measured:.5f}, slope = {slope:.4f}")
    assert measured >= r
    assert 0.9 < slope < 1.15
    assert (found.unit, found.shape) == ("loss", (100, 30))


def test_scores_are_exactly_the_derivative_by_the_rows_weight(digits):
    # A thousandth of a row taken away: sign and factor show without the second order.
    rows = ROWS[:20]
    real = 1000 * digits.retrained(rows, weight=0.999)
    found = InfluenceFunctions(digits.recipe, digits.model, solver="exact", l2=L2).pairwise(digits.queries, ids=rows)
    np.testing.assert_allclose(found.values, real, rtol=2e-3, atol=1e-7)


X = torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] * X[:, 1] > 0).long()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 2))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=8, batch_first=True)
    return nn.Sequential(nn.Unflatten(1, (1, 4)), nn.TransformerEncoder(layer, 1), nn.Flatten(), nn.Linear(4, 2))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.LSTM(1, 3, batch_first=True)
        self.out = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.steps(x[..., None])[0][:, -1])


def recipe(build=network, **changes) -> TrainingRecipe:
    return TrainingRecipe(**{"build": build, "inputs": X, "targets": Y, "epochs": 2, **changes})


@pytest.mark.parametrize("build", [network, transformer, Recurrent], ids=["dropout", "attention", "recurrent"])
def test_products_and_row_gradients_equal_those_of_the_written_out_loss(build):
    plan = recipe(build)
    model = plan.fit()
    losses = RowLosses(plan, model, [name for name, _ in model.named_parameters()])
    rows = torch.arange(6)
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    vectors = torch.randn(3, len(flat))

    def mean_loss(theta: Tensor, rows: Tensor) -> Tensor:
        return losses.losses(dict(zip(losses.names, losses.split(theta), strict=True)), rows).mean()

    for place, row in enumerate(rows):
        leaf = flat.clone().requires_grad_()
        expected = torch.autograd.grad(mean_loss(leaf, row[None]), leaf)[0]
        torch.testing.assert_close(next(losses.gradients(rows))[place], expected, rtol=1e-4, atol=1e-6)
    products = Hessian(losses, 0.5).times(vectors, rows)
    for vector, product in zip(vectors, products, strict=True):
        expected = torch.autograd.functional.vhp(lambda theta: mean_loss(theta, rows), flat, vector)[1]
        torch.testing.assert_close(product, expected + 0.5 * vector, rtol=1e-4, atol=1e-5)


def test_a_wrapped_model_is_scored_in_full_view():
    plain = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    masked = turnover.wrap(plain, at=["1"])
    one, other = (InfluenceFunctions(recipe(), model, damping=1.0) for model in (plain, masked))
    np.testing.assert_allclose(other.pairwise((X, Y)).values, one.pairwise((X, Y)).values, rtol=1e-4, atol=1e-8)


def test_parameters_restrict_influence_to_a_layer():
    plan = recipe()
    model = plan.fit()
    last = InfluenceFunctions(plan, model, solver="exact", damping=0.1, parameters="3")
    features = nn.Sequential(*list(model)[:3])(X).detach()
    head = TrainingRecipe(partial(nn.Linear, 5, 2), features, Y)
    expected = InfluenceFunctions(head, model[3], solver="exact", damping=0.1).pairwise((features, Y))
    found = last.pairwise((X, Y))
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-4, atol=1e-7)
    assert found.provenance["parameters"] == ["3.weight", "3.bias"]
    with pytest.raises(BaselineError, match=r"matches no trainable parameter: 'head'.*0\.weight"):
        InfluenceFunctions(plan, model, parameters=["3", "head"])


def saddle(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that curves up along one weight and down along another."""
    return outputs[:, 0].square() - outputs[:, 1].square()


@pytest.mark.parametrize("solver", ["cg", "exact"])
def test_an_indefinite_hessian_asks_for_damping(solver):
    plan = recipe(partial(nn.Linear, 4, 2), loss=saddle)
    model = plan.build()
    with pytest.raises(BaselineError, match=r"indefinite Hessian: .*Give damping=, e\.g\. damping="):
        InfluenceFunctions(plan, model, solver=solver).pairwise((X[:2], Y[:2]))


def test_lissa_that_diverges_says_what_to_change(digits):
    koh = InfluenceFunctions(digits.recipe, digits.model, solver=Lissa(depth=500, scale=0.01), l2=L2)
    with pytest.raises(BaselineError, match=r"LiSSA diverges at step .*Give solver=Lissa\(scale=0.1\)"):
        koh.mean(digits.queries)


def test_conjugate_gradients_that_do_not_converge_warn_with_the_residual(digits):
    koh = InfluenceFunctions(digits.recipe, digits.model, solver=ConjugateGradients(max_iterations=2), l2=L2)
    with pytest.warns(TurnOverWarning, match=r"did not converge: after 2 iterations the residual .* larger damping="):
        koh.mean(digits.queries)


def test_weight_decay_that_is_not_given_as_l2_is_warned_of():
    plan = recipe(optimizer=partial(torch.optim.SGD, lr=0.1, weight_decay=0.02))
    with pytest.warns(TurnOverWarning, match=r"weight_decay=0.02 and l2 is 0.*Give l2=0.02"):
        InfluenceFunctions(plan, plan.fit(), damping=0.1)
    InfluenceFunctions(plan, plan.fit(), damping=0.1, l2=0.02)
    decoupled = recipe(optimizer=torch.optim.AdamW)
    InfluenceFunctions(decoupled, decoupled.fit(), damping=0.1)


def test_options_out_of_range_are_named():
    plan = recipe()
    model = plan.build()
    with pytest.raises(BaselineError, match="one of 'cg', 'lissa', 'exact', or an object, got 'newton'"):
        InfluenceFunctions(plan, model, solver="newton")
    with pytest.raises(BaselineError, match="damping=-1"):
        InfluenceFunctions(plan, model, damping=-1)
    with pytest.raises(BaselineError, match="tolerance=2"):
        ConjugateGradients(tolerance=2)
    with pytest.raises(BaselineError, match="depth=0"):
        Lissa(depth=0)
    large = recipe(partial(nn.Linear, 4, 2000))
    with pytest.raises(BaselineError, match=r"10,000 × 10,000.*parameters=.*or solver='cg'"):
        InfluenceFunctions(large, large.build(), solver=Exact()).mean((X[:2], Y[:2]))
