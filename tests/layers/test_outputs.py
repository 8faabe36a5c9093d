"""What a masked module may return: widths, tuples, mappings, and what cannot carry a mask."""

from collections import OrderedDict, namedtuple
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import turnover
from tests.layers.models import IDS, run, watched
from tests.reference import forward_twin
from turnover.errors import InstancesError
from turnover.masks import Counter

Pair = namedtuple("Pair", "values others rest")


class Returning(nn.Module):
    def __init__(self, make: Any) -> None:
        super().__init__()
        self.fc, self.site = nn.Linear(6, 8), Site(make)

    def forward(self, x: Tensor) -> Any:
        return self.site(self.fc(x))


class Site(nn.Module):
    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Any:
        return self.make(x)


def returned(make: Any) -> tuple[Any, Tensor]:
    model = turnover.wrap(Returning(make), at=["site"]).train()
    x = torch.randn(5, 6)
    return run(model, x), model.fc(x)


def masked(h: Tensor) -> Tensor:
    rows = [forward_twin.mask(h[i : i + 1], Counter(), "site", "features", 0.5, id, "keep") for i, id in enumerate(IDS)]
    return torch.cat(rows)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda h: (h, h + 1, "rest"), tuple),
        (lambda h: [h, h + 1, "rest"], list),
        (lambda h: Pair(h, h + 1, "rest"), Pair),
    ],
    ids=["tuple", "list", "namedtuple"],
)
def test_the_first_tensor_of_a_sequence_is_masked(make, kind):
    output, h = returned(make)
    assert type(output) is kind
    assert torch.equal(output[0], masked(h))
    assert torch.equal(output[1], h + 1)
    assert output[2] == "rest"


def test_a_tensor_and_the_first_of_a_torch_result_are_masked():
    output, h = returned(lambda h: h)
    assert torch.equal(output, masked(h))
    output, h = returned(lambda h: torch.sort(h, dim=1))
    assert torch.equal(output[0], masked(torch.sort(h, dim=1).values))


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_the_first_tensor_of_a_mapping_is_masked(kind):
    output, h = returned(lambda h: kind(name="x", hidden=h, other=h + 1))
    assert type(output) is kind
    assert list(output) == ["name", "hidden", "other"]
    assert torch.equal(output["hidden"], masked(h))
    assert torch.equal(output["other"], h + 1)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda h: None, "a NoneType"),
        (lambda h: (), "a tuple"),
        (lambda h: ("a", h), "a tuple"),
        (lambda h: [[h]], "a list"),
        (lambda h: {}, "a dict"),
        (lambda h: {"a": 1}, "a dict"),
        (lambda h: MappingProxyType({"a": h}), "a mappingproxy"),
        (lambda h: pack_padded_sequence(h[:, :, None], torch.ones(5), batch_first=True), "a PackedSequence"),
    ],
    ids=["None", "()", "str first", "nested", "{}", "no tensor", "read-only", "packed"],
)
def test_outputs_that_cannot_carry_a_mask_raise(make, kind):
    with pytest.raises(InstancesError, match=rf"site 'site' \(Site\) returned {kind}.*Choose the module that makes"):
        returned(make)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda h: h.long(), r"torch.int64 tensor of shape \[5, 8\]"),
        (lambda h: h > 0, r"torch.bool tensor of shape \[5, 8\]"),
        (lambda h: h.to(torch.complex64), r"torch.complex64 tensor of shape \[5, 8\]"),
        (lambda h: h.sum(1), r"torch.float32 tensor of shape \[5\]"),
        (lambda h: h.sum(), r"torch.float32 tensor of shape \[\]"),
    ],
    ids=["integer", "bool", "complex", "one dimension", "no dimension"],
)
@pytest.mark.parametrize("dim", ["features", "channels"])
def test_tensors_that_cannot_carry_a_mask_raise(make, shape, dim):
    model = turnover.wrap(Returning(make), at={"site": dim}).train()
    message = rf"site 'site' got a {shape}; masks on {dim} need a floating-point tensor with at least 2 dimensions"
    with pytest.raises(InstancesError, match=message):
        run(model, torch.randn(5, 6))


