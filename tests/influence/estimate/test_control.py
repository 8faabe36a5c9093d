"""The linear control variate takes noise away and nothing else."""

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from tests.influence.models import bert, cnn, mlp, trained
from tests.plain_ids import plain_str
from turnover.batches import FIRST_RESERVED_ID

QUERIES = torch.randn(6, 6, generator=torch.Generator().manual_seed(2)), torch.arange(6) % 3
FRESH = torch.arange(FIRST_RESERVED_ID + 9000, FIRST_RESERVED_ID + 9500)  # never trained, and not among the null


def model(keep: float = 0.5) -> nn.Module:
    torch.manual_seed(0)
    return trained(mlp(64), at=["1", "3"], keep=keep)


@pytest.mark.parametrize("measure", ["loss", "probability", "margin", lambda o, t: o[:, 0]], ids=plain_str)
@pytest.mark.parametrize("against", ["keep", "full"])
def test_most_of_the_noise_of_fresh_ids_goes_away(measure, against):
    plain, less = (
        turnover.Influence(model(), measure=measure, against=against, control=control).pairwise(QUERIES, ids=FRESH)
        for control in (None, "linear")
    )
    assert less.values.std(0).mean() < 0.7 * plain.values.std(0).mean()
    assert np.allclose(less.values.std(0), less.null_spread, rtol=0.25)
    assert np.abs(less.values.mean(0)).max() < 5 * plain.null_spread.max() / np.sqrt(500)
    assert "linear control variate" in less.path


def test_a_network_that_is_linear_in_its_masks_has_no_noise_left():
    torch.manual_seed(0)
    linear = trained(nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 1)), at=["1"], keep=0.7)
    found = turnover.Influence(linear, measure=lambda o, t: o[:, 0], control="linear").pairwise(QUERIES, ids=FRESH)
    assert np.abs(found.values).max() < 1e-4
    assert turnover.Influence(linear, measure=lambda o, t: o[:, 0]).pairwise(QUERIES, ids=FRESH).values.std() > 1e-2


def test_only_the_flipped_sites_count_where_sites_are_named():
    plain, less = (
        turnover.Influence(model(), sites=["3"], control=control).pairwise(QUERIES, ids=FRESH)
        for control in (None, "linear")
    )
    assert less.values.std(0).mean() < 0.7 * plain.values.std(0).mean()


def test_every_route_takes_a_control():
    torch.manual_seed(0)
    last = trained(nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3)), at=["1"])
    images = torch.randn(2, 3, 9, 9), torch.tensor([0, 3])
    words = {"input_ids": torch.randint(50, (2, 7)), "labels": torch.tensor([0, 2])}
    cases = [
        (last, QUERIES, "last layer"),
        (trained(cnn(), at={"4": "channels"}), images, "broadcast"),
        (trained(bert(), at=["bert.encoder.layer.1.intermediate.intermediate_act_fn"]), words, "broadcast"),
    ]
    for net, queries, path in cases:
        plain, less = (
            turnover.Influence(net, control=control).pairwise(queries, ids=FRESH) for control in (None, "linear")
        )
        assert less.path.startswith(path)
        assert (less.null_spread < plain.null_spread).all()


def test_control_goes_together_with_denoising_and_leaves_self_influence_alone():
    data = torch.randn(60, 6), torch.arange(60) % 3, torch.arange(60)
    inf = turnover.Influence(model(), train=data, control="linear", estimator="ridge")
    assert "linear control variate; ridge on" in inf.pairwise(QUERIES).path
    assert inf.pairwise(QUERIES).provenance["options"]["control"] == "linear"
    plain = turnover.Influence(model(), estimator="tod", train=data)
    with pytest.warns(turnover.errors.TurnOverWarning, match="never trained"):
        assert inf.self_influence().equals(plain.self_influence())


def test_what_cannot_be_controlled_is_said():
    with pytest.raises(turnover.errors.InfluenceError, match="control='cubic' is unknown"):
        turnover.Influence(model(), control="cubic")  # pyright: ignore[reportArgumentType]
    with pytest.raises(turnover.errors.InfluenceError, match="gradient of the measure"):
        turnover.Influence(model(), measure=lambda o, t: o.detach()[:, 0], control="linear").pairwise(
            QUERIES, ids=range(5)
        )
