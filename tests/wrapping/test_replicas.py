"""Replicas: each trains as if it were alone, nothing leaks between them, and what does not split says so."""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import turnover
from tests.wrapping.models import mlp, run, train
from turnover.errors import PlanError
from turnover.layers import Instances, Site, masking_of
from turnover.wrapping import replica_models
from turnover.wrapping._replicas import is_fresh

REPLICAS = 8
SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=1e-3)
ADAM = partial(torch.optim.Adam, lr=1e-3)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.act1 = nn.ReLU()
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.act2 = nn.ReLU()
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.act2(self.second(self.act1(self.first(x))))
        return self.head(x.mean((2, 3)))


MODELS = {
    "mlp": (mlp, {"at": ["1", "3"]}, (6,)),
    "mlp over a trunk": (mlp, {"at": ["3"]}, (6,)),
    "convolutions": (Convolutions, {"at": {"act1": "channels", "act2": "channels"}}, (1, 6, 6)),
    "convolutions over a trunk": (Convolutions, {"at": {"act2": "channels"}}, (1, 6, 6)),
}


def batches(shape, steps=6, rows=10):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        ids = torch.randint(1000, (rows,), generator=generator)
        yield torch.randn(rows, *shape, generator=generator), torch.randint(3, (rows,), generator=generator), ids


def apart(model):
    return [copy.deepcopy(one) for one in replica_models(model)]


@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["sgd", "adam"])
@pytest.mark.parametrize("name", ["mlp", "convolutions"])
def test_each_replica_trains_as_if_it_were_alone(name, optimizer):
    make, options, shape = MODELS[name]
    torch.manual_seed(0)
    model = turnover.wrap(make(), **options, replicas=REPLICAS)
    alone = [train(single.train(), batches(shape), optimizer) for single in apart(model)]
    train(model.train(), batches(shape), optimizer)
    for together, single in zip(replica_models(model), alone, strict=True):
        torch.testing.assert_close([*together.parameters()], [*single.parameters()], rtol=1e-4, atol=1e-5)


