"""The linear control variate: what a score owes to its mask alone, to first order, subtracted.

Two random halves of a network differ in everything, and most of that difference is linear in the mask bits: each unit,
kept or not, makes the query a little better or worse. These slopes are gradients with respect to the masks, averaged
over null ids. What they predict for such an id is noise. For a training instance it is noise and some signal:
the units that it keeps have learned it, and their slopes show that. How much to subtract is fitted on other
null ids, query by query.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from turnover.batches import Batch, null_ids
from turnover.errors import InfluenceError
from turnover.influence.paths import Chunk, Forward, Route
from turnover.layers import KEEP, Instances, Site, factors_by_table
from turnover.masks import rounded_keep, words_for

_SLOPE_IDS = 256
_FIRST_SLOPE_ID = 2**40  # far from the ids that are the null
_IDS_AT_ONCE = 64

_Masked = tuple[Site, int]  # a site and its width


class _GradedChunk(Chunk):
    """Instances whose factors are differentiated."""

    def __init__(self, forward: Forward, ids: Tensor) -> None:
        super().__init__(ids, forward.views, flip_sites=forward.sites)
        self.leaves: dict[tuple[int, int], tuple[_Masked, Tensor]] = {}

    def factors(self, site: Site, x: Tensor, width: int) -> Tensor:
        """Return the factors of a site, noted."""
        factors = super().factors(site, x, width)
        if not factors.requires_grad:
            factors.requires_grad_()
        self.leaves[site.index, width] = (site, width), factors
        return factors


class LinearControl:
    """Predicts the scores of any ids on some queries from their mask bits alone."""

    def __init__(self, route: Route, queries: Sequence[Batch]) -> None:
        """Average the gradients over null ids."""
        broadcast = route.last is None and route.forward.broadcast
        self._forward = replace(route.forward, broadcast=broadcast, shared=None, compiled=None, packed=None)
        self._slopes: dict[tuple[int, int], tuple[_Masked, Tensor]] = {}
        at_once = max(1, min(_IDS_AT_ONCE, route.ids_per_chunk // 4)) if route.ids_per_chunk else _IDS_AT_ONCE
        ids = null_ids(_SLOPE_IDS) + _FIRST_SLOPE_ID
        for part in ids.split(at_once):
            chunk = _GradedChunk(self._forward, part)
            with torch.enable_grad(), chunk:
                for place, query in enumerate(queries):
                    self._add(chunk, query, place, len(queries))
        self._scale = torch.ones(len(queries), device=self._forward.member.device)

    def fit(self, scores: np.ndarray, ids: Tensor) -> None:
        """Choose how much of the prediction to subtract, by the scores [ids, queries] of null ids."""
        predicted = self._predicted(ids).cpu().double().numpy()
        finite = np.where(np.isfinite(scores), scores, 0.0).astype(np.float64)
        finite -= finite.mean(0)
        predicted -= predicted.mean(0)
        power = np.square(predicted).sum(0)
        share = (predicted * finite).sum(0) / np.where(power > 0, power, 1.0)
        self._scale = torch.from_numpy(share).float().to(self._scale.device)

    def prediction(self, ids: Tensor) -> np.ndarray:
        """Return what is to be subtracted from scores [ids, queries]."""
        parts = [self._predicted(part) * self._scale for part in ids.split(2048)]
        return torch.cat(parts).cpu().numpy()

    def _predicted(self, ids: Tensor) -> Tensor:
        words = Instances(ids, "keep")
        total = torch.zeros(len(ids), len(self._scale), device=self._scale.device)
        for (site, width), slope in self._slopes.values():
            packed = words.words(site, slope.device, width)[:, : words_for(width)]
            centered = factors_by_table(packed, width, KEEP, site.recipe.keep, torch.float32) - 1.0
            total += centered @ (slope * rounded_keep(site.recipe.keep))
        return total

    def _add(self, chunk: _GradedChunk, query: Batch, place: int, count: int) -> None:
        """Add the mean gradient of one query's scores in a chunk."""
        outputs = self._forward.outputs(query, chunk)
        targets = query.target
        if isinstance(targets, Tensor):
            targets = targets.expand(len(outputs), *targets.shape[1:])
        values = self._forward.measure.values(outputs.float(), targets)
        if self._forward.against == "keep":
            score = values[: chunk.count].sum() - values[chunk.count :].sum()
        else:  # the full network's part does not depend on masks
            score = -values.sum()
        if not score.requires_grad:
            raise InfluenceError(
                "control='linear' needs the gradient of the measure with respect to the masks, but there is none. Give "
                "a measure or loss made of torch operations, or control=None."
            )
        gradients = torch.autograd.grad(score, [leaf for _, leaf in chunk.leaves.values()], allow_unused=True)
        for (key, (masked, _)), gradient in zip(chunk.leaves.items(), gradients, strict=True):
            if gradient is None:
                continue
            site, width = masked
            if key not in self._slopes:
                self._slopes[key] = masked, torch.zeros(width, count, device=gradient.device)
            self._slopes[key][1][:, place] += self._along_bits(site, gradient.float(), chunk) / _SLOPE_IDS

    def _along_bits(self, site: Site, gradient: Tensor, chunk: _GradedChunk) -> Tensor:
        """Return the gradient with respect to bits [width] from that with respect to factors [rows, width]."""
        keep = rounded_keep(site.recipe.keep)
        flips = self._forward.sites is None or site.index in self._forward.sites
        flipped = -1.0 / (1.0 - keep) if flips else 1.0 / keep
        if self._forward.against == "full":
            return gradient.sum(0) * flipped
        return gradient[: chunk.count].sum(0) / keep + gradient[chunk.count :].sum(0) * flipped
