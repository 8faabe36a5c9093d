"""One pass over the training data with both views of every row: self-influence and out-of-sample predictions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.batches import IGNORED, Batch, logits_of
from turnover.errors import InfluenceError
from turnover.layers import View, map_tensors

from .measures import Goodness
from .members import precision
from .options import null_ids
from .paths.chunk import Chunk
from .paths.forward import Pass, check_outputs

Predict = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class OwnScores:
    """Scores of rows on themselves.

    Attributes:
        rows: [replicas, rows].
        tokens: those of single tokens, the mean of all replicas [rows, tokens]; None where a row has one value.
        counted: which of the tokens count [rows, tokens].
    """

    rows: Tensor
    tokens: Tensor | None = None
    counted: Tensor | None = None


def self_scores(work: Pass, batch: Batch, ids: Tensor, *, tokens: bool = False) -> OwnScores:
    """Return the score of every row on itself under the masks of the given ids, and of its tokens if asked for."""
    if batch.target is None:
        raise InfluenceError("self-influence needs the rows' own targets. Give data with labels: (x, y, id).")
    work.goodness.refuse_own_inputs(batch.kwargs.get("input_ids"), batch.target)
    rows, replicas = len(ids), work.member.replicas
    judge = token_goodness if tokens else _no_tokens
    if work.against == "full" and replicas == 1:
        with precision(work.member.device, work.dtype):
            full = logits_of(work.member.model(*batch.args, **batch.kwargs))
        flipped = _outputs(work, batch, ids, work.views)
        own = (work.goodness(full, batch.target) - work.goodness(flipped, batch.target)).unsqueeze(0)
        learned, unseen = (judge(work.goodness, outputs, batch.target) for outputs in (full, flipped))
        each = None if learned is None or unseen is None else (learned - unseen).unsqueeze(0)
    else:
        # The full view of one replica is not that of the model, which is their mean: it takes a row of its own.
        outputs = _outputs(work, batch, ids, (work.against, "flip"))
        targets = _twice(batch.target, 2 * replicas, rows)
        own = _with_minus_without(work.goodness(outputs, targets), replicas, rows)
        every = judge(work.goodness, outputs, targets)
        each = None if every is None else _with_minus_without(every, replicas, rows)
    if each is None:
        return OwnScores(own.cpu())
    counted = torch.ones(each.shape[1:], dtype=torch.bool)
    if isinstance(batch.target, Tensor) and batch.target.shape == counted.shape:
        counted = (batch.target != IGNORED).cpu()
    return OwnScores(own.cpu(), each.mean(0).cpu(), counted)


def _with_minus_without(goodness: Tensor, replicas: int, rows: int) -> Tensor:
    both = goodness.unflatten(0, (replicas, 2, rows))
    return both[:, 0] - both[:, 1]


def _no_tokens(goodness: Goodness, outputs: Tensor, targets: Any) -> None:
    return None


def token_goodness(goodness: Goodness, outputs: Tensor, targets: Any) -> Tensor | None:
    """Return the goodness of every token [rows, tokens]; None where a row has one value, or more than one dimension."""
    judge = goodness.loss if goodness.measure == "loss" else goodness.measure
    if callable(judge):
        given = outputs.float() if outputs.dtype in (torch.float16, torch.bfloat16) else outputs
        values = judge(given, targets).detach().float()
        values = -values if goodness.measure == "loss" else values
        return values if values.dim() == 2 else None
    if not isinstance(targets, Tensor) or targets.is_floating_point() or targets.dim() != 2 or outputs.dim() != 3:
        return None
    # Every token as a row of its own: what is said of rows holds for each.
    return goodness(outputs.flatten(0, 1), targets.flatten()).view(targets.shape)


def unseen_outputs(work: Pass, batch: Batch, ids: Tensor) -> Tensor:
    """Return the outputs [replicas * rows, ...] of the part of each replica that never learned the row."""
    # All sites are flipped, whatever `sites` asks for: a part that was half trained has seen the row.
    return _outputs(replace(work, sites=None), batch, ids, ("flip",))


def _outputs(work: Pass, batch: Batch, ids: Tensor, views: tuple[View, ...]) -> Tensor:
    args, kwargs = _twice(batch.args, len(views), batch.rows), _twice(batch.kwargs, len(views), batch.rows)
    with Chunk(ids, views, flip_sites=work.sites) as now, precision(work.member.device, work.dtype):
        outputs = logits_of(work.member.model(*args, **kwargs))
    return check_outputs(outputs, work.member.replicas * len(now))


def _twice(value: Any, copies: int, rows: int) -> Any:
    """Return the value with every tensor of `rows` rows repeated as a whole."""
    if copies == 1:
        return value

    def repeat(tensor: Tensor) -> Tensor:
        return torch.cat([tensor] * copies) if tensor.dim() > 0 and tensor.shape[0] == rows else tensor

    return map_tensors(value, repeat)


def null_for(rows: int, start: int) -> Tensor:
    """Return a never-trained id for every row, another one for each."""
    return null_ids(rows) + start


def check_ids(batches: Iterator[Batch]) -> Iterator[tuple[Batch, Tensor]]:
    """Yield batches with their ids, or raise where they have none."""
    for batch in batches:
        if batch.ids is None:
            raise InfluenceError(
                "the data has no instance ids, so it is not known which mask each row trained. "
                "Give turnover.with_instance_ids(dataset), or a loader made of it."
            )
        yield batch, batch.ids


def class_labels(targets: Sequence[Any], classes: int) -> np.ndarray | None:
    """Return the targets of all rows where they are classes of the predictions, else None."""
    if not all(isinstance(part, Tensor) and part.dim() == 1 and not part.is_floating_point() for part in targets):
        return None
    labels = torch.cat(list(targets)).cpu().numpy()
    return labels if labels.min() >= 0 and labels.max() < classes else None
