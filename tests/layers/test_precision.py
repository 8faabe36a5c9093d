"""Masks are the same in every floating-point type, and the two ways to factors agree."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import turnover
from tests.layers.models import IDS, run, seen_at, watched, wrapped_mlp
from tests.reference import forward_twin
from turnover.layers.instances import factors_by_shift, factors_by_table
from turnover.masks import Counter, Stream

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def ones_mlp() -> nn.Module:
    """Weights that make every activation positive in every precision, so that only masks give zeros."""
    model = wrapped_mlp(keep=0.7).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.25)
    return model


def zero_patterns(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    seen = seen_at(model, ["relu1", "relu2"], x, view=["keep", "flip"] * 2 + ["keep"])
    return [seen[path] == 0 for path in ("relu1", "relu2")]


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_a_cast_model_has_the_bits_of_float32(dtype):
    expected = zero_patterns(ones_mlp(), torch.ones(5, 6))
    found = zero_patterns(ones_mlp().to(dtype), torch.ones(5, 6, dtype=dtype))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert all(0.1 < float(pattern.float().mean()) < 0.9 for pattern in expected)


def test_autocast_has_the_bits_of_float32():
    expected = zero_patterns(ones_mlp(), torch.ones(5, 6))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = zero_patterns(ones_mlp(), torch.ones(5, 6))
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_default_type_of_torch_changes_no_factor():
    words = torch.tensor([[5, -1]], dtype=torch.int32)
    expected = factors_by_shift(words, 40, torch.tensor([1]), 0.3, torch.float64)
    torch.set_default_dtype(torch.float16)
    try:
        found = factors_by_shift(words, 40, torch.tensor([1]), 0.3, torch.float64)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("keep", [0.1, 0.5, 0.7])
@pytest.mark.parametrize("view", [0, 1, 2])
def test_factors_equal_the_slow_twin_exactly(dtype, keep, view):
    (words,) = Counter(1).words(torch.tensor(IDS), [Stream("a", 45, keep)])
    name = ("keep", "flip", "full")[view]
    expected = torch.tensor(
        [forward_twin.unit_factors(Counter(1), "a", 45, keep, id, name) for id in IDS], dtype=torch.float64
    ).to(dtype)
    assert torch.equal(factors_by_table(words, 45, view, keep, dtype), expected)
    assert torch.equal(factors_by_shift(words, 45, torch.full((5,), view), keep, dtype), expected)


@given(
    words=st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=3, max_size=3), min_size=1, max_size=4),
    width=st.integers(65, 96),
    keep=st.floats(0.001, 0.999),
    dtype=st.sampled_from(DTYPES),
    data=st.data(),
)
def test_factors_by_table_equal_factors_by_shift(words, width, keep, dtype, data):
    packed = torch.tensor(words, dtype=torch.int32)
    codes = data.draw(st.lists(st.integers(0, 2), min_size=len(words), max_size=len(words)))
    views = torch.tensor(codes, dtype=torch.int32)
    by_shift = factors_by_shift(packed, width, views, keep, dtype)
    assert torch.equal(factors_by_table(packed, width, views, keep, dtype), by_shift)
    for code in set(codes):
        rows = views == code
        assert torch.equal(factors_by_table(packed[rows], width, code, keep, dtype), by_shift[rows])


def test_gradients_reach_kept_units_only():
    model = wrapped_mlp().train()
    with watched(model, "relu1") as seen, turnover.instances([3]):
        model(torch.randn(1, 6)).sum().backward()
    dropped = seen["relu1"][0] == 0
    assert torch.equal(model.fc1.weight.grad[dropped], torch.zeros(int(dropped.sum()), 6))
    assert model.fc2.weight.grad[:, dropped].abs().max() == 0
    assert model.fc2.weight.grad[:, ~dropped].abs().max() > 0


def test_masks_made_in_inference_mode_serve_a_training_pass_later():
    model = wrapped_mlp(keep=0.37)
    x = torch.randn(5, 6)
    with torch.inference_mode(), turnover.instances(IDS):
        inferred = model.eval()(x)
    trained = run(model.train(), x)
    trained.sum().backward()
    assert torch.equal(trained, inferred)


def test_inference_mode_inside_a_context_does_not_spoil_the_training_pass():
    model = wrapped_mlp().train()
    x = torch.randn(5, 6)
    with turnover.instances(IDS):
        with torch.inference_mode():
            inferred = model(x)
        trained = model(x)
    trained.sum().backward()
    assert torch.equal(trained, inferred)
