"""BatchNorm statistics re-estimated in full view."""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import turnover
from tests.reference.recalibrate_twin import twin_statistics
from turnover.errors import BatchError, ModelError, TurnOverWarning
from turnover.wrapping import has_batch_statistics, replica_models

IMAGES, LABELS = torch.randn(26, 3, 6, 6), torch.randint(0, 2, (26,))
DATA = TensorDataset(IMAGES, LABELS)
BATCHES = DataLoader(DATA, 8)
"""The last one is smaller."""


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 2, bias=False),
    )


def trained(at=("2", "5"), **options):
    model = turnover.wrap(network(), at=dict.fromkeys(at, "channels"), **options).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y, ids in DataLoader(turnover.with_instance_ids(DATA), 8):
        with turnover.instances(ids) as active:
            nn.functional.cross_entropy(model(x), active.repeat(y)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def batch_norms(model):
    return [part for part in model.modules() if isinstance(part, nn.BatchNorm2d)]


def statistics(model):
    return [(norm.running_mean, norm.running_var) for norm in batch_norms(model)]


@pytest.mark.parametrize(
    "made",
    [
        trained,
        partial(trained, replicas=3),
        partial(trained, at=("5",), replicas=3),
        partial(trained, at=("1", "4")),
        partial(turnover.wrap, network(), at=["3"], mode="mixout"),
    ],
    ids=["one model", "replicas", "replicas over a trunk", "masks on BatchNorm", "mixout"],
)
@pytest.mark.filterwarnings("ignore::turnover.errors.TurnOverWarning")
def test_statistics_are_the_means_over_batches_of_the_full_network(made):
    model = made()
    before = [tuple(value.clone() for value in pair) for pair in statistics(replica_models(model)[0])]
    plain = [turnover.unwrap(one) for one in replica_models(model)]
    expected = [twin_statistics(copy.deepcopy(one), [x for x, _ in BATCHES]) for one in plain]
    assert has_batch_statistics(model)
    assert turnover.recalibrate(model, BATCHES) == 2
    for one, own in zip(replica_models(model), expected, strict=True):
        assert [int(norm.num_batches_tracked) for norm in batch_norms(one)] == [4, 4]
        for found, wanted in zip(statistics(one), own, strict=True):
            torch.testing.assert_close(found, wanted, check_dtype=False, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(statistics(replica_models(model)[0])[1][1], before[1][1])


def test_loaders_with_ids_and_models_without_masks_do_as_well():
    model = trained()
    with_ids, plain = copy.deepcopy(model), turnover.unwrap(model)
    for one, loader in (
        (model, BATCHES),
        (with_ids, DataLoader(turnover.with_instance_ids(DATA), 8)),
        (plain, BATCHES),
    ):
        turnover.recalibrate(one, loader)
    for other in (with_ids, plain):
        for found, wanted in zip(statistics(other), statistics(model), strict=True):
            torch.testing.assert_close(found, wanted)


def test_modes_momentum_weights_and_active_instances_stay():
    model = trained().train()
    model[0].eval()
    modes = [part.training for part in model.modules()]
    weights = {name: value.clone() for name, value in model.named_parameters()}
    with turnover.instances(range(5), view="flip"):
        turnover.recalibrate(model, BATCHES)
        assert model.eval()(IMAGES[:5]).shape == (5, 2)
        model.train()
        model[0].eval()
    assert [part.training for part in model.modules()] == modes
    assert [norm.momentum for norm in batch_norms(model)] == [0.1, 0.1]
    assert all(torch.equal(value, weights[name]) for name, value in model.named_parameters())


def test_frozen_statistics_stay():
    model = trained().train()
    model[1].eval()
    mean = model[1].running_mean.clone()
    assert turnover.recalibrate(model, BATCHES) == 1
    assert torch.equal(model[1].running_mean, mean)


def test_a_model_without_batch_norm_is_told_so():
    model = turnover.wrap(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), at=["1"])
    with pytest.warns(TurnOverWarning, match="no BatchNorm"):
        assert turnover.recalibrate(model, (torch.randn(3, 4), torch.zeros(3))) == 0


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (DataLoader(TensorDataset(torch.randn(5, 4), torch.zeros(5)), 2), "batch of one row"),
        (DataLoader(TensorDataset(torch.randn(5, 3), torch.zeros(5)), 5), "shapes"),
        (DataLoader(TensorDataset(torch.randn(0, 4), torch.zeros(0))), "no rows"),
    ],
    ids=["one row", "other width", "empty"],
)
def test_statistics_are_as_before_where_a_batch_fails(loader, message):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2, bias=False))
    model = turnover.wrap(net, at=["2"], replicas=2)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises((BatchError, RuntimeError), match=message):
        turnover.recalibrate(model, loader)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ((IMAGES * torch.nan, LABELS), "the statistics of these rows are not finite"),
        ((IMAGES.index_fill(0, torch.tensor([3]), torch.inf), LABELS), "the statistics of these rows are not finite"),
        ((IMAGES[:, :2], LABELS), r"the model fails on a batch of the loader \(RuntimeError"),
        ((IMAGES.long(), LABELS), r"the model fails on a batch of the loader \(RuntimeError"),
        ({"nope": IMAGES}, r"the model fails on a batch of the loader \(TypeError"),
        ((IMAGES, LABELS, torch.arange(26)), r"\(TypeError.*a tuple by hand has no ids"),
        ([(IMAGES, LABELS)] * 2, r"the model fails on a batch of the loader \(RuntimeError"),
        (nn.Sequential(nn.ReLU()), "rows of type ReLU cannot be put together"),
        (None, "a NoneType holds no rows"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_rows_that_have_no_statistics_are_rejected_and_change_nothing(loader, message):
    model = trained()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(BatchError, match=message):
        turnover.recalibrate(model, loader)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("model", [None, 3, [network()], nn.Linear, DATA], ids=lambda model: type(model).__name__)
def test_what_is_no_model_is_rejected(model):
    with pytest.raises(ModelError, match=r"`model` must be a torch\.nn\.Module, got"):
        turnover.recalibrate(model, DATA)
