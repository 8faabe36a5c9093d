"""Small models and a view of what their sites let through, for the tests of the layers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import turnover
from turnover.layers.dropout import probed_shapes

IDS = [5, 0, 7, 2**62 - 1, 123_456_789_012]


def mlp(width: int = 40) -> nn.Sequential:
    """Two hidden layers; sites are meant to be at "relu1" and "relu2"."""
    net = nn.Sequential()
    net.add_module("fc1", nn.Linear(6, width))
    net.add_module("relu1", nn.ReLU())
    net.add_module("fc2", nn.Linear(width, width + 30))
    net.add_module("relu2", nn.Tanh())
    net.add_module("out", nn.Linear(width + 30, 3))
    return net


def wrapped_mlp(keep: float = 0.5, seed: int = 0, masks: str = "counter") -> nn.Module:
    return turnover.wrap(mlp(), at=["relu1", "relu2"], keep=keep, seed=seed, masks=masks)


def dropout_mlp() -> nn.Module:
    """A wrapped model with a layer placed by hand and a replaced dropout."""
    net = nn.Sequential(
        nn.Linear(6, 40),
        nn.ReLU(),
        turnover.TurnOverDropout(keep=0.3),
        nn.Linear(40, 70),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(70, 3),
    )
    return turnover.wrap(net)


def both_kinds() -> nn.Module:
    net = nn.Sequential(
        nn.Linear(6, 40), nn.ReLU(), turnover.TurnOverDropout(), nn.Linear(40, 70), nn.Tanh(), nn.Linear(70, 3)
    )
    return turnover.wrap(net, at=["4"])


class Transposing(nn.Module):
    """Takes [batch, time, 6] and works on [time, batch, ...] inside, without saying so."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.fc, self.norm, self.act = nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Identity()
        self.drop = nn.Dropout(rate)

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x.transpose(0, 1))
        h = self.drop(self.act(h))
        return self.norm(h.flatten(0, 1)).view_as(h).transpose(0, 1)


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor, skip: bool = False) -> Tensor:
        h = torch.relu(self.first(x))
        if not skip:
            h = torch.relu(self.second(h))
        return self.out(h)


@contextmanager
def watched(model: nn.Module, *paths: str) -> Iterator[dict[str, Tensor]]:
    """Yield a dict that fills with the outputs of modules, as they are after the masks."""
    seen: dict[str, Tensor] = {}

    def keep_output(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if probed_shapes() is None:  # not in a dry run
                seen[path] = (output if isinstance(output, Tensor) else output[0]).detach().clone()

        return hook

    handles = [model.get_submodule(path).register_forward_hook(keep_output(path)) for path in paths]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def gradients(model: nn.Module) -> list[Tensor]:
    found = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    return found


def assert_same(left: Sequence[Tensor], right: Sequence[Tensor], **tolerance: float) -> None:
    """Check that two lists of tensors are equal, exactly unless a tolerance is given."""
    tolerance = tolerance or {"rtol": 0.0, "atol": 0.0}
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


def run(model: nn.Module, x: Tensor, ids: Any = IDS, view: Any = "keep") -> Any:
    with turnover.instances(ids, view=view):
        return model(x)


def seen_at(model: nn.Module, paths: Sequence[str], x: Tensor, ids: Any = IDS, view: Any = "keep") -> dict[str, Tensor]:
    with watched(model, *paths) as seen:
        run(model, x, ids, view)
    return seen
