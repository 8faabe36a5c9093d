"""A chunk of instances in the engine: kept rows first, then the flipped rows of the same instances."""

from collections.abc import Iterable

import torch
from torch import Tensor

from turnover.layers.instances import Instances
from turnover.layers.masking import Site
from turnover.layers.views import FLIP, KEEP, View


class Chunk(Instances):
    """Active instances whose factors are made once and serve every query.

    Args:
        ids: the instances.
        views: "keep" and "flip" for both, or only one of them.
        flip_sites: numbers of the sites that are flipped; the others stay in keep view. None: all.
    """

    def __init__(self, ids: Tensor, views: Iterable[View], *, flip_sites: frozenset[int] | None = None) -> None:
        """Lay the views one after the other."""
        wanted = list(views)
        super().__init__(ids.repeat(len(wanted)), wanted[0])
        if len(wanted) > 1:
            codes = torch.tensor([KEEP if view == "keep" else FLIP for view in wanted], dtype=torch.int32)
            self._views = codes.repeat_interleave(len(ids))
        self.count = len(ids)
        self._flip_sites = flip_sites
        # For the shortcut: the site that hands on kept rows only, and what it saw before masking.
        self.half_site: int | None = None
        self.unmasked: Tensor | None = None
        self._made: dict[tuple[int, int, torch.dtype, torch.device], Tensor] = {}

    def factors(self, site: Site, x: Tensor, width: int) -> Tensor:
        """Return the factors [rows, width] of a site; of kept rows only at the half site."""
        key = (site.index, width, x.dtype, x.device)
        if key not in self._made:
            self._made[key] = self._fresh_factors(site, x, width)
        factors = self._made[key]
        if site.index == self.half_site:
            self.unmasked = x
            return factors[: self.count]
        return factors

    def _fresh_factors(self, site: Site, x: Tensor, width: int) -> Tensor:
        if self._flip_sites is None or site.index in self._flip_sites:
            return super().factors(site, x, width)
        flipped, self._views = self._views, KEEP
        try:
            return super().factors(site, x, width)
        finally:
            self._views = flipped
