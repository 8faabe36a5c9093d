"""What `turnover.instances` takes, what it rejects, and `repeat`."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import turnover
from tests.layers.models import run, wrapped_mlp
from tests.plain_ids import plain_str
from turnover.errors import (
    BatchSizeError,
    InstanceIdError,
    InstancesError,
)
from turnover.layers import masking_of

SAME = {
    "list": [3, 4, 5],
    "range": range(3, 6),
    "tuple": (3, 4, 5),
    "generator": iter([3, 4, 5]),
    "list of tensors": list(torch.tensor([3, 4, 5])),
    "list of numpy ints": list(np.array([3, 4, 5])),
    "int64 array": np.array([3, 4, 5]),
    "uint8 array": np.array([3, 4, 5], dtype=np.uint8),
    "uint64 array": np.array([3, 4, 5], dtype=np.uint64),
    "big-endian array": np.array([3, 4, 5], dtype=">i4"),
    "strided array": np.array([3, 0, 4, 0, 5])[::2],
    "read-only array": np.frombuffer(np.array([3, 4, 5]).tobytes(), dtype=np.int64),
    "int64 tensor": torch.tensor([3, 4, 5]),
    "int32 tensor": torch.tensor([3, 4, 5], dtype=torch.int32),
    "uint8 tensor": torch.tensor([3, 4, 5], dtype=torch.uint8),
    "uint64 tensor": torch.tensor([3, 4, 5], dtype=torch.uint64),
    "strided tensor": torch.tensor([3, 0, 4, 0, 5])[::2],
}

BAD = {
    "float list": ([1.0, 2.0], "must be integers in [0, 2**63), got float64"),
    "float tensor": (torch.tensor([1.0]), "must be integers in [0, 2**63), got torch.float32"),
    "half tensor": (torch.tensor([1.0]).half(), "must be integers in [0, 2**63), got torch.float16"),
    "complex tensor": (torch.tensor([1j]), "must be integers in [0, 2**63), got torch.complex64"),
    "bool list": ([True, False], "must be integers in [0, 2**63), got bool"),
    "bool tensor": (torch.tensor([True]), "must be integers in [0, 2**63), got torch.bool"),
    "strings": (["a", "b"], "must be integers in [0, 2**63), got <U1"),
    "one string": ("ab", "must be integers in [0, 2**63), got <U1"),
    "None in a list": ([1, None], "must be integers in [0, 2**63), got object"),
    "None": (None, "got None"),
    "a number": (7, "got 7"),
    "negative": ([3, -2], "got -2."),
    "negative tensor": (torch.tensor([3, -7]), "got -7."),
    "two dimensions": (torch.zeros(2, 3, dtype=torch.long), "got shape [2, 3]. Give one for every row of the batch"),
    "two dimensions, list": ([[1, 2], [3, 4]], "got shape [2, 2]"),
    "no dimension": (torch.tensor(3), "got shape []"),
    "no dimension, array": (np.array(3), "got shape []"),
    "ragged": ([[1], [2, 3]], "got a ragged list"),
    "empty list": ([], "got an empty list"),
    "empty tensor": (torch.tensor([], dtype=torch.long), "got an empty list"),
    "2**63": ([1, 2**63], f"got {2**63}."),
    "2**64": ([2**64 + 1], f"got {2**64 + 1}."),
    "uint64 array": (np.array([1, 2**63], dtype=np.uint64), f"got {2**63}."),
    "uint64 tensor": (torch.tensor([1, 2**63], dtype=torch.uint64), f"got {2**63}."),
    "set": ({3, 4, 5}, "got a set. Give one for every row of the batch, in the order of the rows"),
    "dict": ({3: "a", 4: "b"}, "got a dict"),
    "bytes": (b"345", "got a bytes"),
    "bool beside integers": ([True, 4, 5], "instance ids must be integers in [0, 2**63), got bool"),
    "masked array": (np.ma.array([3, 4], mask=[True, False]), "got a masked array"),
    "sparse tensor": (torch.arange(3).to_sparse(), "got a nested or sparse tensor"),
    "meta tensor": (torch.arange(3, device="meta"), "got a meta tensor"),
}


@pytest.mark.parametrize("ids", SAME.values(), ids=SAME)
def test_every_form_of_ids_gives_the_same_masks(ids):
    model = wrapped_mlp().eval()
    x = torch.randn(3, 6)
    expected = run(model, x, torch.tensor([3, 4, 5]))
    assert torch.equal(run(model, x, ids), expected)


@pytest.mark.parametrize(("ids", "message"), BAD.values(), ids=BAD)
def test_bad_ids_raise_and_say_what_was_given(ids, message):
    with pytest.raises(InstanceIdError, match=re.escape(message)):
        turnover.instances(ids)


@pytest.mark.parametrize("view", ["keep", "flip"])
def test_null_ids_are_never_trained_but_may_be_looked_at(view):
    model = turnover.wrap(torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU()), at=["1"])
    with (
        pytest.raises(InstanceIdError, match=rf"instance id {2**62 + 5} must be below 2\*\*62 in training"),
        turnover.instances([1, 2**62 + 5], view=view),
    ):
        model(torch.randn(2, 3))
    assert masking_of(model).learned.passes == 0
    with turnover.instances([1, 2**62 + 5], view=view):
        assert model.eval()(torch.randn(2, 3)).shape == (2, 8)


@given(st.lists(st.integers(0, 2**62 - 1), min_size=1, max_size=6))
def test_any_62_bit_ids_also_repeated_are_taken_as_they_are(ids):
    assert turnover.instances(ids).ids.tolist() == ids


def test_repeated_ids_have_the_same_mask():
    model = wrapped_mlp().eval()
    x = torch.randn(1, 6).expand(4, 6)
    output = run(model, x, [9, 2**62 - 1, 9, 2**62 - 1])
    torch.testing.assert_close(output[:2], output[2:])
    assert not torch.allclose(output[0], output[1])


def test_the_number_of_ids_must_be_that_of_the_rows():
    model = wrapped_mlp().train()
    message = r"3 instance ids, but site 'relu1' got a batch of 4 rows \(shape \[4, 40\], batch in dimension 0\)"
    with pytest.raises(BatchSizeError, match=message):
        run(model, torch.randn(4, 6), [1, 2, 3])


@pytest.mark.parametrize(
    ("view", "message"),
    [
        ("kept", "`view` must be 'keep', 'flip' or 'full', or a list with one of them for every id (2), got 'kept'"),
        ("", "for every id (2), got ''"),
        (None, "for every id (2), got None"),
        (3, "for every id (2), got 3"),
        (["keep"], "for every id (2), got 1 entries"),
        ([], "for every id (2), got []"),
        (["keep", "kept"], "got 2 entries, among them 'kept'"),
        (["keep", None], "among them None"),
        (torch.tensor([0, 1]), "among them tensor(0)"),
        (np.array([["keep"], ["flip"]]), "one of them for every id"),
    ],
)
def test_bad_views_raise_and_say_what_was_given(view, message):
    with pytest.raises(InstancesError, match=re.escape(message)):
        turnover.instances([1, 2], view=view)


@pytest.mark.parametrize("view", [("keep", "flip"), np.array(["keep", "flip"]), iter(["keep", "flip"])], ids=plain_str)
def test_views_may_come_in_any_sequence(view):
    model = wrapped_mlp().eval()
    x = torch.randn(2, 6)
    expected = run(model, x, [1, 2], view=["keep", "flip"])
    assert torch.equal(run(model, x, [1, 2], view=view), expected)


def test_repeat_gives_targets_back_after_a_forward_pass():
    model = wrapped_mlp().train()
    targets = torch.arange(3)
    with turnover.instances([1, 2, 3]) as now:
        model(torch.randn(3, 6))
        assert now.repeat(targets) is targets
    assert now.repeat(targets) is targets


def _repeated(rows):
    model = turnover.wrap(torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU()), at=["1"], replicas=2)
    with turnover.instances([1, 2]) as now:
        model(torch.randn(2, 3))
        return now.repeat(rows)


@pytest.mark.parametrize("rows", [np.array([0, 1]), [0, 1], ("a", "b"), "ab", {"y": [0, 1]}], ids=repr)
def test_targets_that_repeat_cannot_repeat_are_rejected(rows):
    with pytest.raises(InstancesError, match=r"without tensors.*now\.repeat\(torch\.as_tensor\(y\)\)"):
        _repeated(rows)


def test_repeat_leaves_what_has_no_rows_as_it_is():
    assert _repeated(None) is None
    assert _repeated({"y": torch.tensor([0, 1]), "weight": torch.tensor(3.0)})["weight"].shape == ()


def test_repeat_before_a_forward_pass_raises():
    message = r"before a forward pass.*Call the model first"
    with turnover.instances([1, 2, 3], view="full") as now, pytest.raises(InstancesError, match=message):
        now.repeat(torch.arange(3))


def test_a_context_can_be_entered_again():
    model = wrapped_mlp().train()
    x = torch.randn(3, 6)
    now = turnover.instances([1, 2, 3])
    with now:
        expected = model(x)
    with now:
        with pytest.raises(InstancesError):
            now.repeat(x)
        assert torch.equal(model(x), expected)


def test_two_models_in_one_context_have_masks_of_their_own():
    first, second = wrapped_mlp(seed=1).eval(), wrapped_mlp(seed=2).eval()
    second.load_state_dict({k: v for k, v in first.state_dict().items() if "recipe" not in k}, strict=False)
    x = torch.randn(3, 6)
    alone = []
    for model in (first, second):
        alone.append(run(model, x, [1, 2, 3]))
    with turnover.instances([1, 2, 3]):
        assert torch.equal(first(x), alone[0])
        assert torch.equal(second(x), alone[1])
    assert not torch.allclose(*alone)


def test_only_training_passes_with_kept_rows_are_counted():
    model = wrapped_mlp()
    passes = masking_of(model).learned
    x = torch.randn(2, 6)
    for training, view, expected in [
        (True, "keep", 1),
        (True, "flip", 1),
        (True, "full", 1),
        (True, ["flip", "full"], 1),
        (False, "keep", 1),
        (True, ["keep", "flip"], 2),
        (True, "keep", 3),
    ]:
        run(model.train(training), x, [1, 2], view=view)
        assert passes.passes == expected
