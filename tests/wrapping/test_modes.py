"""Masks on a whole network: on the backward pass alone, or on the difference from the start."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import turnover
from tests.wrapping.models import ADAM, SGD, run, train
from turnover.errors import PlanError
from turnover.layers import Site, masking_of

MODES = ("backward", "mixout")
IDS = torch.arange(6)


class Words(nn.Module):
    """Embedding, normalization, two linear layers: all that a transformer has but attention."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.norm = nn.LayerNorm(16)
        self.hidden = nn.Linear(16, 32)
        self.act = nn.GELU()
        self.head = nn.Linear(32, 3, bias=False)

    def forward(self, x):
        return self.head(self.act(self.hidden(self.norm(self.embedding(x)))).mean(1))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.act = nn.ReLU()
        self.head = nn.Linear(8, 3, bias=False)

    def forward(self, x):
        return self.head(self.act(self.conv(x)).mean((2, 3)))


class Positions(nn.Module):
    """Words and places; the embedding of places has one row for the whole batch."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.places = nn.Embedding(7, 16)
        self.hidden = nn.Linear(16, 16)
        self.head = nn.Linear(16, 3, bias=False)

    def forward(self, x):
        both = self.words(x) + self.places(torch.arange(x.shape[1])[None])
        return self.head(torch.tanh(self.hidden(both)).mean(1))


MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3, bias=False)),
        lambda rows: torch.randn(rows, 5),
    ),
    "words": (Words, lambda rows: torch.randint(20, (rows, 7))),
    "images": (Images, lambda rows: torch.randn(rows, 1, 6, 6)),
    "positions": (Positions, lambda rows: torch.randint(20, (rows, 7))),
}


def made(name, mode, **options):
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    base = make()
    return base, turnover.wrap(base, mode=mode, **options), inputs(6), torch.randint(3, (6,))


def step(model, x, y, ids=IDS, optimizer=SGD, steps=1):
    return train(model.train(), [(x, y, ids)] * steps, optimizer)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_every_module_that_learns_is_a_site_and_the_last_is_masked_at_its_input(name, mode):
    base, _, x, _ = made(name, mode)
    plan = turnover.plan(base, mode=mode, example=x)
    learning = [path for path, module in base.named_modules() if list(module.parameters(recurse=False))]
    assert [site.path for site in plan.sites] == learning
    assert [site.place for site in plan.sites] == ["output"] * (len(learning) - 1) + ["input"]
    assert plan.sites[-1].width == base.get_submodule(learning[-1]).in_features
    assert [site.width for site in turnover.plan(base, mode=mode).sites] == [site.width for site in plan.sites]
    assert plan.leaks == ()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", [SGD, ADAM], ids=["sgd", "adam"])
def test_a_step_on_an_instance_leaves_its_flipped_network_bit_for_bit(name, mode, optimizer):
    _, model, x, y = made(name, mode)
    step(model, x, y, steps=2)  # so that the weights differ from the start

    def outputs():
        return [run(model.eval(), x[:1], IDS[:1], view) for view in ("flip", "keep")]

    flip, keep = outputs()
    step(model, x[:1], y[:1], IDS[:1], optimizer)
    assert torch.equal(outputs()[0], flip)
    assert not torch.equal(outputs()[1], keep)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", MODELS)
def test_the_audit_sees_no_leak(name, mode):
    _, model, x, y = made(name, mode)
    step(model, x, y)
    report = turnover.audit(model, (x, y, IDS))
    assert report.leaks == ()
    assert report.share == 0


@pytest.mark.parametrize("name", MODELS)
def test_backward_trains_the_full_network_forward(name):
    base, model, x, _ = made(name, "backward")
    with turnover.instances(IDS):
        torch.testing.assert_close(model.train()(x), base(x))


@pytest.mark.parametrize("name", MODELS)
def test_mixout_starts_as_the_model_it_was_given_in_every_view(name):
    base, model, x, _ = made(name, "mixout")
    model.eval()
    for view in ("keep", "flip", "full"):
        torch.testing.assert_close(run(model, x, IDS, view), base(x))


def test_mixout_is_the_start_plus_the_masked_difference():
    base, model, x, y = made("mlp", "mixout")
    step(model, x, y, steps=3)
    model.eval()
    with torch.no_grad(), turnover.instances(IDS) as now:
        factors = now.factors(Site(masking_of(model), 0), x, 24)
        found = model[0](x)
        model(x)  # all sites must run in the context
    start, trained = base[0](x), nn.functional.linear(x, model[0].weight, model[0].bias)
    torch.testing.assert_close(found, start + factors * (trained - start))


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_of_one_is_expanded_and_scores_equal_those_of_repeated_rows(mode):
    _, model, x, y = made("mlp", mode)
    step(model, x, y, steps=3)
    model.eval()
    many = torch.arange(50)
    expanded = run(model, x[:1], many, "flip")
    torch.testing.assert_close(expanded, run(model, x[:1].repeat(50, 1), many, "flip"))
    scores = turnover.Influence(model).pairwise((x[:2], y[:2]), ids=many)
    keep, flip = (run(model, x[:1], many, view) for view in ("keep", "flip"))
    losses = [cross_entropy(out, y[:1].expand(50), reduction="none") for out in (flip, keep)]
    expected = (losses[0] - losses[1]).numpy() - scores.offset[0]
    assert abs(scores.values[:, 0] - expected).max() < 1e-4


@pytest.mark.parametrize("mode", MODES)
def test_unwrap_gives_the_trained_network(mode):
    _, model, x, y = made("words", mode)
    step(model, x, y)
    plain = turnover.unwrap(model).eval()
    assert not [name for name, _ in plain.named_buffers()]
    torch.testing.assert_close(plain(x), model.eval()(x))


def test_a_copy_has_a_start_of_its_own():
    _, model, x, y = made("mlp", "mixout")
    twin = copy.deepcopy(model)
    step(model, x, y)
    assert not torch.equal(model[0].weight, twin[0].weight)
    start = [buffer for name, buffer in twin.named_buffers() if "start" in name]
    assert torch.equal(start[0], twin[0].weight)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "sideways"}, "mode='sideways' is unknown"),
        ({"mode": "mixout", "replicas": 4}, "cannot have replicas"),
        ({"mode": "backward", "adapters": 8}, "needs no adapters"),
        ({"mode": "mixout", "at": ["1"]}, "'1' is a ReLU"),
    ],
)
def test_what_does_not_go_together_is_named(options, message):
    with pytest.raises(PlanError, match=message):
        turnover.wrap(MODELS["mlp"][0](), **options)


def test_a_layer_that_learns_without_a_site_is_named_as_a_leak():
    _, model, x, y = made("mlp", "mixout", at=["2", "4"])
    assert {leak.name for leak in turnover.audit(step(model, x, y), (x, y, IDS)).leaks} == {"0.weight", "0.bias"}


@pytest.mark.parametrize("mode", MODES)
def test_of_what_is_computed_once_a_batch_each_row_trains_its_own_units_alone(mode):
    _, model, x, y = made("positions", mode)
    before = model.places.weight.detach().clone()
    step(model, x[:1], y[:1], torch.tensor([3]))
    (changed,) = torch.where((model.places.weight != before).any(0))
    alone = set(changed.tolist())
    _, model, x, y = made("positions", mode)
    with turnover.instances([3, 3]):
        model.train()
        model(x[:2])[0].sum().backward()
    (reached,) = torch.where((model.places.weight.grad != 0).any(0))
    assert set(reached.tolist()) == alone
    assert 2 < len(alone) < 14


@pytest.mark.parametrize("mode", MODES)
def test_tied_weights_are_rejected_unless_they_are_frozen(mode):
    net = Words()
    net.head = nn.Linear(16, 20, bias=False)
    net.hidden = nn.Linear(16, 16)
    net.head.weight = net.embedding.weight
    with pytest.raises(PlanError, match=r"'head.weight' is tied to 'embedding.weight'.*Untie them"):
        turnover.wrap(net, mode=mode)
    net.embedding.weight.requires_grad_(False)
    assert turnover.wrap(net, mode=mode) is not None


def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces another library
        return torch.ao.quantization.quantize_dynamic(MODELS["mlp"][0](), {nn.Linear})
