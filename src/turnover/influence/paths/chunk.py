"""A chunk of instances in the engine: kept rows first, then the flipped rows of the same instances."""

from collections.abc import Iterable

import torch
from torch import Tensor

from turnover.layers import KEEP, VIEWS, Instances, Site, View, factors_by_table
from turnover.masks import words_for


class Chunk(Instances):
    """Active instances whose factors are made once and serve every query.

    Args:
        ids: the instances.
        views: of every instance, one after the other: ("keep", "flip"), ("full", "flip") or only one.
        flip_sites: numbers of the sites that are flipped; the others stay in keep view. None: all.
    """

    def __init__(self, ids: Tensor, views: Iterable[View], *, flip_sites: frozenset[int] | None = None) -> None:
        """Lay the views one after the other."""
        wanted = list(views)
        codes = torch.tensor([VIEWS.index(view) for view in wanted], dtype=torch.int32)
        super().__init__(ids.repeat(len(wanted)), codes.repeat_interleave(len(ids)) if len(wanted) > 1 else wanted[0])
        self.count = len(ids)
        self._wanted = wanted
        self._flip_sites = flip_sites
        # Words of the instances themselves: both views share them.
        self._once = Instances(ids, "keep")
        # For the shortcut: the site that hands on kept rows only, and what it saw before masking.
        self.half_site: int | None = None
        self.unmasked: Tensor | None = None
        self._made: dict[tuple[int, int, torch.dtype, torch.device, bool], Tensor] = {}

    def factors(self, site: Site, x: Tensor, width: int) -> Tensor:
        """Return the factors [rows, width] of a site; of kept rows only at the half site."""
        half = site.index == self.half_site
        if half:
            self.unmasked = x
        key = (site.index, width, x.dtype, x.device, half)
        if key not in self._made:
            views: list[View] = ["keep"] if half else self._wanted
            self._made[key] = self._fresh_factors(site, x, width, views)
        return self._made[key]

    def _fresh_factors(self, site: Site, x: Tensor, width: int, views: list[View]) -> Tensor:
        words = self._once.words(site, x.device, width)[:, : words_for(width)]
        flips = self._flip_sites is None or site.index in self._flip_sites
        codes = [KEEP if view == "flip" and not flips else VIEWS.index(view) for view in views]
        parts = [factors_by_table(words, width, code, site.recipe.keep, x.dtype) for code in codes]
        # Every replica has its own rows in all views, then comes the next.
        by_replica = [part.view(site.replicas, self.count, width) for part in parts]
        return torch.cat(by_replica, 1).flatten(0, 1)
