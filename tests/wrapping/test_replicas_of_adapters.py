"""Replicas of adapters over one frozen model."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import turnover
from tests.wrapping.adapter_models import FAMILIES, batch_of, inputs_of, logits, make, moved
from tests.wrapping.models import ADAM, run, train
from turnover.errors import PlanError
from turnover.wrapping import Adapters, replica_models

ROWS, R = 5, 3
IDS = torch.arange(100, 100 + ROWS)
BATCH_FIRST = [family for family in FAMILIES if family != "torch_seq_first"]


def made(family="bert", **options):
    base = make(family)
    for module in base.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return turnover.wrap(base, **{"adapters": 6, "replicas": R, **options})


def trained(model, family="bert", optimizer=ADAM):
    return train(model.train(), [batch_of(family)] * 4, optimizer).eval()


@pytest.mark.parametrize(
    "optimizer",
    [partial(torch.optim.SGD, lr=0.5, momentum=0.9, weight_decay=0.01), ADAM],
    ids=["sgd", "adam"],
)
@pytest.mark.parametrize("family", BATCH_FIRST)
def test_every_replica_trains_as_if_it_were_alone(family, optimizer):
    model = made(family)
    alone = [copy.deepcopy(one) for one in replica_models(model)]
    trained(model, family, optimizer)
    for one, separate in zip(replica_models(model), alone, strict=True):
        before = {name: value.clone() for name, value in separate.named_parameters()}
        trained(separate, family, optimizer)
        assert any(not torch.equal(before[name], value) for name, value in separate.named_parameters())
        found = dict(one.named_parameters())
        for name, value in separate.named_parameters():
            torch.testing.assert_close(
                found[name], value, atol=2e-5, rtol=1e-4, msg=lambda text, name=name: name + text
            )


def test_replicas_start_with_adapters_of_their_own_and_share_the_frozen_weights():
    model = made()
    down = model.get_submodule("bert.encoder.layer.0.output.dense.adapter.down").weight
    assert down.shape == (R, 6, 32)
    assert not torch.equal(down[0], down[1])
    frozen = [p for p in model.parameters() if not p.requires_grad]
    plain = [p for p in turnover.wrap(make("bert"), adapters=6).parameters() if not p.requires_grad]
    assert sum(map(torch.numel, frozen)) - sum(map(torch.numel, plain)) == (R - 1) * 3  # the frozen output bias


@pytest.mark.parametrize("family", BATCH_FIRST)
def test_the_full_network_is_the_mean_of_all_replicas(family):
    model = moved(made(family))
    x = inputs_of(family)
    expected = torch.stack([logits(one.eval(), x) for one in replica_models(model)]).mean(0)
    torch.testing.assert_close(logits(model.eval(), x), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits(turnover.unwrap(model), x), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("family", BATCH_FIRST)
def test_nothing_leaks_from_one_replica_into_the_flipped_view_of_another(family):
    model = moved(made(family))
    assert turnover.audit(model, batch_of(family)).clean


def test_one_row_in_eval_mode_is_expanded_to_all_instances_of_all_replicas():
    model = moved(made()).eval()
    row = {name: value[:1] for name, value in inputs_of("bert").items()}  # padded: attention has a mask to expand
    each = [run(replica, row, range(7), "flip") for replica in replica_models(model)]
    torch.testing.assert_close(run(model, row, range(7), "flip"), torch.cat(each), atol=1e-5, rtol=1e-4)


def test_scores_are_the_mean_of_the_replicas_own_with_standard_errors():
    model = trained(made())
    queries = {**inputs_of("bert", 2), "labels": torch.tensor([0, 1])}
    scores = turnover.Influence(model).pairwise(queries, ids=IDS, progress=False)
    own = [turnover.Influence(one).pairwise(queries, ids=IDS, progress=False).values for one in replica_models(model)]
    np.testing.assert_allclose(scores.values, np.mean(own, 0), atol=1e-5)
    assert scores.replicas == R
    assert scores.stderr.shape == scores.values.shape


def test_replicas_of_adapters_are_saved_without_the_base_and_loaded(tmp_path):
    model = trained(made())
    again = turnover.load(turnover.save(model, tmp_path), model=make("bert")).eval()
    x = inputs_of("bert")
    torch.testing.assert_close(logits(again, x), logits(model, x))
    torch.testing.assert_close(run(again, x, IDS, "flip"), run(model, x, IDS, "flip"))


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("torch_seq_first", {}, r"batch in dimension 1; replicas need it in dimension 0"),
        ("bert", {"split": "classifier"}, r"replicas begin at the model's input. Leave split out"),
        ("bert", {"adapters": Adapters(6, norms=True)}, r"train the same normalization layers"),
        ("bert", {"replicas": 0}, r"`replicas` must be an integer >= 1, got 0"),
    ],
)
def test_what_does_not_go_together_is_rejected_with_the_cure(family, options, message):
    with pytest.raises(PlanError, match=message):
        made(family, **options)
