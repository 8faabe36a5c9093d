"""Held-out predictions of training rows: what their flipped subnetworks say, in one pass over the data."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from turnover.errors import InfluenceError
from turnover.progress import progress_bar
from turnover.scores import OutOfSample

from ._data import TrainRows
from ._self_influence import outputs_of
from ._setup import Setup
from .estimate import MaskBias, check_references
from .members import evaluating

_AT_ONCE = 4096  # rows whose corrected outputs become predictions


def held_out_predictions(
    setup: Setup,
    rows: TrainRows,
    predict: Callable[[Tensor], Tensor] | None,
    references: int,
    progress: bool | None,
) -> OutOfSample:
    """Return the held-out prediction of every row, that of its flipped subnetworks; see `Influence.out_of_sample`."""
    count, memory = check_references(references), setup.options.memory
    mask_bias = None
    if count:
        mask_bias = MaskBias.of(setup.forwards(), setup.train or rows, count, memory=memory, progress=progress)
    # All sites are flipped, whatever `sites` says: a part that was half trained has seen the row.
    forwards = [replace(forward, sites=None) for forward in setup.forwards(setup.members.whole)]
    ids: list[Tensor] = []
    outputs: list[Tensor] = []
    targets: list[Any] = []
    with evaluating([*setup.members.whole, *setup.members]), progress_bar(rows.length, progress, "rows") as bar:
        for batch, batch_ids in rows.batches_with_ids():
            finish = _unchanged if mask_bias is not None else predict or _default_prediction(batch.target)
            parts = [
                finish(outputs_of(forward, batch.to(forward.member.device), batch_ids, ("flip",)))
                for forward in forwards
            ]
            outputs.append(torch.cat([part.float().cpu().unflatten(0, (-1, len(batch_ids))) for part in parts]))
            if mask_bias is not None:
                mask_bias.check(outputs[-1])
            ids.append(batch_ids)
            targets.append(batch.target)
            bar.update(len(batch_ids))
        if not ids:
            raise InfluenceError("there are no rows: the data is empty.")
        row_ids, predictions, path = torch.cat(ids).cpu(), torch.cat(outputs, 1), "flipped view of each row"
        if mask_bias is not None:
            path += f", mask-bias correction by {len(mask_bias.references)} reference examples"
            corrected = mask_bias.corrected(predictions, row_ids, classes=not _is_regression(targets[0]))
            finish, device = predict or _default_prediction(targets[0]), forwards[0].member.device
            parts = [finish(part.to(device)).float().cpu() for part in corrected.flatten(0, 1).split(_AT_ONCE)]
            predictions = torch.cat(parts).unflatten(0, corrected.shape[:2])
    return OutOfSample(
        predictions.numpy(),
        **setup.instances.named(row_ids.numpy(), rows),
        labels=_class_labels(targets, predictions.shape[-1]),
        path=path,
    )


def _class_labels(targets: Sequence[Any], classes: int) -> np.ndarray | None:
    """Return the targets of all rows where they are classes of the predictions, else None."""
    if not all(isinstance(part, Tensor) and part.dim() == 1 and not part.is_floating_point() for part in targets):
        return None
    labels = torch.cat(list(targets)).cpu().numpy()
    return labels if labels.min() >= 0 and labels.max() < classes else None


def _unchanged(outputs: Tensor) -> Tensor:
    return outputs


def _is_regression(target: Any) -> bool:
    return isinstance(target, Tensor) and target.is_floating_point()


def _default_prediction(target: Any) -> Callable[[Tensor], Tensor]:
    """Return softmax for classes, and the outputs as they are for a regression."""
    return _unchanged if _is_regression(target) else _class_probabilities


def _class_probabilities(outputs: Tensor) -> Tensor:
    """Return softmax, or both probabilities where one logit stands for two classes."""
    if outputs.shape[-1] == 1:
        yes = outputs.float().sigmoid()
        return torch.cat([1 - yes, yes], -1)
    return functional.softmax(outputs.float(), -1)
