"""Influence by its definition: two plain forward passes per pair, masks multiplied in by this file's own code."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

import turnover
from tests.reference.mask_twin import twin_bits
from turnover.layers import find_root, masking_of


@lru_cache(maxsize=100_000)
def _bits(kind: str, seed: int, site: str, keep: float, number: int, width: int, options: tuple) -> tuple[bool, ...]:
    found = twin_bits(kind, seed=seed, site=site, keep=keep, ids=[number], width=width, options=dict(options))
    return tuple(found[0].tolist())


class TwinModel:
    """The plain model with hooks that multiply by one instance's mask."""

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        self._recipe = masking_of(find_root(model)).recipe
        self._plain = turnover.unwrap(find_root(model)).to(dtype).eval()
        for site in self._recipe.sites:
            self._plain.get_submodule(site.path).register_forward_hook(self._hook(site))
        self._now: tuple[int, str] | None = None
        self._flip_only: tuple[str, ...] | None = None

    def _hook(self, site: Any) -> Callable:
        def multiply(module: nn.Module, args: Any, output: Any) -> Any:
            if self._now is None:
                return output
            number, view = self._now
            if view == "flip" and self._flip_only is not None and site.path not in self._flip_only:
                view = "keep"
            first = output[0] if isinstance(output, tuple) else output
            axis = 1 if site.dim == "channels" else first.dim() - 1
            options = tuple(sorted(self._recipe.options.items()))
            bits = _bits(self._recipe.kind, self._recipe.seed, site.path, site.keep, number, first.shape[axis], options)
            rate = round(site.keep * 2**24) / 2**24
            on, off = (1 / rate, 0.0) if view == "keep" else (0.0, 1 / (1 - rate))
            factors = torch.tensor([on if bit else off for bit in bits], dtype=torch.float64).to(first.dtype)
            shape = [1] * first.dim()
            shape[axis] = -1
            masked = first * factors.view(shape)
            return (masked, *output[1:]) if isinstance(output, tuple) else masked

        return multiply

    def outputs(self, args: tuple, kwargs: dict, number: int | None, view: str, flip_only: Any = None) -> Tensor:
        """Return the outputs for one query under one instance's mask, or of the full network."""
        self._now = None if number is None or view == "full" else (number, view)
        self._flip_only = flip_only
        # Gradients stay on, so that no fused path goes around a site.
        with torch.enable_grad():
            outputs = self._plain(*args, **kwargs)
        outputs = getattr(outputs, "logits", outputs)
        return outputs.detach()


def twin_scores(
    model: nn.Module,
    queries: list[tuple[tuple, dict, Any]],
    ids: list[int],
    measure: Callable[[Tensor, Any], Tensor],
    *,
    against: str = "keep",
    flip_only: tuple[str, ...] | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Return uncentered scores [ids, queries]: the measure with the instance minus the measure without."""
    twin = TwinModel(model, dtype)
    scores = torch.empty(len(ids), len(queries), dtype=torch.float64)
    for column, (args, kwargs, target) in enumerate(queries):
        args = tuple(a.to(dtype) if a.is_floating_point() else a for a in args)
        for row, number in enumerate(ids):
            with_it = measure(twin.outputs(args, kwargs, number, against), target)
            without = measure(twin.outputs(args, kwargs, number, "flip", flip_only), target)
            scores[row, column] = float(with_it) - float(without)
    return scores
