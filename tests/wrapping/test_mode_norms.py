"""BatchNorm in whole networks: statistics are gathered once per batch, by the module's mode, and named by the audit."""

from functools import partial

import pytest
import torch
from torch import nn

import turnover
from tests.wrapping.models import run, train
from turnover.layers import Site, masking_of

MODES = ("backward", "mixout")
IDS = torch.arange(6)
STATISTICS = ("1.running_mean", "1.running_var")


def images():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3, bias=False),
    )


def batch():
    torch.manual_seed(1)
    return torch.randn(6, 1, 6, 6), torch.randint(3, (6,))


def step(model, *, steps=1):
    return train(model, [(*batch(), IDS)] * steps, partial(torch.optim.SGD, lr=0.5))


@pytest.mark.parametrize("mode", MODES)
def test_statistics_are_gathered_once_a_batch_as_in_the_plain_model(mode):
    plain, model = images().train(), turnover.wrap(images(), mode=mode).train()
    plain(batch()[0])
    step(model)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(model[1].get_buffer(name), plain[1].get_buffer(name)), name
    assert model[1].num_batches_tracked == 1


@pytest.mark.parametrize("mode", MODES)
def test_evaluation_uses_what_was_gathered_and_gathers_nothing(mode):
    model = step(turnover.wrap(images(), mode=mode).train(), steps=3).eval()
    before = model[1].running_mean.clone()
    x, _ = batch()
    for view in ("keep", "flip"):  # by statistics of the batch, a row alone would be another
        torch.testing.assert_close(run(model, x[2:3], IDS[2:3], view), run(model, x, IDS, view)[2:3])
    assert torch.equal(model[1].running_mean, before)


def test_mixout_mixes_what_both_weights_make_of_the_same_statistics():
    model = step(turnover.wrap(images(), mode="mixout").train(), steps=3).eval()
    norm = model[1]
    x = torch.randn(6, 8, 4, 4)
    normal = (x - norm.running_mean.view(-1, 1, 1)) / (norm.running_var.view(-1, 1, 1) + norm.eps).sqrt()
    with torch.no_grad(), turnover.instances(IDS) as now:
        found = norm(x)
        model(batch()[0])  # all sites must run in the context
        factors = now.factors(Site(masking_of(model), 1), x, 8)[:, :, None, None]
    weight, bias = norm.weight.view(-1, 1, 1), norm.bias.view(-1, 1, 1)  # at the start 1 and 0
    torch.testing.assert_close(found, normal + factors * (weight * normal + bias - normal))
    assert (norm.weight - 1).abs().min() > 0


@pytest.mark.parametrize("mode", MODES)
def test_the_audit_and_the_plan_name_the_statistics_and_nothing_else(mode):
    x, y = batch()
    model = step(turnover.wrap(images(), mode=mode).train())
    for found in (
        turnover.audit(model, (x, y, IDS)).leaks,
        turnover.plan(images(), mode=mode).leaks,
        turnover.plan(images(), mode=mode, example=x).leaks,
    ):
        assert [(leak.name, leak.cause) for leak in found] == [(name, "BatchNorm statistics") for name in STATISTICS]


@pytest.mark.parametrize("mode", MODES)
def test_with_batch_norm_in_eval_mode_nothing_leaks_and_training_goes_on_as_the_mode_says(mode):
    x, y = batch()
    model = turnover.wrap(images(), mode=mode).train()
    model[1].eval()
    if mode == "backward":
        plain = images().train()
        plain[1].eval()
        with turnover.instances(IDS):
            torch.testing.assert_close(model(x), plain(x))
    before = model[1].running_mean.clone(), model[1].weight.detach().clone()
    step(model)
    assert torch.equal(model[1].running_mean, before[0])
    assert not torch.equal(model[1].weight, before[1])
    assert turnover.audit(model, (x, y, IDS)).clean
