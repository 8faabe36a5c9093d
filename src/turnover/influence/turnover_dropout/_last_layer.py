"""The last layer: where the only site feeds the final Linear, all pairs are one matrix product.

The logits of instance i on query q under the mask of i are bits(i) @ (h(q) * W) / keep + bias, and those under the
flipped mask are (the sum over all units - bits(i) @ (h(q) * W)) / (1 - keep) + bias: one product of mask bits
[instances, units] with [units, classes * queries] gives both views of every pair. For one or few queries the product is
looked up, a byte of the mask at a time.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from turnover.batches import Batch, null_ids
from turnover.influence.ensemble import Member
from turnover.layers import KEEP, Instances, Site, factors_by_table, scales
from turnover.masks import WORD_BITS, rounded_keep, words_for

from ._subnetworks import Subnetworks

LAST_LAYER = "last layer, one matrix product"
"""This path as scores name it."""
_COPIES = 4  # arrays of the size of the product that are alive at once
_TRIAL_IDS = 4
_MOST_COLUMNS = 16
_BYTE = 8
_VALUES = 1 << _BYTE


def ends_in_last_layer(subnetworks: Subnetworks, queries: Sequence[Batch]) -> bool:
    """Tell whether scores are one product with the final Linear, as structure says and the first query shows."""
    sites = subnetworks.member.masking.recipe.sites
    if len(sites) != 1 or sites[0].dim != "features" or subnetworks.flips is not None or subnetworks.compiled:
        return False
    if not all(isinstance(query.target, Tensor) and _into_last_layer(subnetworks.member, query) for query in queries):
        return False
    full_values = subnetworks.full_values(queries[0])
    with subnetworks.chunk(null_ids(_TRIAL_IDS)) as chunk:
        reference = subnetworks.scores(queries[0], full_values, chunk).cpu()
    scores = LastLayerScorers(subnetworks, queries[:1], 2**20)(null_ids(_TRIAL_IDS))[:, 0]
    tolerance = subnetworks.tolerance
    return torch.allclose(scores, reference, rtol=tolerance, atol=tolerance, equal_nan=True)


def _into_last_layer(member: Member, query: Batch) -> tuple[Tensor, nn.Linear] | None:
    """Return what the only site of a model gives its final Linear, and that layer; None: it does something else."""
    # With their versions, which writing in place changes.
    given: list[tuple[Tensor, int | None]] = []
    made: list[tuple[nn.Module, Any, bool, Tensor, int | None]] = []

    def after_site(module: nn.Module, args: Any, output: Any) -> None:
        value = output[0] if isinstance(output, tuple) else output
        if isinstance(value, Tensor):
            given.append((value, _version(value)))

    def after_linear(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        inputs = args[0] if args else None
        is_new = bool(given) and given[-1][1] is not None and _version(given[-1][0]) == given[-1][1]
        made.append((module, inputs, is_new, output, _version(output)))

    path = member.masking.recipe.sites[0].path
    hooks = [module.register_forward_hook(after_site) for name, module in member.root.named_modules() if name == path]
    hooks += [
        module.register_forward_hook(after_linear) for module in member.root.modules() if isinstance(module, nn.Linear)
    ]
    try:
        with member.precision():
            logits = query.logits(member.model)
    finally:
        for hook in hooks:
            hook.remove()
    if len(given) != 1 or not made:
        return None
    hidden, (last, inputs, is_unchanged, output, version) = given[0][0], made[-1]
    runs = sum(module is last for module, *_ in made)
    is_output = logits is output and version is not None and _version(output) == version
    # A class derived from Linear may do something else in forward.
    if type(last) is not nn.Linear or inputs is not hidden or not (is_unchanged and is_output) or runs > 1:
        return None
    return (hidden.float(), last) if hidden.dim() == 2 else None


def _version(value: Tensor) -> int | None:
    """Return a number that changes when a tensor is written to; None where that is not counted."""
    return None if value.is_inference() else value._version


class OtherLayerError(Exception):
    """A query does not go through the last layer; it never leaves this folder."""


class LastLayerScorers:
    """Scores of any instances on a fixed list of queries, as many side by side as fit into the memory.

    Raises:
        OtherLayerError: a query does not go through the last layer.
    """

    def __init__(self, subnetworks: Subnetworks, queries: Sequence[Batch], memory: int) -> None:
        """Run every query once and keep its last hidden representation."""
        found = [_into_last_layer(subnetworks.member, query) for query in queries]
        known = [one for one in found if one is not None]
        if len(known) < len(found) or len({id(linear) for _, linear in known}) > 1:
            raise OtherLayerError
        hidden, linear = torch.cat([values for values, _ in known]), known[0][1]
        # Hidden units times classes times queries must fit, beside what a chunk takes.
        count = max(1, memory // (8 * linear.weight.numel()))
        self._parts = [
            _Scorer(subnetworks, linear, hidden[at : at + count], queries[at : at + count], memory)
            for at in range(0, len(queries), count)
        ]

    def __call__(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        return torch.cat([part.scores(ids) for part in self._parts], 1)


class _Scorer:
    def __init__(
        self, subnetworks: Subnetworks, linear: nn.Linear, hidden: Tensor, queries: Sequence[Batch], memory: int
    ) -> None:
        self._subnetworks, self._site = subnetworks, Site(subnetworks.member.masking, 0)
        self._targets = _targets(queries)
        self._differences = subnetworks.measure.is_cross_entropy and _are_classes(self._targets, len(linear.weight))
        # Classes outside, queries inside: reductions over classes then run along contiguous memory.
        bias = torch.zeros_like(linear.weight[:, 0]) if linear.bias is None else linear.bias
        weights, biases = self._columns_of(linear.weight, bias)
        product = weights.to(hidden.dtype) * hidden
        self._shape = product.shape[:2]
        self._columns = product.reshape(-1, product.shape[2]).t().contiguous()
        self._bias = biases.to(hidden.dtype).expand(self._shape).reshape(-1).contiguous()
        # flipped = (total - keep * kept) / (1 - keep) + bias, where kept has its bias already.
        rate = rounded_keep(self._site.recipe.keep)
        self._ratio = rate / (1.0 - rate)
        looked_up = subnetworks.member.dtype is None and ByteSums.fits(self._columns)
        self._sums = ByteSums(self._columns, scale=scales(self._site.recipe.keep)[0]) if looked_up else None
        self._constant = (product.sum(-1).reshape(-1) / (1.0 - rate)).add_(self._bias, alpha=1.0 + self._ratio)
        full = [values for values in map(subnetworks.full_values, queries) if values is not None]
        self._full_values = torch.cat(full) if full else None
        self._queries = len(queries)
        per_id = 4 * (_COPIES * self._columns.shape[1] + 2 * self._columns.shape[0])
        self._ids_per_chunk = max(1, min(4096, memory // per_id))

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

    def scores(self, ids: Tensor) -> Tensor:
        """Return scores [ids, queries] on the CPU."""
        result = torch.empty((len(ids), self._queries))
        for start in range(0, len(ids), self._ids_per_chunk):
            part = ids[start : start + self._ids_per_chunk]
            result[start : start + len(part)] = self._chunk(part)
        return result

    def _chunk(self, ids: Tensor) -> Tensor:
        kept = self._kept(ids)
        flipped = torch.sub(self._constant, kept, alpha=self._ratio)
        without = self._values(flipped.view(len(ids), *self._shape))
        if self._full_values is not None:
            return self._full_values - without
        return self._values(kept.view(len(ids), *self._shape)).sub_(without)

    def _kept(self, ids: Tensor) -> Tensor:
        """Return the outputs [ids, columns] under the masks of instances."""
        width = len(self._columns)
        words = Instances(ids, "keep").words(self._site, self._columns.device, width)[:, : words_for(width)]
        if self._sums is not None:
            return self._sums(words).add_(self._bias)
        masks = factors_by_table(words, width, KEEP, self._site.recipe.keep, self._columns.dtype)
        with self._subnetworks.member.precision():
            return torch.addmm(self._bias, masks, self._columns).float()

    def _values(self, outputs: Tensor) -> Tensor:
        """Return the measure [ids, queries] of outputs [ids, columns, queries]."""
        if self._differences:
            return _minus_loss(outputs)
        rows = outputs.permute(0, 2, 1).reshape(-1, self._shape[0])
        every = None if self._targets is None else self._targets.repeat(len(outputs), *[1] * (self._targets.dim() - 1))
        return self._subnetworks.measure(rows, every).view(len(outputs), self._queries)


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


class ByteSums:
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
