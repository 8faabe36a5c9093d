"""Features of training rows are gradients of their loss, whatever the model, and are kept or computed again alike."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import turnover
from tests.influence.models import Encoder, bert, cnn, mlp, trained
from turnover.batches import Batch
from turnover.influence import Ridge
from turnover.influence.estimate._basis import _Projection
from turnover.influence.estimate._features import _features_of, _layers_of
from turnover.influence.measures import Measure
from turnover.influence.members import Member, evaluating
from turnover.influence.paths import Forward


class Squeezed(nn.Module):
    """A regression whose output is no longer that of its last layer, and which writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(x))).mul_(2.0).squeeze(-1)


class Words(nn.Module):
    """A language model: one prediction a token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.hidden, self.act = nn.Embedding(9, 12), nn.Linear(12, 16), nn.ReLU()
        self.last = nn.Linear(16, 9)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.last(self.act(self.hidden(self.embed(tokens))))


CASES = {
    "mlp": (lambda: trained(mlp(), at=["1", "3"]), "4", (torch.randn(5, 6),), {}, torch.arange(5) % 3),
    "cnn": (lambda: trained(cnn(), at={"4": "channels"}), "7", (torch.randn(5, 3, 9, 9),), {}, torch.arange(5) % 4),
    "regression": (lambda: trained(Squeezed(), at=["act"]), "last", (torch.randn(5, 6),), {}, torch.randn(5)),
    "words": (
        lambda: trained(Words(), at=["act"]),
        "last",
        (torch.randint(9, (5, 7)),),
        {},
        torch.tensor([[1, 2, 3, 4, -100, -100, -100]] * 5),
    ),
    "encoder": (
        lambda: trained(Encoder(), at=["encoder.layers.1.linear1"]),
        "head",
        (torch.randint(30, (5, 7)), torch.zeros(5, 7, dtype=torch.bool)),
        {},
        torch.arange(5) % 3,
    ),
    "bert": (
        lambda: trained(bert(), at=["bert.encoder.layer.1.intermediate.intermediate_act_fn"]),
        "classifier",
        (),
        {"input_ids": torch.randint(50, (5, 7))},
        torch.arange(5) % 3,
    ),
}


def opened(model: nn.Module) -> Forward:
    return Forward(Member(model), Measure())


def row_loss(model: nn.Module, batch: Batch, row: int) -> Tensor:
    one = batch.row(row)
    outputs = model(*one.args, **one.kwargs)
    outputs = getattr(outputs, "logits", outputs)
    if one.target.is_floating_point():
        return functional.mse_loss(outputs, one.target)
    return functional.cross_entropy(outputs.reshape(-1, outputs.shape[-1]), one.target.reshape(-1))


@pytest.mark.parametrize("view", ["full", "flip"])
@pytest.mark.parametrize("name", CASES)
def test_features_are_the_negative_gradient_of_the_last_weight(name, view):
    torch.manual_seed(0)
    make, last, args, kwargs, target = CASES[name]
    model, ids = make(), torch.arange(5) + 100
    batch, work, ridge = Batch(args, kwargs, target, ids, 5), opened(model), Ridge(view=view)
    with evaluating([work.member]):
        layers = _layers_of(work, ridge, batch)
        (outer,) = _features_of(work, ridge, batch, layers)
        assert not torch.is_grad_enabled()
    assert layers == [model.get_submodule(last)]
    found = torch.einsum("npd,npc->ncd", outer.hidden, outer.error)
    for row in range(5):
        with turnover.instances(ids[row : row + 1], view=view):
            loss = row_loss(model, batch, row)
        (gradient,) = torch.autograd.grad(loss, model.get_submodule(last).weight)
        assert torch.allclose(found[row], -gradient, atol=1e-5)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_model_can_be_denoised(name, weight):
    torch.manual_seed(0)
    make, _, args, kwargs, target = CASES[name]
    tensors = list(kwargs.values()) or list(args)
    model, count = make(), 40
    if kwargs:
        many = {key: torch.randint(50, (count, 7)) for key in kwargs}
        train = {**many, "labels": torch.arange(count) % 3, "instance_id": torch.arange(count)}
        queries = {**kwargs, "labels": target}
    else:
        rows = [one.repeat(8, *[1] * (one.dim() - 1)) for one in (*args, target)]
        train, queries = (*rows, torch.arange(count)), (*args, target)
    scores = turnover.Influence(model, train=train, estimator=Ridge(gradients=weight)).pairwise(queries)
    assert scores.values.shape == (count, len(tensors[0]))
    assert np.isfinite(scores.values).all()
    assert "degrees of freedom" in scores.path


def test_named_layers_add_their_kernels():
    torch.manual_seed(0)
    model, x, y = trained(mlp(), at=["1", "3"]), torch.randn(30, 6), torch.arange(30) % 3
    work, batch = opened(model), Batch((x,), {}, y, torch.arange(30), 30)
    with evaluating([work.member]):
        for names in (("4",), ("2", "4")):
            ridge = Ridge(layers=names)
            layers = _layers_of(work, ridge, batch)
            outers = _features_of(work, ridge, batch, layers)
            kernel = sum((o.hidden[:, 0] @ o.hidden[:, 0].T) * (o.error[:, 0] @ o.error[:, 0].T) for o in outers)
            found = []
            for row in range(30):
                with torch.enable_grad():
                    loss = row_loss(model, batch, row)
                    parts = torch.autograd.grad(loss, [model.get_submodule(name).weight for name in names])
                found.append(torch.cat([part.flatten() for part in parts]))
            assert torch.allclose(torch.as_tensor(kernel), torch.stack(found) @ torch.stack(found).T, atol=1e-4)


def test_rows_of_a_group_add_up():
    torch.manual_seed(0)
    model, x, y = trained(mlp(), at=["1", "3"]), torch.randn(60, 6), torch.arange(60) % 3
    queries = torch.randn(4, 6), torch.arange(4) % 3
    ids = torch.arange(60) % 20  # a group's rows are far apart

    def last_gradient(model, inputs, targets):
        hidden = model[3](model[2](model[1](model[0](inputs))))
        error = functional.one_hot(targets, 3) - model[4](hidden).softmax(1)
        return torch.einsum("nd,nc->ndc", hidden, error).flatten(1)

    grouped = turnover.Influence(model, train=(x, y, ids), estimator="ridge")
    with torch.no_grad():
        sums = torch.zeros(20, 96).index_add_(0, ids, last_gradient(model, x, y))
    by_hand = turnover.Influence(
        model,
        train=(sums, torch.zeros(20), torch.arange(20)),
        estimator=Ridge(features=lambda model, inputs, targets: inputs),
    )
    assert np.allclose(grouped.pairwise(queries).values, by_hand.pairwise(queries).values, atol=1e-4)
    with pytest.raises(turnover.errors.InfluenceError, match=r"memory=7680"):
        turnover.Influence(model, train=(x, y, ids), estimator="ridge", memory=7000).pairwise(queries)


def test_without_a_linear_layer_the_message_names_the_way_out():
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.act, self.head = nn.Conv1d(1, 8, 1), nn.ReLU(), nn.Conv1d(8, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.act(self.conv(x[:, None]))).mean(2)

    model, data = trained(Last(), at={"act": "channels"}), (torch.randn(30, 6), torch.arange(30) % 2, torch.arange(30))
    queries = torch.randn(2, 6), torch.tensor([0, 1])
    with pytest.raises(turnover.errors.InfluenceError, match=r"no nn.Linear .*Ridge\(features="):
        turnover.Influence(model, train=data, estimator="ridge").pairwise(queries)
    own = Ridge(features=lambda model, inputs, targets: inputs * (2 * targets[:, None] - 1))
    assert turnover.Influence(model, train=data, estimator=own).pairwise(queries).values.shape == (30, 2)
    mixed = turnover.Influence(model, train=data, estimator=replace(own, gradients=1)).pairwise(queries)
    assert np.isfinite(mixed.values).all()


@pytest.mark.filterwarnings("ignore::turnover.errors.WeakSignalWarning")
def test_data_that_changes_or_is_used_up_is_said():
    from torch.utils.data import DataLoader, WeightedRandomSampler

    x, y = torch.randn(400, 6), torch.arange(400) % 3
    data = turnover.with_instance_ids(TensorDataset(x, y))
    queries = torch.randn(2, 6), torch.tensor([0, 1])
    drawn = DataLoader(data, batch_size=8, sampler=WeightedRandomSampler([1.0] * 400, 200))
    with pytest.raises(turnover.errors.InfluenceError, match="draws other rows every time"):
        turnover.Influence(trained(mlp(), at=["1"]), train=drawn, estimator="ridge").pairwise(queries)
    once = ({"input": x[row], "labels": y[row], "instance_id": row} for row in range(400))
    with pytest.raises(turnover.errors.InfluenceError, match="read only once"):
        turnover.Influence(trained(mlp(), at=["1"]), train=once, estimator="ridge").pairwise(queries)


@pytest.mark.parametrize(("sizes", "most"), [([(64, 5)], 240), ([(20, 300)], 240), ([(30, 4)] * 3, 250)])
def test_projections_keep_inner_products_in_expectation(sizes, most):
    torch.manual_seed(0)
    from turnover.influence.estimate._features import Outer

    outers = [Outer(torch.randn(6, 2, d), torch.randn(6, 2, c)) for d, c in sizes]
    whole = torch.cat([torch.einsum("npd,npc->ndc", o.hidden, o.error).flatten(1) for o in outers], 1)
    exact = whole @ whole.T / 2
    trials = []
    for seed in range(300):
        projection = _Projection(sizes, members=2, most=most, seed=seed)
        found = projection(outers)
        assert found.shape == (6, projection.width)
        assert projection.width <= most
        trials.append(found @ found.T)
    error = torch.stack(trials).std(0) / 300**0.5
    assert ((torch.stack(trials).mean(0) - exact).abs() < 4.5 * error).all()
    again = _Projection(sizes, members=2, most=most, seed=299)(outers)
    assert torch.equal(again, found)
    unprojected = _Projection(sizes, members=2, most=10**6, seed=0)(outers)
    assert torch.allclose(unprojected @ unprojected.T, exact, rtol=1e-4, atol=1e-2)
