"""The last-layer path: where the only site feeds the final Linear, all pairs are one matrix product.

The logits of instance i on query q under the mask of i are bits(i) @ (h(q) * W) / keep + bias, and those under the
flipped mask are (the sum over all units - bits(i) @ (h(q) * W)) / (1 - keep) + bias: one product of mask bits
[instances, units] with [units, classes * queries] gives both views of every pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from turnover.layers.instances import Instances
from turnover.layers.masking import Site
from turnover.layers.scale import factors_by_table
from turnover.masks.keep_rate import rounded_keep

from .forward import Pass, base_goodness
from .members import precision
from .queries import Batch
from .watch import watch_sites

PATH = "last layer, one matrix product"
_COPIES = 6  # arrays of the size of the product that are alive at once


@dataclass(frozen=True)
class LastLayer:
    """The only site of a model and the Linear behind it, which makes the output."""

    site: Site
    linear: nn.Linear


def find_last_layer(work: Pass, query: Batch) -> LastLayer | None:
    """Return the last layer where this path is right: one site, whose output is the input of the final Linear."""
    masking = work.member.masking
    if len(masking.recipe.sites) != 1 or masking.recipe.sites[0].dim != "features" or work.sites is not None:
        return None
    seen = watch_sites(work.member, query, consumers=(nn.Linear,))
    linear = seen.consumer.get(0)
    right = seen.order == [0] and isinstance(linear, nn.Linear) and seen.last is linear
    if not right or seen.site_input[0].dim() != 2 or type(linear) is not nn.Linear:
        return None
    return LastLayer(Site(masking, 0), linear)


class LastLayerScorer:
    """Scores of any instances on a fixed list of queries."""

    path = PATH

    def __init__(self, work: Pass, last: LastLayer, queries: Sequence[Batch], memory: int) -> None:
        """Run every query once and keep its last hidden representation."""
        self._work, self._last = work, last
        self._keep = rounded_keep(last.site.recipe.keep)
        hidden = torch.cat([self._hidden(query) for query in queries])
        weight = last.linear.weight.to(hidden.dtype)
        # Classes outside, queries inside: reductions over classes then run along contiguous memory.
        product = weight.unsqueeze(1) * hidden.unsqueeze(0)
        self._classes, self._queries, self._width = product.shape
        self._columns = product.reshape(-1, self._width).t().contiguous()
        self._total = product.sum(-1)
        bias = last.linear.bias
        self._bias = None if bias is None else bias.to(hidden.dtype).view(-1, 1)
        self._targets = (
            torch.cat([torch.as_tensor(query.target) for query in queries]) if queries[0].target is not None else None
        )
        bases = [base_goodness(work, query) for query in queries]
        self._base = None if bases[0] is None else torch.cat([base for base in bases if base is not None])
        per_id = 4 * (_COPIES * self._classes * self._queries + 2 * self._width)
        self.ids_per_chunk = max(1, min(4096, memory // per_id))

    def _hidden(self, query: Batch) -> Tensor:
        with precision(self._work.member.device, self._work.dtype):
            return watch_sites(self._work.member, query, consumers=(nn.Linear,)).site_input[0].float()

    def scores(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        parts = [self._chunk(part).cpu() for part in ids.split(self.ids_per_chunk)]
        return torch.cat(parts) if parts else torch.empty((0, self._queries))

    def _chunk(self, ids: Tensor) -> Tensor:
        bits = self._bits(ids)
        with precision(bits.device, self._work.dtype):
            kept = (bits @ self._columns).float().view(len(ids), self._classes, self._queries)
        flipped = (self._total - kept).mul_(1.0 / (1.0 - self._keep))
        kept.mul_(1.0 / self._keep)
        if self._bias is not None:
            kept.add_(self._bias)
            flipped.add_(self._bias)
        without = self._goodness(flipped)
        if self._base is not None:
            return self._base - without
        return self._goodness(kept).sub_(without)

    def _bits(self, ids: Tensor) -> Tensor:
        """Return the mask bits [ids, units] as numbers."""
        device = self._columns.device
        now = Instances(ids, "keep")
        words = now.words(self._last.site, device, self._width)
        return factors_by_table(words, self._width, 0, 0.5, self._columns.dtype).mul_(0.5)

    def _goodness(self, logits: Tensor) -> Tensor:
        """Return goodness [ids, queries] of logits [ids, classes, queries]."""
        targets = self._targets
        if self._work.goodness.is_cross_entropy and targets is not None and not targets.is_floating_point():
            chosen = logits[:, targets, torch.arange(self._queries, device=logits.device)]
            return chosen.sub_(_log_sum_exp(logits))
        rows = logits.permute(0, 2, 1).reshape(-1, self._classes)
        every = None if targets is None else targets.repeat(len(logits), *[1] * (targets.dim() - 1))
        return self._work.goodness(rows, every).view(len(logits), self._queries)


def _log_sum_exp(logits: Tensor) -> Tensor:
    """Return the log-sum-exp over dimension 1; the logits are overwritten."""
    highest = logits.amax(1)
    return logits.sub_(highest.unsqueeze(1)).exp_().sum(1).log_().add_(highest)
