"""One pass over the training data with both views of every row: self-influence and out-of-sample predictions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.errors import InfluenceError
from turnover.layers.views import View
from turnover.wrapping.rows import logits_of

from .chunk import Chunk
from .forward import Pass, check_outputs
from .members import precision
from .pairs import null_ids
from .queries import Batch, like

Predict = Callable[[Tensor], Tensor]


def self_scores(work: Pass, batch: Batch, ids: Tensor) -> Tensor:
    """Return the score of every row on itself [replicas, rows], under the masks of the given ids."""
    if batch.target is None:
        raise InfluenceError("self-influence needs the rows' own targets. Give data with labels: (x, y, id).")
    rows, replicas = len(ids), work.member.replicas
    if work.against == "full" and replicas == 1:
        with precision(work.member.device, work.dtype):
            full = work.goodness(logits_of(work.member.model(*batch.args, **batch.kwargs)), batch.target)
        return (full - work.goodness(_outputs(work, batch, ids, work.views), batch.target)).unsqueeze(0).cpu()
    # The full view of one replica is not that of the model, which is their mean: it takes a row of its own.
    outputs = _outputs(work, batch, ids, (work.against, "flip"))
    goodness = work.goodness(outputs, _twice(batch.target, 2 * replicas, rows)).view(replicas, 2, rows)
    return (goodness[:, 0] - goodness[:, 1]).cpu()


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
    if isinstance(value, Tensor):
        return torch.cat([value] * copies) if value.dim() > 0 and value.shape[0] == rows else value
    if isinstance(value, dict):
        return {name: _twice(item, copies, rows) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return like(value, [_twice(item, copies, rows) for item in value])
    return value


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
