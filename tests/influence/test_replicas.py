"""A model with replicas is asked like an ensemble of its replicas."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import turnover
from turnover.influence import TurnOver
from turnover.wrapping import replica_models

IDS = range(40)


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 6, generator=generator)
    return x, (x[:, 0] > 0).long()


def trained(data, replicas, at=("1", "3"), steps=20):
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    model = turnover.wrap(base, at=list(at), replicas=replicas)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = data
    for _ in range(steps):
        with turnover.instances(IDS) as now:
            loss = cross_entropy(model(x), now.repeat(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("at", [("1", "3"), ("3",)], ids=["generic", "last layer"])
def test_scores_of_replicas_equal_those_of_the_models_apart(data, at):
    model = trained(data, 4, at)
    queries = (data[0][:5] + 0.1, data[1][:5])
    together = turnover.Influence(model).pairwise(queries, ids=IDS)
    apart = turnover.Influence(replica_models(model)).pairwise(queries, ids=IDS)
    assert together.replicas == 4
    np.testing.assert_allclose(together.values, apart.values, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(together.stderr, apart.stderr, rtol=1e-3, atol=1e-6)


def test_every_question_takes_a_model_with_replicas(data):
    x, y = data
    train = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
    influence = turnover.Influence(trained(data, 3), estimator="tod", train=train)
    assert influence.mean((x[:4], y[:4])).stderr.shape == (40,)
    assert influence.top((x[:4], y[:4]), k=2).helpful_ids.shape == (4, 2)
    assert influence.self_influence().replicas == 3
    assert influence.out_of_sample().replicas.shape == (3, 40, 2)
    assert influence.null((x[:4], y[:4]), n=16).values.shape == (16, 4)


def test_scores_follow_weights_that_change_after_the_question_was_prepared(data):
    model = trained(data, 3)
    influence = turnover.Influence(model)
    queries = (data[0][:3], data[1][:3])
    before = influence.pairwise(queries, ids=IDS).values
    with torch.no_grad():
        model[4].weight.mul_(2)
    after = influence.pairwise(queries, ids=IDS).values
    assert not np.allclose(before, after)
    model.double()
    again = influence.pairwise((queries[0].double(), queries[1]), ids=IDS).values
    np.testing.assert_allclose(again, after, rtol=1e-3, atol=1e-5)


def test_a_recipe_trains_a_model_with_replicas_as_a_plain_loop_does(data):
    from functools import partial

    from turnover.training import TrainingRecipe

    x, y = data

    def build():
        return turnover.wrap(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2)), at=["1"], replicas=3)

    recipe = TrainingRecipe(build, x, y, optimizer=partial(torch.optim.SGD, lr=0.1), epochs=2, batch_size=8)
    found = recipe.fit(seed=3)
    torch.manual_seed(3)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in recipe.batches(3):
        with turnover.instances(rows) as now:
            loss = cross_entropy(model(x[rows]), now.repeat(y[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for one, other in zip(found.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("against", ["keep", "full"])
@pytest.mark.parametrize("at", [("1", "3"), ("3",)], ids=["no trunk", "trunk"])
def test_rows_are_asked_in_one_pass_and_get_what_the_replicas_say(data, at, against):
    x, y = data
    model = trained(data, 3, at)
    train = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
    together = turnover.Influence(model, train=train, estimator=TurnOver(against=against))
    apart = turnover.Influence(replica_models(model), train=train, estimator=TurnOver(against=against))
    one, other = together.self_influence(), apart.self_influence()
    np.testing.assert_allclose(one.values, other.values, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(one.stderr, other.stderr, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(together.out_of_sample().replicas, apart.out_of_sample().replicas, rtol=1e-4, atol=1e-6)


def test_the_trunk_runs_once_for_all_replicas_when_rows_are_asked(data):
    x, y = data
    model = trained(data, 3, ("3",))
    calls = []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    train = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
    turnover.Influence(model, estimator="tod", train=train).out_of_sample()
    assert len(calls) == 1


def test_the_predicted_label_is_that_of_the_mean_of_all_members(data):
    models = [trained(data, 1), turnover.wrap(nn.Sequential(*[nn.Linear(6, 2), nn.ReLU()]), at=["0"], seed=7)]
    with torch.no_grad():
        models[1][0].weight.zero_()
        models[1][0].bias.copy_(torch.tensor([100.0, 0.0]))
    with pytest.warns(turnover.errors.TurnOverWarning, match="never trained"):
        influence = turnover.Influence(models)
    top = influence.top(data[0][:5], k=1, ids=IDS, labels=data[1], label="predicted")
    assert (data[1].numpy()[top.helpful_ids[:, 0]] == 0).all()
