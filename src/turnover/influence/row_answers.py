"""Answers about training rows, from one pass over the data: self-influence and out-of-sample predictions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from turnover.errors import InfluenceError
from turnover.scores import OutOfSample, TokenScores

from .estimate.masks_alone import MasksAlone
from .pairs import average
from .paths.forward import Pass
from .progress import Progress
from .rows_pass import OwnScores, check_ids, class_labels, null_for, self_scores, unseen_outputs
from .train import TrainRows

_PREDICTED_AT_ONCE = 4096


def each_on_itself(works: Sequence[Pass], rows: TrainRows, bar: Progress, *, center: bool) -> dict[str, Any]:
    """Return values, ids, errors, null and offset of self-influence, as `Scores` takes them, and `tokens` or None."""
    ids: list[Tensor] = []
    values: list[np.ndarray] = []
    nulls: list[np.ndarray] = []
    tokens: list[np.ndarray] = []
    done = 0
    for batch, some in check_ids(rows.batches()):
        other = null_for(len(some), done)
        there = [(work, batch.to(work.member.device)) for work in works]
        own = [self_scores(work, moved, some, tokens=True) for work, moved in there]
        values.append(np.concatenate([part.rows.numpy() for part in own]))
        nulls.append(np.concatenate([self_scores(work, moved, other).rows.numpy() for work, moved in there]))
        tokens.extend(_token_rows(own))
        ids.append(some)
        done += len(some)
        bar.add(len(some))
    if not ids:
        raise InfluenceError("there are no rows: the data is empty.")
    member_nulls = np.concatenate(nulls, 1)
    offsets = member_nulls.astype(np.float64).mean(1).astype(np.float32)
    if not center:
        offsets = np.zeros_like(offsets)
    mean, errors = average(np.concatenate(values, 1) - offsets[:, None])
    return {
        "values": mean,
        "ids": torch.cat(ids).numpy(),
        "stderr": errors,
        "offset": offsets.mean() if center else None,
        "null": (member_nulls - offsets[:, None]).mean(0) if done > 1 else None,  # one number has no spread
        "path": "both views of each row",
        "replicas": len(member_nulls),
        # The same number from each token as from the row, so that the mean of the tokens stays the row's score.
        "tokens": TokenScores.of_rows(row - offsets.mean() for row in tokens) if len(tokens) == done else None,
    }


def _token_rows(own: Sequence[OwnScores]) -> list[np.ndarray]:
    """Return the scores of each row's tokens, the mean over all networks; nothing where there are none."""
    counted = own[0].counted
    if counted is None or any(part.tokens is None for part in own):
        return []
    networks = sum(len(part.rows) for part in own)
    total = torch.stack([len(part.rows) * part.tokens for part in own if part.tokens is not None]).sum(0)
    mean = (total / networks).masked_fill(~counted, torch.nan)
    # Padding at the end depends on the rows beside, the row does not.
    ends = [int(row.nonzero().max()) + 1 if bool(row.any()) else 0 for row in counted]
    return [row[:end].numpy() for row, end in zip(mean, ends, strict=True)]


def each_unseen(
    works: Sequence[Pass],
    rows: TrainRows,
    bar: Progress,
    *,
    predict: Callable[[Tensor], Tensor] | None,
    masks: MasksAlone | None = None,
) -> OutOfSample:
    """Return what the part of each network that never saw a row predicts for it.

    Args:
        works: the networks.
        rows: with ids.
        bar: told of every row.
        predict: maps outputs to predictions; None: as is usual for the targets.
        masks: tells what masks say by themselves, to be taken off; None: it is not.
    """
    ids: list[Tensor] = []
    replicas: list[Tensor] = []
    targets: list[Any] = []
    for batch, some in check_ids(rows.batches()):
        turn = _as_they_are if masks is not None else predict or _usual_prediction(batch.target)
        outputs = [turn(unseen_outputs(work, batch.to(work.member.device), some)).float().cpu() for work in works]
        replicas.append(torch.cat([part.unflatten(0, (-1, len(some))) for part in outputs]))
        if masks is not None:
            masks.check(replicas[-1])
        ids.append(some)
        targets.append(batch.target)
        bar.add(len(some))
    if not ids:
        raise InfluenceError("there are no rows: the data is empty.")
    predictions = torch.cat(replicas, 1)
    if masks is not None:
        corrected = masks.taken_off(predictions, torch.cat(ids).cpu(), classes=not _is_regression(targets[0]))
        turn, device = predict or _usual_prediction(targets[0]), works[0].member.device
        parts = [turn(part.to(device)).float().cpu() for part in corrected.flatten(0, 1).split(_PREDICTED_AT_ONCE)]
        predictions = torch.cat(parts).unflatten(0, corrected.shape[:2])
    return OutOfSample(
        replicas=predictions.numpy(),
        ids=torch.cat(ids).numpy(),
        labels=class_labels(targets, predictions.shape[-1]),
        path="flipped view of each row"
        + ("" if masks is None else f", without what its mask says of {len(masks.references)} others"),
    )


def _as_they_are(outputs: Tensor) -> Tensor:
    return outputs


def _is_regression(target: Any) -> bool:
    return isinstance(target, Tensor) and target.is_floating_point()


def _usual_prediction(target: Any) -> Callable[[Tensor], Tensor]:
    """Return softmax for classes, and the outputs as they are for a regression."""
    if _is_regression(target):
        return _as_they_are
    return _class_probabilities


def _class_probabilities(outputs: Tensor) -> Tensor:
    """Return softmax, or both probabilities where one logit stands for two classes."""
    if outputs.shape[-1] == 1:
        yes = outputs.float().sigmoid()
        return torch.cat([1 - yes, yes], -1)
    return functional.softmax(outputs.float(), -1)
