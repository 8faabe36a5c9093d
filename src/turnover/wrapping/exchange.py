"""Putting one module in the place of another."""

from torch import nn


def exchange(root: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put one module in the place of another, wherever it is registered."""
    for parent in list(root.modules()):
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)
