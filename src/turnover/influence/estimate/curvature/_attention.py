"""The projections of nn.MultiheadAttention as layers of their own.

It multiplies queries, keys and values with parts of one packed weight, and calls no module for that, nor for its output
layer. While gradients are computed, each projection runs as a module, so that its inputs and outputs can be seen; what
lies between them is computed by the same torch code, on projections that are identities.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Projection(nn.Module):
    """One of the three projections, as a Linear layer on a part of the packed weight and bias."""

    def __init__(self, attention: nn.MultiheadAttention, kind: str) -> None:
        super().__init__()
        self.kind = kind  # "q", "k" or "v"
        self._attention = (attention,)  # in a tuple, which is not a sub-module: parameters stay where they are

    @property
    def attention(self) -> nn.MultiheadAttention:
        """Return whose projection this is."""
        return self._attention[0]

    @property
    def owned(self) -> list[nn.Parameter]:
        """Return the parameters that this is a part of."""
        whole = self.attention
        weight = whole.in_proj_weight if whole._qkv_same_embed_dim else getattr(whole, f"{self.kind}_proj_weight")
        return [weight] if whole.in_proj_bias is None else [weight, whole.in_proj_bias]

    @property
    def bias(self) -> Tensor | None:
        """Return the bias of this projection."""
        bias = self.attention.in_proj_bias
        return None if bias is None else bias.chunk(3)["qkv".index(self.kind)]

    def forward(self, values: Tensor) -> Tensor:
        """Return the projected values."""
        weight: Tensor = self.owned[0]
        if self.attention._qkv_same_embed_dim:
            weight = weight.chunk(3)["qkv".index(self.kind)]
        return functional.linear(values, weight, self.bias)


def projections_of(model: nn.Module) -> dict[str, Projection]:
    """Return the projections of all attentions of a model by their paths."""
    return {
        f"{path}.{kind}_proj": Projection(module, kind)
        for path, module in model.named_modules()
        if isinstance(module, nn.MultiheadAttention)
        for kind in "qkv"
    }


@contextmanager
def running_as_modules(projections: Mapping[str, nn.Module]) -> Iterator[None]:
    """Let attentions call their projections and output layer as modules."""
    by_attention: dict[nn.MultiheadAttention, dict[str, Projection]] = {}
    for projection in projections.values():
        if isinstance(projection, Projection):
            by_attention.setdefault(projection.attention, {})[projection.kind] = projection
    try:
        for attention, parts in by_attention.items():
            attention.forward = _opened(attention, [parts.get(kind) or Projection(attention, kind) for kind in "qkv"])
        yield
    finally:
        for attention in by_attention:
            del attention.forward


def _opened(attention: nn.MultiheadAttention, parts: list[Projection]) -> Any:
    weight = attention.out_proj.weight
    identity = torch.eye(attention.embed_dim, device=weight.device, dtype=weight.dtype)
    between = nn.MultiheadAttention(
        attention.embed_dim,
        attention.num_heads,
        bias=False,
        add_zero_attn=attention.add_zero_attn,
        batch_first=attention.batch_first,
        device="meta",
    ).eval()
    between.in_proj_weight = nn.Parameter(identity.repeat(3, 1), requires_grad=False)
    between.out_proj.weight = nn.Parameter(identity, requires_grad=False)
    between.bias_k, between.bias_v = attention.bias_k, attention.bias_v

    def forward(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        projected = [part(values) for part, values in zip(parts, (query, key, value), strict=True)]
        outputs, weights = between(*projected, *args, **kwargs)
        return attention.out_proj(outputs), weights

    return forward
