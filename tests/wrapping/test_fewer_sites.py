"""Scoring with the masks of the top blocks only."""

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from tests.wrapping.models import ADAM, run, train
from turnover.errors import PlanError
from turnover.wrapping import only_at, top_sites

X, Y = torch.randn(3, 5, 16), torch.tensor([0, 1, 0])


def made(**options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    net = nn.Sequential(nn.TransformerEncoder(layer, 3), nn.Flatten(), nn.Linear(80, 2))
    model = turnover.wrap(net, **{"adapters": 8, **options})
    return train(model.train(), [(X, Y, torch.arange(3))] * 5, ADAM).eval()


@pytest.fixture(scope="module")
def model():
    return made()


def test_the_top_sites_are_those_of_the_last_blocks_and_of_the_head(model):
    top = top_sites(model, 1)
    assert top == ["0.layers.2.self_attn.adapter.activation", "0.layers.2.linear2.adapter.activation", "2.masked_input"]
    assert len(top_sites(model, 3)) == 7
    assert top_sites(model, 0) == ["2.masked_input"]


def test_all_sites_give_the_same_scores_as_the_model_itself(model):
    same = only_at(model, top_sites(model, 3))
    expected, found = (turnover.Influence(m).pairwise((X, Y), ids=range(9), progress=False) for m in (model, same))
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)


def test_masks_that_stay_are_the_trained_ones_and_the_others_are_gone(model):
    seen = {}
    for name, net in (("whole", model), ("head", only_at(model, ["2.masked_input"]))):
        handle = net[2].register_forward_pre_hook(
            lambda module, args, name=name: seen.update({name: args[0]}), prepend=False
        )
        run(net, X, range(3), "flip")
        handle.remove()
    dropped = seen["whole"] == 0
    assert 0.3 < dropped.float().mean() < 0.7
    assert torch.equal(seen["head"] == 0, dropped)
    hidden = turnover.unwrap(model)[:2](X)  # the full network below, doubled where the mask keeps
    torch.testing.assert_close(seen["head"], torch.where(dropped, 0.0, 2 * hidden))


def test_weights_are_shared_and_the_model_keeps_its_masks(model):
    top = only_at(model, top_sites(model, 1))
    assert {p.data_ptr() for p in top.parameters()} == {p.data_ptr() for p in model.parameters()}
    assert not torch.allclose(run(model, X, range(3), "flip"), run(top, X, range(3), "flip"))


def mlp(**options):
    return turnover.wrap(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *(
            (lambda model, n=n: top_sites(model, n), "3 blocks have masks. Give a number from 0")
            for n in (4, -1, True, "2")
        ),
        (lambda _: top_sites(mlp(at=["1"]), 1), r"no block .* Name the sites yourself: '1'"),
        (lambda model: only_at(model, ["x"]), r"`sites` must name sites of this model .*got 'x'"),
        (lambda model: only_at(model, []), "no site is given"),
        (lambda model: only_at(model, 3), r"`sites` must be a list of sites .*got 3"),
        (lambda model: only_at(model, "1"), r"`sites` must be a list of sites .*got '1'"),
        (lambda _: only_at(mlp(at=["1"], replicas=2), ["1"]), "replicas=1"),
        (lambda _: only_at(mlp(mode="mixout"), ["0"]), "mode='forward'"),
    ],
)
def test_sites_that_are_not_there_and_models_without_fewer_are_rejected(model, call, message):
    with pytest.raises(PlanError, match=message):
        call(model)
