"""The last-layer path: where the only site feeds the final Linear, all pairs are one matrix product.

The logits of instance i on query q under the mask of i are bits(i) @ (h(q) * W) / keep + bias, and those under the
flipped mask are (the sum over all units - bits(i) @ (h(q) * W)) / (1 - keep) + bias: one product of mask bits
[instances, units] with [units, classes * queries] gives both views of every pair. For one or few queries the product is
looked up, a byte of the mask at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from turnover.batches import Batch
from turnover.influence.members import precision
from turnover.layers import KEEP, Site, factors_by_table, scales
from turnover.masks import rounded_keep

from .byte_sums import ByteSums, fits
from .forward import Pass, base_goodness
from .kept_words import KEPT
from .watch import watch_sites

PATH = "last layer, one matrix product"
_COPIES = 4  # arrays of the size of the product that are alive at once


@dataclass(frozen=True)
class LastLayer:
    """The only site of a model and the Linear behind it, which makes the output."""

    site: Site
    linear: nn.Linear


def find_last_layer(work: Pass, query: Batch) -> LastLayer | None:
    """Return the last layer where this path is right: one site, whose output is the input of the final Linear."""
    masking = work.member.masking
    if not isinstance(query.target, Tensor):
        return None
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
        hidden = torch.cat([self._hidden(query) for query in queries])
        self._targets = _targets(queries)
        self._differences = work.goodness.is_cross_entropy and _are_classes(self._targets, len(last.linear.weight))
        # Classes outside, queries inside: reductions over classes then run along contiguous memory.
        weights, biases = self._columns_of(*_weight_and_bias(last.linear))
        product = weights.to(hidden.dtype) * hidden
        self._shape = product.shape[:2]
        self._columns = product.reshape(-1, product.shape[2]).t().contiguous()
        self._bias = biases.to(hidden.dtype).expand(self._shape).reshape(-1).contiguous()
        # flipped = (total - keep * kept) / (1 - keep) + bias, where kept has its bias already.
        rate = rounded_keep(last.site.recipe.keep)
        self._ratio = rate / (1.0 - rate)
        looked_up = work.dtype is None and fits(self._columns)
        self._sums = ByteSums(self._columns, scale=scales(last.site.recipe.keep)[0]) if looked_up else None
        self._constant = (product.sum(-1).reshape(-1) / (1.0 - rate)).add_(self._bias, alpha=1.0 + self._ratio)
        bases = [base_goodness(work, query) for query in queries]
        self._base = None if bases[0] is None else torch.cat([base for base in bases if base is not None])
        self._queries = len(queries)
        per_id = 4 * (_COPIES * self._columns.shape[1] + 2 * self._columns.shape[0])
        self.ids_per_chunk = max(1, min(4096, memory // per_id))

    def _columns_of(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights [columns, queries, units] and biases [columns, queries] of what is computed.

        For cross-entropy these are the differences from the target's class, one class less: the loss is
        log(1 + sum of exp(difference)), and no target has to be looked up among the logits of every pair.
        """
        if not self._differences or self._targets is None:
            return weight.unsqueeze(1), bias.unsqueeze(1)
        targets, classes = self._targets.to(weight.device), len(weight)
        every = torch.arange(classes, device=weight.device).expand(len(targets), -1)
        others = every[every != targets.unsqueeze(1)].view(len(targets), classes - 1).t()
        return weight[others] - weight[targets], bias[others] - bias[targets]

    def _hidden(self, query: Batch) -> Tensor:
        with precision(self._work.member.device, self._work.dtype):
            return watch_sites(self._work.member, query, consumers=(nn.Linear,)).site_input[0].float()

    def scores(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        result = torch.empty((len(ids), self._queries))
        for start in range(0, len(ids), self.ids_per_chunk):
            part = ids[start : start + self.ids_per_chunk]
            result[start : start + len(part)] = self._chunk(part)
        return result

    def _chunk(self, ids: Tensor) -> Tensor:
        kept = self._kept(ids)
        flipped = torch.sub(self._constant, kept, alpha=self._ratio)
        without = self._goodness(flipped.view(len(ids), *self._shape))
        if self._base is not None:
            return self._base - without
        return self._goodness(kept.view(len(ids), *self._shape)).sub_(without)

    def _kept(self, ids: Tensor) -> Tensor:
        """Return the outputs [ids, columns] under the masks of instances."""
        width, site = len(self._columns), self._last.site
        words = KEPT.words(site, self._columns.device, width, ids)
        if self._sums is not None:
            return self._sums(words).add_(self._bias)
        masks = factors_by_table(words, width, KEEP, site.recipe.keep, self._columns.dtype)
        with precision(masks.device, self._work.dtype):
            return torch.addmm(self._bias, masks, self._columns).float()

    def _goodness(self, outputs: Tensor) -> Tensor:
        """Return goodness [ids, queries] of outputs [ids, columns, queries]."""
        if self._differences:
            return _minus_loss(outputs)
        rows = outputs.permute(0, 2, 1).reshape(-1, self._shape[0])
        every = None if self._targets is None else self._targets.repeat(len(outputs), *[1] * (self._targets.dim() - 1))
        return self._work.goodness(rows, every).view(len(outputs), self._queries)


def _minus_loss(differences: Tensor) -> Tensor:
    """Return -log(1 + sum over dimension 1 of exp(difference))."""
    losses = differences.exp().sum(1).log1p_()
    if bool(losses.isinf().any()):  # a loss beyond 88 overflows in float32; then the long way round
        highest = differences.amax(1).clamp_(min=0)
        rest = (differences - highest.unsqueeze(1)).exp_().sum(1)
        losses = rest.add_(highest.neg().exp_()).log_().add_(highest)
    return losses.neg_()


def _targets(queries: Sequence[Batch]) -> Tensor | None:
    if queries[0].target is None:
        return None
    targets = torch.cat([torch.as_tensor(query.target) for query in queries])
    return targets if targets.is_floating_point() else targets.long()


def _are_classes(targets: Tensor | None, classes: int) -> bool:
    """Tell whether every target is a class; labels to be ignored (-100) take the long way round."""
    if targets is None or targets.dim() != 1 or targets.is_floating_point():
        return False
    return bool(((targets >= 0) & (targets < classes)).all())


def _weight_and_bias(linear: nn.Linear) -> tuple[Tensor, Tensor]:
    """Return the weight [classes, units] and the bias [classes], zeros where there is none."""
    bias = linear.bias
    return linear.weight, torch.zeros_like(linear.weight[:, 0]) if bias is None else bias