def test_the_trunk_gets_the_mean_gradient_of_the_replicas():
    make, options, shape = MODELS["mlp over a trunk"]
    torch.manual_seed(0)
    model = turnover.wrap(make(), **options, replicas=4).train()
    x, y, ids = next(batches(shape))
    gradients = []
    for one in apart(model):
        with turnover.instances(ids):
            cross_entropy(one.train()(x), y).backward()
        gradients.append(one[0].weight.grad)
    with turnover.instances(ids) as now:
        cross_entropy(model(x), now.repeat(y)).backward()
    torch.testing.assert_close(model[0].weight.grad, torch.stack(gradients).mean(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("view", ["keep", "flip"])
def test_outputs_come_one_replica_after_the_other(name, view):
    make, options, shape = MODELS[name]
    model = turnover.wrap(make(), **options, replicas=4).eval()
    x, _, ids = next(batches(shape))
    for inputs in (x, x[:1]):  # one row is expanded
        each = [run(single, inputs, ids, view) for single in replica_models(model)]
        torch.testing.assert_close(run(model, inputs, ids, view), torch.cat(each), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_the_full_view_is_the_mean_of_the_replicas(name):
    make, options, shape = MODELS[name]
    model = turnover.wrap(make(), **options, replicas=4).eval()
    x, y, ids = next(batches(shape))
    with torch.no_grad():
        expected = torch.stack([one(x) for one in replica_models(model)]).mean(0)
        torch.testing.assert_close(model(x), expected)
        torch.testing.assert_close(turnover.unwrap(model)(x), expected)
        with turnover.instances(ids, view="full") as now:
            torch.testing.assert_close(model(x), expected)
            assert now.repeat(y) is y


def mask_words(model, ids, site=0, width=32):
    return Instances(ids, "keep").words(Site(masking_of(model), site), torch.device("cpu"), width)


def test_masks_of_replicas_differ_and_the_first_has_those_of_a_plain_model():
    replicas = replica_models(turnover.wrap(mlp(), at=["0"], replicas=3, seed=5))
    plain = turnover.wrap(mlp(), at=["0"], seed=5)
    words = [mask_words(one, torch.arange(100)) for one in (plain, *replicas)]
    assert torch.equal(words[0], words[1])
    assert not torch.equal(words[1], words[2])
    assert not torch.equal(words[2], words[3])


@pytest.mark.parametrize("source", ["counter", "volatile", "codebook"])
@pytest.mark.parametrize("site", [0, 1])
def test_the_words_of_a_replicated_site_are_those_of_each_replica(source, site):
    model = turnover.wrap(mlp(), at=["0", "2"], replicas=3, masks=source)
    ids = torch.tensor([3, 2**40, 7])
    each = [mask_words(one, ids, site) for one in replica_models(model)]
    assert torch.equal(mask_words(model, ids, site), torch.cat(each))


def test_the_audit_sees_no_leak_from_one_replica_into_another():
    torch.manual_seed(0)
    model = turnover.wrap(mlp(bias=False), at=["1", "3"], replicas=8)
    batch = next(batches((6,)))
    assert turnover.audit(model, batch).leaks == ()


def test_the_audit_sees_what_a_shared_first_layer_leaks():
    torch.manual_seed(0)
    with pytest.warns(turnover.errors.TurnOverWarning, match="'0' feeds site '1'"):
        model = turnover.wrap(mlp(bias=False), at=["1", "3"], replicas=8, split="1")
    assert {leak.name for leak in turnover.audit(model, next(batches((6,)))).leaks} == {"0.weight", "0.bias"}


def test_fresh_layers_are_drawn_anew_and_trained_ones_copied():
    torch.manual_seed(0)
    base = mlp()
    with torch.no_grad():
        base[2].weight.mul_(3)
    model = turnover.wrap(base, at=["1"], replicas=2)
    assert not torch.equal(model[0].weight[0], model[0].weight[1])
    assert torch.equal(model[0].weight[0], base[0].weight)
    assert torch.equal(model[2].weight[0], model[2].weight[1])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("make", [lambda: nn.Linear(64, 512), lambda: nn.Linear(384, 2), lambda: nn.Conv2d(3, 8, 3)])
def test_fresh_weights_are_known_and_a_few_steps_of_training_show(make, seed):
    torch.manual_seed(seed)
    layer = make()
    assert is_fresh(layer)
    with torch.no_grad():
        layer.weight.add_(torch.randn_like(layer.weight) * layer.weight.std() / 2)
    assert not is_fresh(layer)


def test_frozen_weights_are_shared_and_rows_are_expanded_at_the_first_site():
    base = mlp()
    base[0].requires_grad_(False)
    model = turnover.wrap(base, at=["1"], replicas=3)
    assert model[0].weight.shape == (32, 6)
    assert model[2].weight.shape == (3, 32, 32)
    with turnover.instances(range(5)):
        assert model(torch.randn(5, 6)).shape == (15, 3)
    model.eval()
    with turnover.instances(range(5), view="flip"):
        assert model(torch.randn(1, 6)).shape == (15, 3)
    assert model(torch.randn(1, 6)).shape == (1, 3)


def test_several_views_in_one_batch_are_repeated_for_every_replica():
    model = turnover.wrap(mlp(), at=["1", "3"], replicas=3).eval()
    x = torch.randn(2, 6)
    each = [run(single, x, [4, 4], ["keep", "flip"]) for single in replica_models(model)]
    torch.testing.assert_close(run(model, x, [4, 4], ["keep", "flip"]), torch.cat(each))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry = nn.Linear(6, 16)
        self.inner = nn.Linear(16, 16)
        self.act = nn.ReLU()
        self.back = nn.Linear(16, 16)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        h = self.entry(x)
        return self.head(h + self.back(self.act(self.inner(h))))


def test_a_model_that_does_not_split_says_where_it_could():
    with pytest.raises(PlanError, match=r"does not split at 'inner': add\(...\) takes rows.*It could split at 'entry'"):
        turnover.wrap(Residual(), at=["act"], replicas=4)
    model = turnover.wrap(Residual(), at=["act"], replicas=4, split="entry")
    with turnover.instances(range(5)):
        assert model(torch.randn(5, 6)).shape == (20, 3)


class Untraceable(Residual):
    def forward(self, x):
        if x.sum() > 1e9:
            return x
        return super().forward(x)


def test_a_model_that_cannot_be_traced_fails_in_its_first_pass_with_advice():
    model = turnover.wrap(Untraceable(), at=["act"], replicas=4)
    with pytest.raises(RuntimeError, match="must match the size") as failure, turnover.instances(range(5)):
        model(torch.randn(5, 6))
    assert "split earlier or later" in "".join(failure.value.__notes__)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 0}, "`replicas` must be an integer >= 1, got 0"),
        ({"replicas": True}, "`replicas` must be an integer >= 1, got True"),
        ({"split": "2"}, "needs replicas"),
        (
            {"replicas": 2, "split": "nowhere"},
            r"`split` must be .*got 'nowhere'. It could split at '0'",
        ),
    ],
)
def test_what_cannot_be_replicated_is_named(options, message):
    with pytest.raises(PlanError, match=message):
        turnover.wrap(mlp(), at=["1"], **options)


def test_weights_tied_across_the_split_are_named_and_behind_it_stay_tied():
    tied = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    tied[2].weight = tied[0].weight
    with pytest.raises(PlanError, match="'0' is tied to weights behind the split"):
        turnover.wrap(tied, at=["3"], replicas=2)
    model = turnover.wrap(tied, at=["1"], replicas=2)
    assert model[2].weight is model[0].weight


# Both come from the compiler itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
def test_compiled_training_of_replicas_equals_eager_training():
    torch.manual_seed(0)
    eager = turnover.wrap(mlp(), at=["1", "3"], replicas=3)
    compiled = copy.deepcopy(eager)
    for model in (eager, torch.compile(compiled, backend="aot_eager")):
        train(model.train(), batches((6,)), SGD)
    torch.testing.assert_close([*eager.parameters()], [*compiled.parameters()], rtol=1e-4, atol=1e-5)
