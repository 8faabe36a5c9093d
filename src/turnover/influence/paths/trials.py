"""Whether a faster path gives what the plainest gives: both are tried on some queries under a few null ids.

Of forward passes the outputs are compared, since scores may be small where outputs are not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from turnover.batches import Batch, null_ids

from ._last_layer import LastLayer, LastLayerScorer
from ._packed import PackedLinears
from ._sites import find_shared_product
from .forward import Forward

TRIAL_IDS = 4
"""Null ids of a trial that is made once for many pairs."""


def plainest(forward: Forward) -> Forward:
    """Return the forward pass with the batch expanded before the model, which every other path must equal."""
    return replace(forward, broadcast=False, shared=None, packed=None)


def last_layer_agrees(forward: Forward, last: LastLayer, query: Batch, memory: int) -> bool:
    """Return whether one matrix product of the last layer gives the scores of the plainest path."""
    ids, expanded = null_ids(TRIAL_IDS), replace(forward, broadcast=False)
    full_values = forward.full_values(query)
    with expanded.chunk(ids) as chunk:
        reference = expanded.scores(query, full_values, chunk).cpu()
    scores = LastLayerScorer(forward, last, [query], memory).scores(ids)[:, 0]
    return torch.allclose(scores, reference, rtol=forward.tolerance, atol=forward.tolerance, equal_nan=True)


def fastest_agreeing(
    forward: Forward, queries: Sequence[Batch], ids: Tensor, packed: PackedLinears | None
) -> tuple[Forward, dict[int, tuple[Batch, Tensor]]]:
    """Return the forward pass with the shared product where that equals the expanded batch, else with broadcast if so.

    With it the scores of the null ids that were tried, by the address of the query. What is wrong with the loss shows
    here, before the work.
    """
    expanded = plainest(forward)
    reference = _trial(expanded, queries, ids)
    paths = [forward]
    if forward.against == "keep" and forward.sites is None:
        product = find_shared_product(forward.member, queries[0])
        paths = [forward] if product is None else [replace(forward, shared=product), forward]
    if packed is not None and forward.dtype is None and PackedLinears.are_available(forward.member.device):
        paths = [replace(paths[0], packed=packed), *paths]
    for path in paths:
        try:
            trial = _trial(path, queries, ids)
        except Exception:  # noqa: BLE001 - a model that cannot broadcast fails in its own way
            continue
        if all(_same(path, *pair) for pair in zip(trial.outputs, reference.outputs, strict=True)):
            unused = path.packed is not None and not path.packed.is_used
            return replace(path, packed=None) if unused else path, trial.scores
    return expanded, reference.scores


@dataclass(frozen=True)
class _Trial:
    """Some queries under a few null ids."""

    outputs: list[Tensor]
    scores: dict[int, tuple[Batch, Tensor]]  # by the address of the query


def _trial(forward: Forward, queries: Sequence[Batch], ids: Tensor) -> _Trial:
    outputs, scores = [], {}
    full_values = [forward.full_values(query) for query in queries]
    with forward.chunk(ids) as chunk:
        for query, full in zip(queries, full_values, strict=True):
            outputs.append(forward.outputs(query, chunk).float())
            values = forward.scores_of(outputs[-1], query, full, chunk)
            scores[id(query)] = query, values.cpu()
    return _Trial(outputs, scores)


def broadcast_or_expanded(forward: Forward, query: Batch) -> Forward:
    """Return the forward pass with broadcast at the first site where that equals the expanded batch."""
    expanded = replace(forward, broadcast=False)
    with expanded.chunk(null_ids(TRIAL_IDS)) as chunk:
        reference = expanded.outputs(query, chunk).float()
    try:
        with forward.chunk(null_ids(TRIAL_IDS)) as chunk:
            outputs = forward.outputs(query, chunk).float()
    except Exception:  # noqa: BLE001 - a model that cannot broadcast fails in its own way
        return expanded
    return forward if _same(forward, outputs, reference) else expanded


def _same(forward: Forward, outputs: Tensor, reference: Tensor) -> bool:
    """Return whether a faster path gives the outputs of the reference."""
    finite = reference[reference.isfinite()]
    scale, tolerance = float(finite.abs().max()) if len(finite) else 0.0, forward.tolerance
    return outputs.shape == reference.shape and torch.allclose(
        outputs, reference, rtol=tolerance, atol=tolerance * scale, equal_nan=True
    )
