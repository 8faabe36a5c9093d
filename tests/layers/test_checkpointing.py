"""Activation checkpointing: the recomputation sees the ids of its forward pass, or raises."""

import re
import threading

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import turnover
from tests.layers.models import IDS, assert_same, gradients, mlp, run
from turnover.errors import InstancesError
from turnover.layers import masking_of

OTHERS = [90, 91, 92, 93, 94]


class Checkpointed(nn.Module):
    def __init__(self, net: nn.Sequential, **options) -> None:
        super().__init__()
        self.net, self.options = net, options

    def forward(self, x: Tensor) -> Tensor:
        for part in (self.net[:2], self.net[2:4]):
            x = checkpoint(part, x, **self.options) if self.options else part(x)
        return self.net.out(x)


def pair(**options) -> tuple[nn.Module, nn.Module]:
    net = mlp()
    at = ["net.relu1", "net.relu2"]
    plain, checkpointed = (turnover.wrap(Checkpointed(net, **o), at=at, keep=0.6).train() for o in ({}, options))
    return plain, checkpointed


CARRIED = {"use_reentrant": False, "context_fn": turnover.checkpoint_contexts}


@pytest.mark.parametrize("view", ["keep", "flip", ["keep", "flip", "full", "keep", "flip"]], ids=str)
@pytest.mark.parametrize("where", ["inside", "outside", "in another context", "in another thread"])
def test_gradients_equal_those_without_checkpoints(view, where):
    plain, checkpointed = pair(**CARRIED)
    x = torch.randn(5, 6)
    run(plain, x, view=view).square().sum().backward()
    with turnover.instances(IDS, view=view):
        loss = checkpointed(x).square().sum()
        if where == "inside":
            loss.backward()
    if where == "outside":
        loss.backward()
    if where == "in another context":
        with turnover.instances(OTHERS):
            loss.backward()
            checkpointed(x)
    if where == "in another thread":
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert_same(gradients(checkpointed), gradients(plain))


def test_two_contexts_before_one_backward_pass_keep_their_own_ids():
    plain, checkpointed = pair(**CARRIED)
    x = torch.randn(5, 6)
    for model in (plain, checkpointed):
        losses = []
        for ids in (IDS, OTHERS):
            losses.append(run(model, x, ids).square().sum())
        (losses[0] + losses[1]).backward()
    assert_same(gradients(checkpointed), gradients(plain))


def test_a_whole_model_can_be_one_checkpoint():
    plain, _ = pair()
    x = torch.randn(5, 6)
    run(plain, x).square().sum().backward()
    expected = gradients(plain)
    with turnover.instances(IDS):
        loss = checkpoint(plain, x, **CARRIED).square().sum()
    loss.backward()
    assert_same(gradients(plain), expected)


def test_ids_that_change_after_the_forward_pass_do_not_change_the_recomputation():
    plain, checkpointed = pair(**CARRIED)
    x, ids = torch.randn(5, 6), torch.tensor(IDS)
    run(plain, x).square().sum().backward()
    loss = run(checkpointed, x, ids).square().sum()
    ids.zero_()
    loss.backward()
    assert_same(gradients(checkpointed), gradients(plain))


def test_recomputation_does_not_count_as_a_pass():
    _, checkpointed = pair(**CARRIED)
    x = torch.randn(5, 6)
    with turnover.instances(IDS):
        checkpointed(x).sum().backward()
    assert masking_of(checkpointed).learned.passes == 1


@pytest.mark.parametrize("where", ["inside", "outside", "in another context"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_without_checkpoint_contexts_the_recomputation_raises(where, reentrant):
    _, checkpointed = pair(use_reentrant=reentrant)
    x = torch.randn(5, 6, requires_grad=True)
    message = re.escape("context_fn=turnover.checkpoint_contexts")
    with turnover.instances(IDS):
        loss = checkpointed(x).square().sum()
        if where == "inside":
            with pytest.raises(InstancesError, match=rf"site 'net.relu2' is recomputed.*{message}"):
                loss.backward()
            return
    if where == "in another context":
        with turnover.instances(OTHERS):
            checkpointed(x)
            with pytest.raises(InstancesError, match=message):
                loss.backward()
    else:
        with pytest.raises(InstancesError, match=message):
            loss.backward()