def test_a_four_dimensional_output_of_a_module_without_parameters_must_be_told():
    class Image(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.relu = nn.Conv2d(1, 3, 2), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.relu(self.conv(x))

    x = torch.randn(5, 1, 4, 4)
    model = turnover.wrap(Image(), at=["relu"])
    message = r"shape \[5, 3, 3, 3\]: are its units channels.*at=\{'relu': 'channels'\}"
    with pytest.raises(InstancesError, match=message):
        run(model, x)
    for dim in ("channels", "features"):
        model = turnover.wrap(Image(), at={"relu": dim})
        run(model, x)


class Wrong(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input)[..., :7]


def test_an_output_of_another_width_than_declared_raises():
    model = turnover.wrap(nn.Sequential(Wrong(6, 8), nn.ReLU()), at=["0"])
    with pytest.raises(InstancesError, match="site '0' has 7 units now and had 8 before"):
        run(model, torch.randn(5, 6))


@pytest.mark.parametrize("training", [True, False])
def test_a_width_that_changes_between_passes_raises(training):
    model = turnover.wrap(nn.Sequential(nn.Identity(), nn.ReLU()), at=["0", "1"]).train(training)
    run(model, torch.randn(5, 8))
    message = r"site '0' has 9 units now and had 8 before.*If this dimension is time or space"
    with pytest.raises(InstancesError, match=message):
        run(model, torch.randn(5, 9))


class Twice(nn.Module):
    def __init__(self, first: int, second: int) -> None:
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(6, first), nn.Linear(first, second), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.drop(self.a(x))
        return h, self.drop(self.b(h))


@pytest.mark.parametrize(("first", "second"), [(40, 40), (40, 20), (20, 40), (20, 100), (100, 20)])
def test_one_dropout_may_be_called_twice_also_with_two_widths(first, second):
    plain = Twice(first, second).eval()
    model = turnover.wrap(plain).train()
    x = torch.randn(5, 6)
    for _ in range(2):  # the second pass knows the first width already
        a, b = run(model, x)
        for i, id in enumerate(IDS):
            h = forward_twin.mask(plain.a(x[i : i + 1]), Counter(), "drop", "features", 0.5, id, "keep")
            torch.testing.assert_close(a[i : i + 1], h)
            h = forward_twin.mask(plain.b(h), Counter(), "drop", "features", 0.5, id, "keep")
            torch.testing.assert_close(b[i : i + 1], h)


def test_a_layer_called_twice_is_masked_twice():
    shared = nn.Linear(8, 8)
    model = turnover.wrap(nn.Sequential(shared, nn.ReLU(), shared), at=["0"])
    plain = turnover.unwrap(model)
    x = torch.randn(5, 8)
    found = run(model, x)

    def row(i: int, id: int) -> Tensor:
        h = forward_twin.mask(plain[0](x[i : i + 1]), Counter(), "0", "features", 0.5, id, "keep")
        return forward_twin.mask(plain[2](h.relu()), Counter(), "0", "features", 0.5, id, "keep")

    torch.testing.assert_close(found, torch.cat([row(i, id) for i, id in enumerate(IDS)]))


def test_the_width_of_a_bidirectional_rnn_is_known_in_advance():
    net = nn.LSTM(6, 5, bidirectional=True, batch_first=True)
    model = turnover.wrap(nn.ModuleDict({"rnn": net, "head": nn.Linear(10, 2)}), at=["rnn"])
    with watched(model, "rnn") as seen, turnover.instances(IDS):
        model["rnn"](torch.randn(5, 3, 6))
    assert seen["rnn"].shape == (5, 3, 10)
