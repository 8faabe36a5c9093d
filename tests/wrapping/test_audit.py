"""The audit: what it says is what a real optimizer step does."""

import json
import re

import pytest
import torch
from torch import nn
from torch.nn import functional

import turnover
from tests.wrapping.models import run, train
from turnover.errors import ModelError


def clean_mlp(bias: bool = False) -> nn.Module:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3, bias=bias))
    return turnover.wrap(net, at=["1", "3"])


def batch(rows: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    return torch.randn(rows, 6), torch.randint(3, (rows,)), torch.arange(100, 100 + rows)


def flipped(model: nn.Module, instance: int) -> torch.Tensor:
    queries = torch.linspace(-2, 2, 300).view(50, 6)
    return run(model.eval(), queries, [instance] * len(queries), "flip")


@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, lr=0.5), lambda p: torch.optim.Adam(p, lr=0.01)])
def test_a_step_on_z_leaves_every_flip_output_of_z_bit_identical_in_a_clean_model(make):
    model = clean_mlp()
    assert turnover.audit(model, batch(1)).clean
    before_flip = flipped(model, 100)
    before_other = flipped(model, 101)
    train(model.train(), [batch(1)], make)
    assert torch.equal(before_flip, flipped(model, 100))
    assert not torch.equal(before_other, flipped(model, 101))


def test_with_an_output_bias_the_audit_names_that_bias_and_only_that_and_a_step_confirms_it():
    model = clean_mlp(bias=True)
    report = turnover.audit(model, batch(1))
    assert [(leak.name, leak.cause, leak.share) for leak in report.leaks] == [("4.bias", "bias without a mask", 1.0)]
    assert 0 < report.gradient_share < 1
    assert "4.bias (bias without a mask): use bias=False" in report.verdict
    before = flipped(model, 100)
    train(model.train(), [batch(1)])
    assert not torch.equal(before, flipped(model, 100))


def test_a_frozen_bias_does_not_leak():
    model = clean_mlp(bias=True)
    model[4].bias.requires_grad_(False)
    assert turnover.audit(model, batch()).clean


def causes(model: nn.Module, inputs: torch.Tensor, classes: int) -> dict[str, str]:
    rows = len(inputs)
    report = turnover.audit(model, (inputs, torch.arange(rows) % classes, torch.arange(rows)))
    return {leak.name: leak.cause for leak in report.leaks}


@pytest.mark.parametrize(
    ("layers", "at", "leaks"),
    [
        (
            lambda: [nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3, bias=False)],
            "3",
            {"0.weight": "before the first site", "0.bias": "before the first site"},
        ),
        (
            lambda: [nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 8, bias=False), nn.Tanh(), nn.Linear(8, 3, bias=False)],
            "1",
            {"4.weight": "no mask near"},
        ),
    ],
    ids=["before the first site", "without a mask on either side"],
)
def test_layers_that_no_mask_covers_leak(layers, at, leaks):
    assert causes(turnover.wrap(nn.Sequential(*layers()), at=[at]), torch.randn(4, 6), 3) == leaks


def test_a_function_that_does_not_keep_zero_leaks_into_the_next_weights():
    net = nn.Sequential(nn.Linear(6, 64), nn.Sigmoid(), nn.Linear(64, 3, bias=False))
    with pytest.warns(turnover.errors.TurnOverWarning, match="Sigmoid '1' follows"):
        wrapped = turnover.wrap(net, at=["0"])
    assert causes(wrapped, torch.randn(4, 6), 3) == {"2.weight": "zero is not kept"}


def test_normalization_embeddings_and_batch_statistics_are_named():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = nn.Embedding(20, 8), nn.LayerNorm(8)
            self.up, self.bn, self.act = nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU()
            self.head = nn.Linear(64, 3, bias=False)

        def forward(self, x):
            return self.head(self.act(self.bn(self.up(self.norm(self.embed(x).mean(1))))))

    model = turnover.wrap(Net(), at={"act": "features"}).train()
    found = causes(model, torch.randint(20, (6, 5)), 3)
    assert {cause for name, cause in found.items() if name.startswith("embed")} == {"embedding"}
    assert {cause for name, cause in found.items() if name.startswith("norm")} == {"normalization"}
    assert found["bn.running_mean"] == found["bn.running_var"] == "BatchNorm statistics"
    assert "bn.weight" not in found  # its channels are masked right behind it
    model.bn.eval()
    assert "bn.running_mean" not in causes(model, torch.randint(20, (6, 5)), 3)


