"""The generic path: one query, many instances, both views, one forward pass.

The query enters as a batch of one and grows at the first site; everything before it runs once. Where the model does not
let it grow (torch.cat with something that stayed at one row, padding masks of nn.TransformerEncoder, additions in
place), the query is repeated before the model instead. Which of the two is right is found out on the first chunk, by
comparing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from turnover.batches import Batch, logits_of
from turnover.errors import InfluenceError
from turnover.influence.measures import Goodness
from turnover.influence.members import Member, precision
from turnover.influence.options import null_ids
from turnover.layers import View, map_tensors

from .chunk import Chunk
from .shortcut import Shortcut, find_shortcut, shortcut_in

How = Literal["grown", "repeated"]
TOLERANCE = 1e-4
_TRIAL = 4


@dataclass(frozen=True)
class Pass:
    """How the rows of one model are computed."""

    member: Member
    goodness: Goodness
    against: Literal["keep", "full"]
    sites: frozenset[int] | None
    dtype: torch.dtype | None
    how: How = "grown"
    shortcut: Shortcut | None = None
    call: Any = None

    @property
    def path(self) -> str:
        """Return the path as scores name it."""
        name = {"grown": "grown at the first site", "repeated": "repeated before the model"}[self.how]
        return f"{name}, first product shared" if self.shortcut else name

    @property
    def views(self) -> tuple[View, ...]:
        """Return the views that every instance is seen in; the full network is the same for all."""
        return ("keep", "flip") if self.against == "keep" else ("flip",)


@contextmanager
def chunk(work: Pass, ids: Tensor) -> Iterator[Chunk]:
    """Make a chunk of instances active: kept rows first, then flipped ones."""
    now = Chunk(ids, work.views, flip_sites=work.sites)
    with now, shortcut_in(now, work.shortcut):
        yield now


def outputs_of(work: Pass, query: Batch, now: Chunk) -> Tensor:
    """Return the model's outputs [rows, ...] for one query and the active chunk."""
    rows = len(now)
    args, kwargs = (query.args, query.kwargs) if work.how == "grown" else _repeated(query, rows)
    with precision(work.member.device, work.dtype):
        outputs = logits_of((work.call or work.member.model)(*args, **kwargs))
    return check_outputs(outputs, rows)


def check_outputs(outputs: Any, rows: int) -> Tensor:
    """Return the outputs, or say what is wrong with them."""
    if not isinstance(outputs, Tensor):
        raise InfluenceError(
            f"the model returned a {type(outputs).__name__}. Return a tensor, a tuple that begins with one, or "
            "something with .logits."
        )
    if outputs.dim() == 0 or outputs.shape[0] != rows:
        raise InfluenceError(
            f"the model returned outputs of shape {list(outputs.shape)} for {rows} rows. "
            "Their first dimension must be the batch."
        )
    return outputs


def base_goodness(work: Pass, query: Batch) -> Tensor | None:
    """Return the full network's goodness on a query where scores are taken against it."""
    if work.against == "keep":
        return None
    with precision(work.member.device, work.dtype):
        outputs = logits_of(work.member.model(*query.args, **query.kwargs))
    return work.goodness(check_outputs(outputs, query.rows), query.target)


def scores_of(work: Pass, query: Batch, base: Tensor | None, now: Chunk) -> Tensor:
    """Return the scores [instances] of one query in the active chunk: positive where the instance helps."""
    outputs = outputs_of(work, query, now)
    goodness = work.goodness(outputs, _expanded(query.target, len(outputs)))
    if base is not None:
        return base - goodness
    return goodness[: now.count] - goodness[now.count :]


def predicted(works: Sequence[Pass], query: Batch) -> Batch:
    """Return the query with the label that the full network gives it, the mean of all members, as its target."""
    outputs = [logits_of(work.member.model(*query.args, **query.kwargs)) for work in works]
    if not all(isinstance(output, Tensor) and output.dim() > 1 for output in outputs):
        raise InfluenceError("at_label='predicted' needs class scores [rows, classes]. Give the queries targets.")
    return replace(query, target=torch.stack([output.float() for output in outputs]).mean(0).argmax(-1))


def settle(work: Pass, queries: Sequence[Batch]) -> Pass:
    """Return how to compute: grown where that equals the repeated batch, with the shortcut where that is equal too.

    Tried on some queries under a few never-trained ids, by the outputs of the model: scores may be small where outputs
    are not.
    """
    ids = null_ids(_TRIAL)
    repeated = replace(work, how="repeated", shortcut=None)
    base = base_goodness(work, queries[0])
    with chunk(repeated, ids) as now:  # what is wrong with the loss shows here
        scores_of(repeated, queries[0], base, now)
    wanted = [_trial_outputs(repeated, query, ids) for query in queries]
    settled = grown_or_repeated(work, queries, wanted)
    if settled.how == "repeated":
        return settled
    found = find_shortcut(work.member, queries[0]) if work.against == "keep" and work.sites is None else None
    if found is None:
        return settled
    shorter = replace(settled, shortcut=found)
    return shorter if _same(shorter, queries, ids, wanted) else settled


def grown_or_repeated(work: Pass, queries: Sequence[Batch], wanted: Sequence[Tensor] | None = None) -> Pass:
    """Return a pass in which queries grow at the first site, where that equals the repeated batch.

    Args:
        work: how all else is computed.
        queries: on which both are compared.
        wanted: outputs of the repeated batch under the ids of the trial, where they are known; None: they are computed.
    """
    ids = null_ids(_TRIAL)
    repeated, grown = replace(work, how="repeated", shortcut=None), replace(work, how="grown", shortcut=None)
    if wanted is None:
        wanted = [_trial_outputs(repeated, query, ids) for query in queries]
    return grown if _same(grown, queries, ids, wanted) else repeated


def _trial_outputs(work: Pass, query: Batch, ids: Tensor) -> Tensor:
    with chunk(work, ids) as now:
        return outputs_of(work, query, now).float()


def _same(work: Pass, queries: Sequence[Batch], ids: Tensor, wanted: Sequence[Tensor]) -> bool:
    """Tell whether a faster way gives the wanted outputs for all queries; one that raises does not."""
    tolerance = TOLERANCE if work.dtype in (None, torch.float32, torch.float64) else 0.1
    for query, outputs in zip(queries, wanted, strict=True):
        try:
            found = _trial_outputs(work, query, ids)
        except Exception:  # noqa: BLE001 - a model that cannot grow fails in its own way
            return False
        finite = outputs[outputs.isfinite()]
        scale = float(finite.abs().max()) if len(finite) else 0.0
        if found.shape != outputs.shape or not torch.allclose(
            found, outputs, rtol=tolerance, atol=tolerance * scale, equal_nan=True
        ):
            return False
    return True


def _repeated(query: Batch, rows: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return _expanded(query.args, rows), _expanded(query.kwargs, rows)


def _expanded(value: Any, rows: int) -> Any:
    """Return the value with every tensor of one row repeated."""

    def expand(tensor: Tensor) -> Tensor:
        one_row = tensor.dim() > 0 and tensor.shape[0] == 1
        return tensor.expand(rows, *tensor.shape[1:]).contiguous() if one_row else tensor

    return map_tensors(value, expand)
