"""Copies of a wrapped model: the same bits, and a learned state of their own."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import turnover
from tests.layers.models import IDS, both_kinds, dropout_mlp, run, wrapped_mlp
from turnover.layers import masking_of


def pickled(model: nn.Module) -> nn.Module:
    return pickle.loads(pickle.dumps(model))


def saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = [copy.deepcopy, pickled, saved]


@pytest.mark.parametrize("make", [wrapped_mlp, dropout_mlp, both_kinds])
@pytest.mark.parametrize("duplicate", COPIES)
def test_a_copy_has_the_same_bits(make, duplicate):
    model = make().train()
    other = duplicate(model)
    x = torch.randn(5, 6)
    for view in ("keep", "flip"):
        expected = run(model, x, view=view)
        assert torch.equal(run(other, x, view=view), expected)


@pytest.mark.parametrize("duplicate", COPIES)
def test_a_copy_keeps_what_was_learned_and_learns_on_its_own(duplicate):
    model = turnover.wrap(nn.Sequential(nn.Linear(6, 8), nn.Identity()), at=["0", "1"]).train()
    x = torch.randn(5, 4, 6)
    run(model, x)
    other = duplicate(model)
    run(other.eval(), x)
    first, second = masking_of(model), masking_of(other)
    assert second.learned.batch_dims == [0, 0]
    run(other.train(), x)
    assert (first.learned.passes, second.learned.passes) == (1, 2)
    assert second.learned.widths == [8, 8]
    assert first is not second
    assert first.handle != second.handle
    assert other[0]._forward_hooks[next(iter(other[0]._forward_hooks))].site.masking is second


def test_a_moved_model_keeps_what_was_learned():
    model = turnover.wrap(nn.Sequential(nn.Linear(6, 8), nn.Identity()), at=["0", "1"]).train()
    run(model, torch.randn(5, 4, 6))
    model._apply(lambda tensor: tensor.clone())  # as .to(another device) does
    run(model.eval(), torch.randn(5, 4, 6))
    assert masking_of(model).learned.batch_dims == [0, 0]
    assert masking_of(model).learned.passes == 1


def test_a_model_may_vanish_inside_a_context():
    with turnover.instances(IDS):
        wrapped_mlp().train()(torch.randn(5, 6))


def test_functional_call_has_the_same_bits():
    model = wrapped_mlp().train()
    x = torch.randn(5, 6)
    expected = run(model, x)
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    with turnover.instances(IDS):
        assert torch.equal(torch.func.functional_call(model, weights, (x,)), expected)
    everything = {name: value.clone() for name, value in model.state_dict().items()}
    with turnover.instances(IDS):
        assert torch.equal(torch.func.functional_call(model, everything, (x,)), expected)
    assert torch.equal(run(model, x), expected)


def test_gradients_of_a_function_of_the_weights_are_right():
    model = wrapped_mlp().train()
    x = torch.randn(5, 6)
    weights = dict(model.named_parameters())

    def loss(values):
        return torch.func.functional_call(model, values, (x,)).square().sum()

    with turnover.instances(IDS):
        expected = torch.autograd.grad(loss(weights), list(weights.values()))
    with turnover.instances(IDS):
        found = torch.func.grad(loss)({name: value.detach() for name, value in weights.items()})
    for one, other in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(one, other)