def test_the_audit_changes_nothing():
    net = nn.Sequential(nn.Linear(6, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 3))
    model = turnover.wrap(net, at={"2": "features"}).train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    modes = [module.training for module in model.modules()]
    x, y, ids = torch.zeros(5, 6), torch.zeros(5, dtype=torch.int64), torch.arange(5)
    turnover.audit(model, (x, y, ids))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert modes == [module.training for module in model.modules()]
    assert all(p.grad is None for p in model.parameters())


def test_dict_batches_and_mean_losses_and_data_work():
    model = clean_mlp(bias=True)
    x, y, ids = batch()

    class Dicts(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model

        def forward(self, features):
            return {"logits": self.net(features)}

    report = turnover.audit(
        Dicts(), {"features": x, "labels": y, "instance_id": ids}, loss=functional.cross_entropy, rows=3
    )
    assert report.rows == 3
    data = json.loads(json.dumps(report.to_dict()))
    assert data["leaks"][0]["name"] == "4.bias"
    assert data["leaks"][0]["cure"] == "use bias=False, or freeze the bias"
    assert "4.bias" in str(report)
    assert "clipping by the global gradient norm" in str(report)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda x, y, ids: (x, y.float()), "the batch has no instance ids"),
        (lambda x, y, ids: {"x": x, "instance_id": ids}, "the batch has no targets"),
    ],
)
def test_a_batch_without_ids_or_targets_is_rejected(bad, message):
    with pytest.raises(ModelError, match=message):
        turnover.audit(clean_mlp(), bad(*batch()))


def test_a_plain_model_or_a_loss_without_gradient_is_rejected():
    with pytest.raises(ModelError, match="has no masks"):
        turnover.audit(nn.Linear(6, 3), batch())
    with pytest.raises(ModelError, match="has no gradient"):
        turnover.audit(clean_mlp(), batch(), loss=lambda outputs, targets: torch.tensor(1.0))


X, Y, IDS = batch()


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ((X, Y, IDS), {"rows": 0}, "rows must be an integer >= 1, got 0"),
        ((X, Y, IDS), {"rows": -1}, "rows must be an integer >= 1, got -1"),
        ((X, Y, IDS), {"rows": 1.5}, "rows must be an integer >= 1, got 1.5"),
        ((X, Y, IDS), {"rows": True}, "rows must be an integer >= 1, got True"),
        ((X, Y, IDS), {"rows": "all"}, "rows must be an integer >= 1, got 'all'"),
        ((X, Y, IDS), {"loss": "ce"}, "loss= must be a function, got 'ce'"),
        ((X, Y, IDS), {"loss": lambda outputs: outputs.sum()}, "the model or the loss fails on the batch"),
        ((X, Y + 7, IDS), {}, "fails on the batch (IndexError: Target"),
        ((X[:, :2], Y, IDS), {}, "fails on the batch (RuntimeError: mat1 and mat2"),
        ((X.long(), Y, IDS), {}, "fails on the batch (RuntimeError: mat1 and mat2"),
        ((X, Y[:, None], IDS), {}, "fails on the batch"),
        ({"x": X, "labels": Y, "instance_id": IDS}, {}, "fails on the batch (TypeError"),
        ((X * torch.nan, Y, IDS), {}, "the gradients of a row are not finite"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_cannot_be_measured_is_rejected_with_a_sentence(given, options, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        turnover.audit(clean_mlp(), given, **options)


@pytest.mark.parametrize("model", [None, 3, [clean_mlp()], nn.Linear], ids=lambda model: type(model).__name__)
def test_what_is_no_model_is_rejected(model):
    with pytest.raises(ModelError, match="has no masks"):
        turnover.audit(model, batch())
