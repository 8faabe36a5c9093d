"""A builder of models that counts them."""

from collections.abc import Callable

from torch import nn


class Counted:
    """Builds models and counts them; described alike in every process."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        self.build = build
        self.built = 0

    def __call__(self) -> nn.Module:
        self.built += 1
        return self.build()

    def __repr__(self) -> str:
        return "Counted"
