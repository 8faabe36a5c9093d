"""Adapters as a user asks for them: `wrap(model, adapters=64)`, or an `Adapters` object with options."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Activation = Literal["gelu", "relu"]


@dataclass(frozen=True)
class Adapters:
    """Bottleneck adapters (Houlsby et al. 2019) in a frozen transformer, given to `wrap` or `plan`.

    Every adapter adds `up(activation(down(x)))` to the output of a module of the frozen model. Masks act on the
    bottleneck and on the input of the output layer; the adapters and the output layers learn, nothing else does.

    Args:
        size: units of each bottleneck.
        layers: blocks that get adapters: the top so many, or a list of their numbers (0 is the first, -1 the last).
            None: all.
        after: paths of modules to put adapters after, instead of looking for blocks.
        head: paths of the output layers. None: what the model registers behind the blocks; (): it has none.
        activation: "gelu" or "relu".
        bias: give the up-projections a bias. No mask covers it, so it leaks.
        norms: let the normalization layers learn, as Houlsby et al. do. No mask covers them, so they leak.
        head_bias: let the bias of the output layer learn. No mask covers it, so it leaks.

    With `bias`, `norms` and `head_bias` left at False nothing leaks.

    Example:
        >>> import torch, turnover
        >>> from .adapters import Adapters
        >>> layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        >>> net = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, 2), torch.nn.Flatten(), torch.nn.Linear(96, 2))
        >>> net = turnover.wrap(net, adapters=Adapters(size=8, layers=1))
        >>> with turnover.instances([0, 1]):
        ...     net(torch.zeros(2, 3, 32)).shape
        torch.Size([2, 2])
    """

    size: int = 64
    layers: int | Sequence[int] | None = None
    after: Sequence[str] | None = None
    head: str | Sequence[str] | None = None
    activation: Activation = "gelu"
    bias: bool = False
    norms: bool = False
    head_bias: bool = False

    @classmethod
    def asked(cls, adapters: "int | Adapters") -> "Adapters":
        """Return the object that a number stands for."""
        return adapters if isinstance(adapters, Adapters) else cls(size=adapters)
