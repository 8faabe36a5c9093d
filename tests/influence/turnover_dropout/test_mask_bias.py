"""What masks say by themselves is measured on other rows and taken off, as its slow twin says."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import turnover
from tests.influence.models import Cat, ResNet, mlp, trained
from tests.reference.mask_bias_twin import twin_without_masks
from turnover.batches import Batch
from turnover.errors import InfluenceError
from turnover.influence.turnover_dropout._mask_bias import _spread
from turnover.wrapping import replica_models


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
    found = turnover.Influence(model, estimator="tod", train=(x, y, torch.tensor(ids))).out_of_sample(references=5)
    expected, share = twin_without_masks(model, x, ids, [0, 4, 8, 12, 18], classes=True)
    assert 0.05 < share < 1
    np.testing.assert_allclose(found.probs, _softmax(expected), atol=1e-5)
    assert found.path == "flipped view of each row, mask-bias correction by 5 reference examples"


def test_outputs_of_a_regression_are_not_compared_with_each_other():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1", "3"], seed=4)
    x, y, ids = torch.randn(12, 6), torch.randn(12, 3), torch.arange(12)
    found = turnover.Influence(model, estimator="tod", train=(x, y, ids)).out_of_sample(references=4)
    expected, _ = twin_without_masks(model, x, ids.tolist(), [0, 2, 6, 10], classes=False)
    np.testing.assert_allclose(found.probs, expected, atol=1e-5)


def test_every_replica_has_its_own_masks():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1"], replicas=3)
    x, y, ids = torch.randn(30, 6), torch.arange(30) % 3, torch.arange(30)
    together = turnover.Influence(model, estimator="tod", train=(x, y, ids)).out_of_sample(references=6)
    parts = [turnover.Influence(part, estimator="tod", train=(x, y, ids)) for part in replica_models(model)]
    apart = np.concatenate([part.out_of_sample(references=6).replicas for part in parts])
    np.testing.assert_allclose(together.replicas, apart, atol=1e-5)


def test_predictions_of_ones_own_are_made_of_corrected_outputs():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1", "3"], seed=4)
    data = (torch.randn(12, 6), torch.arange(12) % 3, torch.arange(12))
    inf = turnover.Influence(model, estimator="tod", train=data)
    found = inf.out_of_sample(references=4, predict=lambda outputs: outputs.softmax(-1)[:, :2])
    np.testing.assert_allclose(found.probs, inf.out_of_sample(references=4).probs[:, :2], atol=1e-6)


def test_the_answer_on_a_row_does_not_depend_on_which_others_are_asked_about():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1", "3"], seed=4)
    x, y, ids = torch.randn(40, 6), torch.arange(40) % 3, torch.arange(40)
    inf = turnover.Influence(model, estimator="tod", train=(x, y, ids))
    whole = inf.out_of_sample(references=6).probs
    one_class = y == 1
    some = inf.out_of_sample((x[one_class], y[one_class], ids[one_class]), references=6)
    np.testing.assert_allclose(some.probs, whole[one_class.numpy()], atol=1e-6)
    alone = inf.out_of_sample((x[3:4], y[3:4], ids[3:4]), references=6)
    np.testing.assert_allclose(alone.probs, whole[3:4], atol=1e-6)
    assert not np.allclose(alone.probs, inf.out_of_sample((x[3:4], y[3:4], ids[3:4])).probs, atol=1e-3)


def test_models_of_an_ensemble_are_corrected_each_by_itself():
    torch.manual_seed(0)
    models = [trained(mlp(), at=["1"], seed=seed) for seed in (1, 2)]
    data = (torch.randn(20, 6), torch.arange(20) % 3, torch.arange(20))
    together = turnover.Influence(models, estimator="tod", train=data).out_of_sample(references=5)
    apart = [
        turnover.Influence(model, estimator="tod", train=data).out_of_sample(references=5).replicas for model in models
    ]
    np.testing.assert_allclose(together.replicas, np.concatenate(apart), atol=1e-6)


def test_one_logit_for_two_classes_is_corrected():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    model = trained(net, at=["1", "3"], seed=4)
    x, y, ids = torch.randn(16, 6), torch.arange(16) % 2, torch.arange(16)
    found = turnover.Influence(model, estimator="tod", train=(x, y, ids)).out_of_sample(references=4)
    expected, share = twin_without_masks(model, x, ids.tolist(), [0, 4, 8, 14], classes=True)
    assert share > 0.05
    np.testing.assert_allclose(found.probs[:, 1], torch.from_numpy(expected[:, 0]).sigmoid().numpy(), atol=1e-5)


def test_modes_of_the_model_are_as_before():
    model = trained(mlp(), at=["1"], replicas=2).train()
    data = (torch.randn(8, 6), torch.arange(8) % 3, torch.arange(8))
    turnover.Influence(model, estimator="tod", train=data).out_of_sample(references=2)
    assert all(part.training for part in model.modules())


def test_references_are_spread_over_the_data_in_one_pass():
    class Rows:
        ids = torch.arange(1000)

        def batches(self):
            for part in torch.arange(1000).split(64):
                yield Batch((part,), {}, None, part, len(part))

    found = [int(one.args[0]) for one in _spread(Rows(), 10)]
    assert len(found) == 10
    assert found[0] == 0
    assert found[-1] > 900
    assert max(np.diff(found)) <= 2 * min(np.diff(found))


def test_an_iterator_is_refused_by_name():
    inf = turnover.Influence(trained(mlp(), at=["1"]))
    rows = iter([(torch.randn(6), torch.tensor(0), torch.tensor(0))])
    with pytest.raises(InfluenceError, match="reads the rows twice"):
        inf.out_of_sample(rows, references=4)


class _Labeled(nn.Module):
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
    blank = turnover.wrap(_Labeled(labels, torch.zeros(60, 256)), at={"units": "features"}, seed=1)
    with turnover.instances(ids), torch.no_grad():
        seen = []
        blank.get_submodule("units").register_forward_hook(lambda *now: seen.append(now[2]))
        blank(torch.zeros(60, 3))
    model = trained(_Labeled(labels, seen[0] > 0), at={"units": "features"}, seed=1)
    x = 4.0 * functional.one_hot(labels, 3).float() + 0.1 * torch.randn(60, 3)  # the rows themselves say the label
    inf = turnover.Influence(model, estimator="tod", train=(x, labels, ids))
    plain, corrected = inf.out_of_sample(), inf.out_of_sample(references=30)
    assert (plain.probs.argmax(1) == labels.numpy()).mean() < 0.5
    assert (corrected.probs.argmax(1) == labels.numpy()).mean() > 0.95


@pytest.mark.parametrize("references", [-1, 1, 2.5, "all", True, None])
def test_what_is_no_number_of_references_is_refused(references):
    inf = turnover.Influence(
        trained(mlp(), at=["1"]), estimator="tod", train=(torch.randn(4, 6), torch.arange(4) % 3, torch.arange(4))
    )
    with pytest.raises(InfluenceError, match="must be 0, as in the paper, or an integer >= 2"):
        inf.out_of_sample(references=references)


def test_one_row_has_no_other_to_compare_with():
    data = (torch.randn(1, 6), torch.tensor([1]), torch.tensor([0]))
    with pytest.raises(InfluenceError, match="needs two rows or more, and the data has 1"):
        turnover.Influence(trained(mlp(), at=["1"]), estimator="tod", train=data).out_of_sample(references=8)


def test_a_reference_on_which_the_network_fails_is_left_out():
    torch.manual_seed(0)
    model = trained(mlp(), at=["1", "3"], seed=4)
    x, y, ids = torch.randn(20, 6), torch.arange(20) % 3, torch.arange(20)
    x[18] = torch.nan
    found = turnover.Influence(model, estimator="tod", train=(x, y, ids)).out_of_sample(references=5).probs
    assert np.isnan(found[18]).all()
    expected, _ = twin_without_masks(model, x, ids.tolist(), [0, 4, 8, 12], classes=True)
    np.testing.assert_allclose(found[:18], _softmax(expected[:18]), atol=1e-5)


def test_outputs_of_many_positions_are_refused():
    model = trained(nn.Sequential(nn.Embedding(9, 8), nn.ReLU(), nn.Linear(8, 9)), at=["1"])
    data = (torch.randint(9, (6, 5)), torch.randint(9, (6, 5)), torch.arange(6))
    inf = turnover.Influence(model, estimator="tod", train=data)
    with pytest.raises(InfluenceError, match=r"references=3 needs one vector of outputs per row, .* \[5, 9\]"):
        inf.out_of_sample(references=3)
