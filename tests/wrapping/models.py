"""A small model, a few steps of training and one pass, for the tests of wrapping."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import turnover
from turnover.batches import logits_of, open_batch

SGD = partial(torch.optim.SGD, lr=0.1)
ADAM = partial(torch.optim.Adam, lr=0.01)


def mlp(bias: bool = True) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3, bias=bias))


def train(model: nn.Module, batches: Iterable[Any], optimizer: Callable[..., torch.optim.Optimizer] = SGD) -> nn.Module:
    descent = optimizer([parameter for parameter in model.parameters() if parameter.requires_grad])
    for batch in batches:
        rows = open_batch(batch)
        with turnover.instances(rows.ids) as now:
            loss = cross_entropy(rows.logits(model), now.repeat(rows.target))
        descent.zero_grad()
        loss.backward()
        descent.step()
    return model


def run(model: nn.Module, inputs: Tensor | dict[str, Tensor], ids: Any, view: Any = "keep") -> Tensor:
    with torch.no_grad(), turnover.instances(ids, view=view):
        return logits_of(model(**inputs) if isinstance(inputs, dict) else model(inputs))
