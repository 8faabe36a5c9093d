"""Features of fixed length: h ⊗ e of all models and layers side by side, or projected at random where that is too long.

Both sides are projected by Gaussian matrices, (A h) ⊗ (B e), which keeps inner products in expectation. Parts of
several models and layers that find no room side by side are added up under random signs, so that their products vanish
in expectation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, sqrt

import torch
from torch import Tensor

from .features import Outer


@dataclass(frozen=True)
class _Part:
    left: Tensor | None
    right: Tensor | None
    signs: Tensor | None
    scale: float
    start: int

    def __call__(self, outer: Outer) -> Tensor:
        hidden = outer.hidden if self.left is None else outer.hidden @ self.left
        error = outer.error if self.right is None else outer.error @ self.right
        product = torch.einsum("npd,npc->ndc", hidden, error).flatten(1) * self.scale
        return product if self.signs is None else product * self.signs


class Projection:
    """Turns what every model and layer shows of some rows into features [rows, width]."""

    def __init__(self, sizes: Sequence[tuple[int, int]], *, members: int, most: int, seed: int) -> None:
        """Draw the matrices.

        Args:
            sizes: lengths of h and e, for each model and layer.
            members: how many models there are; their kernels are averaged.
            most: how many features there may be.
            seed: of the matrices.
        """
        whole = sum(d * c for d, c in sizes)
        self.exact = whole <= most
        random = torch.Generator().manual_seed(seed)
        shapes = [size if self.exact else _fitting(*size, most) for size in sizes]
        widths = [a * b for a, b in shapes]
        if self.exact:
            starts = [sum(widths[:place]) for place in range(len(widths))]
        else:
            side_by_side = min(len(widths), most // max(widths))
            starts = [place % side_by_side * max(widths) for place in range(len(widths))]
        self.width = max(start + width for start, width in zip(starts, widths, strict=True))
        self._parts = [
            _Part(
                left=_gaussian(size[0], shape[0], random),
                right=_gaussian(size[1], shape[1], random),
                signs=None if self.exact else _signs(shape[0] * shape[1], random),
                scale=1 / sqrt(members),
                start=start,
            )
            for size, shape, start in zip(sizes, shapes, starts, strict=True)
        ]

    def __call__(self, outers: Sequence[Outer]) -> Tensor:
        """Return features [rows, width]."""
        features = torch.zeros(len(outers[0].hidden), self.width)
        for place, outer in enumerate(outers):
            self._add(features, place, outer)
        return features

    def part(self, place: int, outer: Outer) -> Tensor:
        """Return what one model's layer adds to the features [rows, width]."""
        return self._add(torch.zeros(len(outer.hidden), self.width), place, outer)

    def _add(self, features: Tensor, place: int, outer: Outer) -> Tensor:
        part = self._parts[place]
        found = part(outer)
        features[:, part.start : part.start + found.shape[1]] += found
        return features


def _fitting(d: int, c: int, most: int) -> tuple[int, int]:
    """Return to how many numbers each side is projected."""
    right = min(c, isqrt(most))
    left = min(d, most // right)
    return left, min(c, most // left)


def _gaussian(given: int, wanted: int, random: torch.Generator) -> Tensor | None:
    if given == wanted:
        return None
    return torch.randn(given, wanted, generator=random) / sqrt(wanted)


def _signs(count: int, random: torch.Generator) -> Tensor:
    return torch.randint(2, (count,), generator=random).float() * 2 - 1
