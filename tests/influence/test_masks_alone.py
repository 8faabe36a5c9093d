"""What masks say by themselves is measured on other rows and taken off, as its slow twin says."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import turnover
from tests.influence.models import Cat, ResNet, mlp, trained
from tests.reference.masks_alone_twin import twin_without_masks
from turnover.errors import InfluenceError
from turnover.wrapping.build import replica_models


def _joined():
    """Return a model that cannot grow, in which masks matter."""
    model = Cat()
    with torch.no_grad():
        model.a.weight.mul_(5)
        model.b.weight.mul_(0.2)
    return model


def _softmax(outputs):
    return torch.from_numpy(outputs).softmax(-1).numpy()


@pytest.mark.parametrize(
    ("build", "at", "shape"),
    [(mlp, ["1", "3"], (6,)), (mlp, ["3"], (6,)), (_joined, ["act"], (6,)), (ResNet, {"act1": "channels"}, (3, 8, 8))],
    ids=["two layers", "last layer", "cannot grow", "residual"],
)
def test_predictions_equal_the_slow_twin(build, at, shape):
    torch.manual_seed(0)
    model = trained(build(), at=at, seed=4)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)  # so that masks matter
    x, y = torch.randn(20, *shape), torch.arange(20) % 3
    ids = [7, 7, *range(100, 118)]  # two rows of one group
    found = turnover.Influence(model, train=(x, y, torch.tensor(ids))).out_of_sample(references=5)
    expected, share = twin_without_masks(model, x, ids, [0, 4, 9, 14, 19], classes=True)
    assert 0.05 < share < 1
    np.testing.assert_allclose(found.probs, _softmax(expected), atol=1e-5)
    assert found.path == "flipped view of each row, without what its mask says of 5 others"


def test_outputs_of_a_regression_are_not_compared_with_each_other():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1", "3"], seed=4)
    x, y, ids = torch.randn(12, 6), torch.randn(12, 3), torch.arange(12)
    found = turnover.Influence(model, train=(x, y, ids)).out_of_sample(references=4)
    expected, _ = twin_without_masks(model, x, ids.tolist(), [0, 3, 7, 11], classes=False)
    np.testing.assert_allclose(found.probs, expected, atol=1e-5)


def test_every_replica_has_its_own_masks():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1"], replicas=3)
    x, y, ids = torch.randn(30, 6), torch.arange(30) % 3, torch.arange(30)
    together = turnover.Influence(model, train=(x, y, ids)).out_of_sample(references=6)
    parts = [turnover.Influence(part, train=(x, y, ids)) for part in replica_models(model)]
    apart = np.concatenate([part.out_of_sample(references=6).replicas for part in parts])
    np.testing.assert_allclose(together.replicas, apart, atol=1e-5)


def test_predictions_of_ones_own_are_made_of_corrected_outputs():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1", "3"], seed=4)
    data = (torch.randn(12, 6), torch.arange(12) % 3, torch.arange(12))
    inf = turnover.Influence(model, train=data)
    found = inf.out_of_sample(references=4, predict=lambda outputs: outputs.softmax(-1)[:, :2])
    np.testing.assert_allclose(found.probs, inf.out_of_sample(references=4).probs[:, :2], atol=1e-6)


def test_rows_that_are_given_are_corrected_by_training_rows():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1", "3"], seed=4)
    x, y = torch.randn(12, 6), torch.arange(12) % 3
    inf = turnover.Influence(model, train=(x, y, torch.arange(12)))
    one = inf.out_of_sample((x[:6] + 5, y[:6], torch.arange(6)), references=4)
    alone = turnover.Influence(model).out_of_sample((x[:6] + 5, y[:6], torch.arange(6)), references=4)
    assert not np.allclose(one.probs, alone.probs, atol=1e-4)


class _Labelled(nn.Module):
    """Has learned nothing but the label that goes with a mask."""

    def __init__(self, labels, bits):
        super().__init__()
        self.units = nn.Identity()
        weights = torch.zeros(3, bits.shape[1])
        for label, row in zip(labels.tolist(), bits.float(), strict=True):
            weights[label] += (row - 0.5) / 8
        self.weights = nn.Parameter(weights - weights.mean(1, keepdim=True))  # no class is likelier than another

    def forward(self, x):
        return x + self.units(torch.ones(len(x), self.weights.shape[1])) @ self.weights.T


def test_a_label_that_the_mask_alone_tells_is_not_held_against_its_row():
    torch.manual_seed(0)
    labels, ids = torch.arange(60) % 3, torch.arange(60)
    blank = turnover.wrap(_Labelled(labels, torch.zeros(60, 256)), at={"units": "features"}, seed=1)
    with turnover.instances(ids), torch.no_grad():
        seen = []
        blank.get_submodule("units").register_forward_hook(lambda *now: seen.append(now[2]))
        blank(torch.zeros(60, 3))
    model = trained(_Labelled(labels, seen[0] > 0), at={"units": "features"}, seed=1)
    x = 4.0 * functional.one_hot(labels, 3).float() + 0.1 * torch.randn(60, 3)  # the rows themselves say the label
    inf = turnover.Influence(model, train=(x, labels, ids))
    plain, corrected = inf.out_of_sample(), inf.out_of_sample(references=30)
    assert (plain.probs.argmax(1) == labels.numpy()).mean() < 0.5
    assert (corrected.probs.argmax(1) == labels.numpy()).mean() > 0.95


@pytest.mark.parametrize("references", [-1, 1, 2.5, "all", True])
def test_what_is_no_number_of_references_is_refused(references):
    inf = turnover.Influence(trained(mlp(), at=["1"]), train=(torch.randn(4, 6), torch.arange(4) % 3, torch.arange(4)))
    with pytest.raises(InfluenceError, match="Give 0, as in the paper, or 2 or more"):
        inf.out_of_sample(references=references)


def test_one_row_has_no_other_to_compare_with():
    data = (torch.randn(1, 6), torch.tensor([1]), torch.tensor([0]))
    inf = turnover.Influence(trained(mlp(), at=["1"]), train=data)
    np.testing.assert_allclose(inf.out_of_sample(references=8).probs, inf.out_of_sample().probs, atol=1e-6)


def test_a_reference_on_which_the_network_fails_is_left_out():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1", "3"], seed=4)
    x, y, ids = torch.randn(20, 6), torch.arange(20) % 3, torch.arange(20)
    x[19] = torch.nan
    found = turnover.Influence(model, train=(x, y, ids)).out_of_sample(references=5).probs
    expected, _ = twin_without_masks(model, x, ids.tolist(), [0, 4, 9, 14], classes=True)
    np.testing.assert_allclose(found[:19], _softmax(expected[:19]), atol=1e-5)


def test_outputs_of_many_positions_are_refused():
    model = trained(nn.Sequential(nn.Embedding(9, 8), nn.ReLU(), nn.Linear(8, 9)), at=["1"])
    data = (torch.randint(9, (6, 5)), torch.randint(9, (6, 5)), torch.arange(6))
    inf = turnover.Influence(model, train=data)
    with pytest.raises(InfluenceError, match=r"references=3 needs one vector of outputs a row, .* \[5, 9\]"):
        inf.out_of_sample(references=3)


def test_rows_of_a_stream_are_counted():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return ({"x": x[row], "labels": y[row], "instance_id": ids[row]} for row in range(12))

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp()

        def forward(self, x):
            return self.net(x)

    torch.manual_seed(0)
    x, y, ids = torch.randn(12, 6), torch.arange(12) % 3, torch.arange(12)
    model = trained(Named(), at=["net.1"])
    streamed = turnover.Influence(model, train=Stream()).out_of_sample(references=4)
    at_once = turnover.Influence(model, train={"x": x, "labels": y, "instance_id": ids}).out_of_sample(references=4)
    np.testing.assert_allclose(streamed.probs, at_once.probs, atol=1e-6)
