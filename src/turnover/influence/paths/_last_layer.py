"""The last-layer path: where the only site feeds the final Linear, all pairs are one matrix product.

The logits of instance i on query q under the mask of i are bits(i) @ (h(q) * W) / keep + bias, and those under the
flipped mask are (the sum over all units - bits(i) @ (h(q) * W)) / (1 - keep) + bias: one product of mask bits
[instances, units] with [units, classes * queries] gives both views of every pair. For one or few queries the product is
looked up, a byte of the mask at a time.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from turnover.batches import Batch
from turnover.layers import KEEP, Instances, Site, factors_by_table, scales
from turnover.masks import WORD_BITS, rounded_keep, words_for

from ._sites import trace_sites
from .forward import Forward

_COPIES = 4  # arrays of the size of the product that are alive at once
_MOST_COLUMNS = 16
_BYTE = 8
_VALUES = 1 << _BYTE
_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True)
class LastLayer:
    """The only site of a model and the Linear behind it, which makes the output."""

    site: Site
    linear: nn.Linear


def find_last_layer(forward: Forward, query: Batch) -> LastLayer | None:
    """Return the last layer where this path is right: one site, whose output is the input of the final Linear."""
    masking = forward.member.masking
    if not isinstance(query.target, Tensor):
        return None
    if len(masking.recipe.sites) != 1 or masking.recipe.sites[0].dim != "features" or forward.sites is not None:
        return None
    trace = trace_sites(forward.member, query, consumers=(nn.Linear,))
    linear = trace.consumer.get(0)
    right = trace.order == [0] and isinstance(linear, nn.Linear) and trace.last is linear
    if not right or trace.activations[0].dim() != 2 or type(linear) is not nn.Linear:
        return None
    return LastLayer(Site(masking, 0), linear)


class OtherLayerError(Exception):
    """A query does not go through the last layer of others; it never leaves this folder."""


class LastLayerScorer:
    """Scores of any instances on a fixed list of queries.

    Raises:
        OtherLayerError: a query does not go through the last layer.
    """

    path = "last layer, one matrix product"

    def __init__(self, forward: Forward, last: LastLayer, queries: Sequence[Batch], memory: int) -> None:
        """Run every query once and keep its last hidden representation."""
        self._forward, self._last = forward, last
        hidden = torch.cat([self._hidden(query) for query in queries])
        self._targets = _targets(queries)
        self._differences = forward.measure.is_cross_entropy and _are_classes(self._targets, len(last.linear.weight))
        # Classes outside, queries inside: reductions over classes then run along contiguous memory.
        weights, biases = self._columns_of(*_weight_and_bias(last.linear))
        product = weights.to(hidden.dtype) * hidden
        self._shape = product.shape[:2]
        self._columns = product.reshape(-1, product.shape[2]).t().contiguous()
        self._bias = biases.to(hidden.dtype).expand(self._shape).reshape(-1).contiguous()
        # flipped = (total - keep * kept) / (1 - keep) + bias, where kept has its bias already.
        rate = rounded_keep(last.site.recipe.keep)
        self._ratio = rate / (1.0 - rate)
        looked_up = forward.dtype is None and _ByteSums.fits(self._columns)
        self._sums = _ByteSums(self._columns, scale=scales(last.site.recipe.keep)[0]) if looked_up else None
        self._constant = (product.sum(-1).reshape(-1) / (1.0 - rate)).add_(self._bias, alpha=1.0 + self._ratio)
        full = [values for values in map(forward.full_values, queries) if values is not None]
        self._full_values = torch.cat(full) if full else None
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
        with self._forward.precision():
            trace = trace_sites(self._forward.member, query, consumers=(nn.Linear,))
        if trace.order != [0] or trace.consumer.get(0) is not self._last.linear or trace.last is not self._last.linear:
            raise OtherLayerError
        return trace.activations[0].float()

    def scores(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        result = torch.empty((len(ids), self._queries))
        for start in range(0, len(ids), self.ids_per_chunk):
            part = ids[start : start + self.ids_per_chunk]
            result[start : start + len(part)] = self._chunk(part)
        return result

    def null_scores(self, ids: Tensor) -> Tensor:
        """Return the same: no trial was as cheap."""
        return self.scores(ids)

    def _chunk(self, ids: Tensor) -> Tensor:
        kept = self._kept(ids)
        flipped = torch.sub(self._constant, kept, alpha=self._ratio)
        without = self._values(flipped.view(len(ids), *self._shape))
        if self._full_values is not None:
            return self._full_values - without
        return self._values(kept.view(len(ids), *self._shape)).sub_(without)

    def _kept(self, ids: Tensor) -> Tensor:
        """Return the outputs [ids, columns] under the masks of instances."""
        width, site = len(self._columns), self._last.site
        words = _KEPT_WORDS.words(site, self._columns.device, width, ids)
        if self._sums is not None:
            return self._sums(words).add_(self._bias)
        masks = factors_by_table(words, width, KEEP, site.recipe.keep, self._columns.dtype)
        with self._forward.precision():
            return torch.addmm(self._bias, masks, self._columns).float()

    def _values(self, outputs: Tensor) -> Tensor:
        """Return the measure [ids, queries] of outputs [ids, columns, queries]."""
        if self._differences:
            return _minus_loss(outputs)
        rows = outputs.permute(0, 2, 1).reshape(-1, self._shape[0])
        every = None if self._targets is None else self._targets.repeat(len(outputs), *[1] * (self._targets.dim() - 1))
        return self._forward.measure(rows, every).view(len(outputs), self._queries)


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


class _ByteSums:
    """Products of masks with a few columns [units, columns], a byte of eight units at a time.

    The sum over the kept units of a byte, each multiplied by `scale`, can have 256 values. These are put into a table
    once; then a mask of 512 units is 64 look-ups, and no bit is ever unpacked. For one query that is several times
    faster than a matrix product with masks that are made first, and slower from some dozens of columns on.
    """

    def __init__(self, columns: Tensor, *, scale: float) -> None:
        units, count = columns.shape
        # Bits above the width are undefined; they count for nothing.
        whole = functional.pad(columns, (0, 0, 0, -units % WORD_BITS)).view(-1, _BYTE, count)
        bits = (torch.arange(_VALUES).unsqueeze(1) >> torch.arange(_BYTE)) & 1
        self._table = torch.matmul(bits.to(columns.dtype) * scale, whole).view(-1, count)
        self._starts = _VALUES * torch.arange(len(whole), dtype=torch.int32)
        self._shifts = torch.arange(0, WORD_BITS, _BYTE, dtype=torch.int32)

    @staticmethod
    def fits(columns: Tensor) -> bool:
        """Return whether columns [units, columns] are few enough, and of a kind that can be looked up fast."""
        return columns.shape[1] <= _MOST_COLUMNS and columns.dtype == torch.float32 and columns.device.type == "cpu"

    def __call__(self, words: Tensor) -> Tensor:
        """Return the product [rows, columns] of masks, as packed int32 words [rows, words], with the columns."""
        values = (words.unsqueeze(-1) >> self._shifts).bitwise_and_(_VALUES - 1).view(len(words), -1)
        return functional.embedding_bag(values.add_(self._starts), self._table, mode="sum")


class _KeptWords:
    """Packed mask words that were last used, as many as fit into some memory.

    A word depends on nothing but the masks' recipe and the id, so what is kept stays right. Hashing takes longer than
    the product of one query with all masks; where queries come one at a time, it would be most of the work.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[object, ...], Tensor] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def words(self, site: Site, device: torch.device, width: int, ids: Tensor) -> Tensor:
        """Return the words [ids, words] of a site with so many units."""
        key = (site.masking.handle, site.index, device, width, ids.cpu().numpy().tobytes())
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        words = Instances(ids, "keep").words(site, device, width)[:, : words_for(width)].contiguous()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = words
                self._bytes += _size(key, words)
            while self._bytes > self._most_bytes:
                self._bytes -= _size(*self._kept.popitem(last=False))
        return words


_KEPT_WORDS = _KeptWords()
"""One for all: handles of masks are never given out twice in a process."""


def _size(key: tuple[object, ...], words: Tensor) -> int:
    ids = key[-1]
    return words.numel() * words.element_size() + (len(ids) if isinstance(ids, bytes) else 0)
