"""Weights for further replicas: drawn anew where those that are there are fresh, copied where they were trained.

A layer of torch draws its weights uniformly within bounds that its size sets. Weights that still fill these bounds, and
none beyond, are fresh; a pretrained or trained layer never looks like that.
"""

import copy

import torch
from torch import Tensor, nn

_FEWEST = 16
_ALIKE = 0.15
_ROUNDING = 1 + 1e-5


def drawn_anew(module: nn.Module) -> nn.Module:
    """Return a module like this one: with new random weights where its own are fresh, else with the same."""
    twin = copy.deepcopy(module)
    for one, given in zip(twin.modules(), module.modules(), strict=True):
        if is_fresh(given):
            one.reset_parameters()  # pyright: ignore[reportCallIssue]
    return twin


def is_fresh(module: nn.Module) -> bool:
    """Tell whether a linear, convolutional or recurrent layer still has weights as it draws them."""
    if not isinstance(module, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.RNNBase | nn.Bilinear):
        return False
    drawn = copy.deepcopy(module)
    with torch.random.fork_rng(devices=[]):
        drawn.reset_parameters()
    pairs = list(zip(module.parameters(recurse=False), drawn.parameters(recurse=False), strict=True))
    return any(len(given.flatten()) >= _FEWEST for given, _ in pairs) and all(_alike(a, b) for a, b in pairs)


def _alike(given: Tensor, drawn: Tensor) -> bool:
    """Tell whether numbers could come from the uniform distribution that others come from."""
    if drawn.numel() < _FEWEST:
        return True  # too few to tell; the weights of the layer decide
    # The bound of a uniform distribution is sqrt(3) of its standard deviation; the largest of many comes close to it.
    bound = float(drawn.detach().abs().max()) * (1 + _FEWEST / drawn.numel())
    largest, spread = float(given.detach().abs().max()), float(given.detach().std())
    return largest <= bound * _ROUNDING and abs(spread / float(drawn.detach().std()) - 1) < _ALIKE
