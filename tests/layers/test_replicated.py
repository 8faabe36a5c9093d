"""A replicated module equals its copies, run one after the other."""

import copy

import pytest
import torch
from torch import nn

from turnover.errors import InstancesError
from turnover.layers.masking import Expansion, begin_model, end_model
from turnover.layers.replicas import Replicated

REPLICAS = 3
MODULES = {
    "linear": (lambda: nn.Linear(6, 5), (4, 6)),
    "linear without bias": (lambda: nn.Linear(6, 5, bias=False), (4, 6)),
    "linear on positions": (lambda: nn.Linear(6, 5), (4, 7, 6)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), (4, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), (4, 4, 8, 8)),
    "grouped conv2d": (lambda: nn.Conv2d(4, 6, 3, groups=2, bias=False), (4, 4, 8, 8)),
    "circular conv2d": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), (4, 4, 8, 8)),
    "conv3d": (lambda: nn.Conv3d(2, 4, 2), (4, 2, 4, 4, 4)),
    "transposed conv": (lambda: nn.ConvTranspose2d(4, 2, 2), (4, 4, 5, 5)),
    "layer norm": (lambda: nn.LayerNorm(6), (4, 6)),
    "batch norm": (lambda: nn.BatchNorm1d(6), (4, 6)),
    "bilinear of Sequential": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)), (4, 6)),
}


def copies_of(make):
    made = []
    for seed in range(REPLICAS):
        torch.manual_seed(seed)
        module = make()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn_like(parameter) / 10)
        made.append(module)
    return made


def loop(copies, x):
    return torch.cat([module(part) for module, part in zip(copies, x.chunk(REPLICAS), strict=True)])


def knowing(expands):
    return Expansion(REPLICAS, "here", expands)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
def test_a_replicated_module_equals_its_copies_in_outputs_and_gradients(name, training):
    make, shape = MODULES[name]
    copies = [module.train(training) for module in copies_of(make)]
    module = Replicated([copy.deepcopy(one) for one in copies], knowing(False))
    x = torch.randn(REPLICAS * shape[0], *shape[1:])
    expected, found = loop(copies, x), module(x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    direction = torch.randn_like(expected)
    (expected * direction).sum().backward()
    (found * direction).sum().backward()
    for path, parameter in module.named_parameters():
        each = torch.stack([one.get_parameter(path).grad for one in copies])
        torch.testing.assert_close(parameter.grad, each, rtol=1e-4, atol=1e-5)
    for path, buffer in module.named_buffers():
        torch.testing.assert_close(buffer, torch.stack([one.get_buffer(path) for one in copies]))


# What comes from a layer before it is in autocast's type.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_a_replicated_module_trains_under_autocast_as_its_copies_do(name, dtype):
    make, shape = MODULES[name]
    copies = copies_of(make)
    module = Replicated([copy.deepcopy(one) for one in copies], knowing(False))
    x = torch.randn(REPLICAS * shape[0], *shape[1:]).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected, found = loop(copies, x), module(x)
    # Under vmap torch computes in float32, whatever autocast says.
    assert found.dtype == expected.dtype or module._fast is None
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02, check_dtype=False)
    direction = torch.randn_like(expected)
    (expected * direction).sum().backward()
    (found * direction).sum().backward()
    for path, parameter in module.named_parameters():
        each = torch.stack([one.get_parameter(path).grad for one in copies])
        assert parameter.grad.dtype == torch.float32
        torch.testing.assert_close(parameter.grad, each, rtol=0.02, atol=0.05)


def test_autocast_leaves_modules_of_its_own_type_alone():
    module = Replicated(copies_of(lambda: nn.BatchNorm1d(6).bfloat16()), knowing(False))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = module(torch.randn(REPLICAS * 4, 6, dtype=torch.bfloat16))
    assert found.dtype == torch.bfloat16


def test_autocast_leaves_double_precision_alone():
    module = Replicated(copies_of(lambda: nn.Linear(6, 5).double()), knowing(False))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = module(torch.randn(REPLICAS * 4, 6, dtype=torch.float64))
    found.sum().backward()
    assert found.dtype == module.weight.grad.dtype == torch.float64


@pytest.mark.parametrize("name", ["linear", "linear on positions", "conv2d", "grouped conv2d", "layer norm"])
def test_rows_of_the_trunk_are_expanded_and_get_the_mean_gradient(name):
    make, shape = MODULES[name]
    copies = copies_of(make)
    module = Replicated([copy.deepcopy(one) for one in copies], knowing(True))
    x = torch.randn(shape, requires_grad=True)
    found = module(x)
    expected = torch.cat([one(x) for one in copies])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    direction = torch.randn_like(expected)
    (mean_gradient,) = torch.autograd.grad((expected * direction).sum() / REPLICAS, x)
    (gradient,) = torch.autograd.grad((found * direction).sum(), x)
    torch.testing.assert_close(gradient, mean_gradient, rtol=1e-4, atol=1e-5)


def test_attention_with_two_trunk_inputs_and_a_mask_for_all_equals_its_copies():
    copies = copies_of(lambda: nn.MultiheadAttention(8, 2, batch_first=True))
    module = Replicated([copy.deepcopy(one) for one in copies], knowing(True))
    x, forbidden = torch.randn(4, 5, 8), torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    found, weights = module(x, x, x, attn_mask=forbidden, need_weights=False)
    expected = torch.cat([one(x, x, x, attn_mask=forbidden, need_weights=False)[0] for one in copies])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert weights is None


def test_one_replica_as_a_plain_module_shares_its_weights():
    module = Replicated(copies_of(lambda: nn.Linear(6, 5)), knowing(False))
    one = module.replica(1)
    x = torch.randn(4, 6)
    with torch.no_grad():
        module.weight[1].add_(1)
    assert torch.equal(one.weight, module.weight[1])
    torch.testing.assert_close(one(x), module(x.repeat(3, 1))[4:8])


def test_whether_rows_are_expanded_is_learned_from_the_first_pass():
    first, second, parallel = (Expansion(4, name) for name in ("first", "second", "parallel"))
    begin_model(None)
    assert first.expands_at(torch.zeros(5, 2), training=False, ids=None)
    assert not second.expands_at(torch.zeros(20, 2), training=False, ids=None)
    assert parallel.expands_at(torch.zeros(5, 2), training=False, ids=None)
    assert end_model() == 5


def test_rows_that_are_no_replicas_are_a_named_error():
    expansion = knowing(False)
    with pytest.raises(InstancesError, match=r"'here' got a batch of 4 rows.*split='module'"):
        expansion.expands_at(torch.zeros(4, 2), training=False, ids=None)
