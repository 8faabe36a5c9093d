"""Questions about training rows: their self-influence, their held-out predictions, and whether their ids match.

A row is seen under its own mask, in one pass over the data.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from turnover.batches import IGNORED, Batch, null_ids
from turnover.errors import InfluenceError, WeakSignalWarning
from turnover.influence._rows import TrainRows
from turnover.influence.ensemble import Ensemble
from turnover.influence.estimators import OwnScores
from turnover.influence.executors import Executor
from turnover.influence.measures import Measure
from turnover.layers import View, map_tensors
from turnover.progress import progress_bar
from turnover.scores import OutOfSample, Scores

from ._mask_bias import MaskBias, check_references
from ._subnetworks import Chunk, Subnetworks

_FEWEST_ROWS = 20
# Self-influence is asked of rows that may be few, and judged mildly. Of ids that match the training, scores of all
# rows depend: rows under other ids pass in one case of twenty.
_LEAST_SIGMAS, _LEAST_SIGMAS_OF_IDS = 1.0, 1.64
# So many training rows say whether ids match the training; fewer where they are that clear. With less than a hundred
# ids, an honest but short training would often be suspected.
_FEWEST_CHECKED, _CHECKED_ROWS = 100, 512
_SURE = 5.0
_AT_ONCE = 4096  # rows whose corrected outputs become predictions


# Self-influence


def own_scores(
    whole: Sequence[Subnetworks], rows: TrainRows, add: Callable[[int], Any], *, executor: Executor, center: bool
) -> OwnScores:
    """Return the score of every row on itself; with `center` the mean score of null ids is subtracted from all."""
    ids: list[Tensor] = []
    values: list[np.ndarray] = []
    nulls: list[np.ndarray] = []
    tokens: list[np.ndarray] = []
    for batch_ids, own, null, of_tokens in executor.map(_OwnOfBatch(whole), _labeled(rows)):
        values.append(own)
        nulls.append(null)
        tokens.extend(of_tokens)
        ids.append(batch_ids)
        add(len(batch_ids))
    if not ids:
        raise InfluenceError("there are no rows: the data is empty.")
    row_ids, member_nulls = torch.cat(ids), np.concatenate(nulls, 1)
    offsets = member_nulls.astype(np.float64).mean(1).astype(np.float32)
    if not center:
        offsets = np.zeros_like(offsets)
    return OwnScores(
        row_ids,
        np.concatenate(values, 1) - offsets[:, None],
        path="both views of each row",
        offset=offsets.mean() if center else None,
        null=(member_nulls - offsets[:, None]).mean(0) if len(row_ids) > 1 else None,  # one has no standard deviation
        # The same number from each token as from the row, so that the mean of the tokens stays the row's score.
        tokens=[row - offsets.mean() for row in tokens] if len(tokens) == len(row_ids) else (),
    )


@dataclass(frozen=True)
class _RowScores:
    rows: Tensor  # [replicas, rows]
    tokens: Tensor | None = None  # mean of all replicas [rows, tokens]; None where a row has one value
    counted: Tensor | None = None  # which of the tokens count [rows, tokens]


@dataclass(frozen=True)
class _OwnOfBatch:
    """What a batch adds to self-influence: a task of an executor."""

    whole: Sequence[Subnetworks]

    def __call__(self, item: tuple[Batch, Tensor, int]) -> tuple[Tensor, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return the ids of a batch, scores of its rows and of null ids [networks, rows], and those of its tokens."""
        batch, ids, done = item
        other_ids = null_ids(len(ids)) + done  # another one for each row
        moved = [(one, batch.to(one.member.device)) for one in self.whole]
        own = [_scores_of_rows(one, there, ids, tokens=True) for one, there in moved]
        null = [_scores_of_rows(one, there, other_ids).rows.numpy() for one, there in moved]
        return ids, np.concatenate([part.rows.numpy() for part in own]), np.concatenate(null), _token_rows(own)


def _labeled(rows: TrainRows) -> Iterator[tuple[Batch, Tensor, int]]:
    """Yield batches with their ids and the number of rows before them, or raise where they have no targets."""
    done = 0
    for batch, ids in rows.batches_with_ids():
        if batch.target is None:
            raise InfluenceError("self-influence needs the rows' own targets. Give data with labels: (x, y, id).")
        yield batch, ids, done
        done += len(ids)


def _scores_of_rows(one: Subnetworks, batch: Batch, ids: Tensor, *, tokens: bool = False) -> _RowScores:
    """Return the score of every row on itself under the masks of the given ids, and of its tokens if asked for."""
    measure, replicas = one.measure, one.member.replicas
    measure.check_shifted(batch.kwargs.get("input_ids"), batch.target)
    if one.against == "full" and replicas == 1:
        full = one.member.run(batch.args, batch.kwargs, batch.rows)
        outputs = torch.cat([full, _outputs_of(one, batch, ids, one.views)])
    else:
        # The full view of one replica is not that of the model, which is their mean: it takes a row of its own.
        outputs = _outputs_of(one, batch, ids, (one.against, "flip"))
    targets = _repeated(batch.target, 2 * replicas, len(ids))

    def with_minus_without(values: Tensor) -> Tensor:
        both = values.unflatten(0, (replicas, 2, len(ids)))
        return both[:, 0] - both[:, 1]

    own = with_minus_without(measure(outputs, targets)).cpu()
    token_values = measure.token_values(outputs, targets) if tokens else None
    if token_values is None:
        return _RowScores(own)
    each = with_minus_without(token_values).mean(0).cpu()
    counted = torch.ones(each.shape, dtype=torch.bool)
    if isinstance(batch.target, Tensor) and batch.target.shape == counted.shape:
        counted = (batch.target != IGNORED).cpu()
    return _RowScores(own, each, counted)


def _outputs_of(one: Subnetworks, batch: Batch, ids: Tensor, views: tuple[View, ...]) -> Tensor:
    """Return outputs [replicas * views * rows, ...] of a batch under the masks of ids."""
    args, kwargs = _repeated((batch.args, batch.kwargs), len(views), batch.rows)
    with Chunk(ids, views, flips=one.flips) as chunk:
        return one.member.run(args, kwargs, one.member.replicas * len(chunk))


def _repeated(value: Any, copies: int, rows: int) -> Any:
    """Return the value with every tensor of `rows` rows repeated as a whole."""
    if copies == 1:
        return value

    def repeat(tensor: Tensor) -> Tensor:
        return torch.cat([tensor] * copies) if tensor.dim() > 0 and tensor.shape[0] == rows else tensor

    return map_tensors(value, repeat)


def _token_rows(own: Sequence[_RowScores]) -> list[np.ndarray]:
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


# Whether ids match the training


def warn_of_weak_signal(scores: Scores) -> None:
    """Warn where self-influence cannot be told from that of null ids: then these rows were hardly trained."""
    if scores.null is not None and len(scores) >= _FEWEST_ROWS:
        own = scores.values[np.isfinite(scores.values)]
        _warn_if_weak(own, scores.null, len(scores), least=_LEAST_SIGMAS, stacklevel=4)


def warn_of_other_ids(whole: Sequence[Subnetworks], rows: TrainRows) -> None:
    """Warn where the kept subnetworks of training rows do not know them better than the flipped ones.

    Then ids do not match the training, and all scores of these ids are noise. Few rows are enough to see that they do;
    only where that is not clear, more are looked at.
    """
    if callable(whole[0].measure.kind):  # a measure of one's own need not be better for having trained on a row
        whole = [replace(one, measure=Measure("loss", one.measure.loss)) for one in whole]
    # Both halves are alike without training; else null ids say how they differ.
    alike = all(
        one.against == "keep" and all(site.keep == 0.5 for site in one.member.masking.recipe.sites) for one in whole
    )
    own, null, ids = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
    try:
        for batch in rows.sample(_CHECKED_ROWS):
            if batch.ids is None or batch.target is None:
                return
            if not alike:
                null = np.append(null, _mean_scores(whole, batch, null_ids(batch.rows) + len(own)))
            own = np.append(own, _mean_scores(whole, batch, batch.ids))
            ids = np.append(ids, batch.ids.cpu().numpy())
            if _sigmas(_of_each_id(own, ids), null)[0] > _SURE:
                return
    except Exception:  # noqa: BLE001 - rows that were given for their ids alone may be anything
        return
    of_ids = _of_each_id(own, ids)
    if len(of_ids) >= _FEWEST_CHECKED:
        _warn_if_weak(of_ids, null, len(own), least=_LEAST_SIGMAS_OF_IDS, stacklevel=7)


def _of_each_id(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the mean score of each id: rows of a group have one mask, and are no independent cases."""
    _, places = np.unique(ids, return_inverse=True)
    return np.bincount(places, scores) / np.bincount(places)


def _mean_scores(whole: Sequence[Subnetworks], batch: Batch, ids: Tensor) -> np.ndarray:
    parts = [_scores_of_rows(one, batch.to(one.member.device), ids).rows for one in whole]
    return torch.cat(parts).mean(0).numpy()


def _sigmas(own: np.ndarray, null: np.ndarray) -> tuple[float, float]:
    """Return by how many standard errors mean self-influence lies above that of null ids, 0 without any; the error."""
    above = float(own.mean()) - (float(null.mean()) if len(null) else 0.0)
    error = float(null.std() * np.sqrt(1 / len(own) + 1 / len(null)) if len(null) else own.std() / np.sqrt(len(own)))
    return above / error if error else math.copysign(math.inf, above), error


def _warn_if_weak(own: np.ndarray, null: np.ndarray, rows: int, *, least: float, stacklevel: int) -> None:
    if not len(own):
        return
    sigmas, error = _sigmas(own, null)
    if sigmas < least:
        warnings.warn(
            WeakSignalWarning(
                f"the self-influence of these {rows:,} rows cannot be told from that of null ids, which were never "
                f"trained (mean {own.mean():.3g}, standard error {error:.2g}): scores of these ids are noise. Were the "
                "rows trained under other ids, such as places in a batch or new ones in every epoch? Give the data, "
                "and the id= or groups= column, that the model was trained with; turnover.with_instance_ids keeps ids "
                "with their rows. If the ids are right, train longer.",
            ),
            stacklevel=stacklevel,
        )


# Held-out predictions


def held_out_predictions(
    ensemble: Ensemble,
    rows: TrainRows,
    predict: Callable[[Tensor], Tensor] | None,
    *,
    references_from: TrainRows,
    references: int,
    named: Callable[[np.ndarray], dict[str, Any]],
    progress: bool | None,
) -> OutOfSample:
    """Return the held-out prediction of every row, that of its flipped subnetworks; see `Influence.out_of_sample`.

    All sites are flipped, whatever the estimator says: a part that was half trained has seen the row. `named` gives the
    ids of rows that were read.
    """
    count = check_references(references)
    mask_bias = None
    if count:
        members = [Subnetworks(member, ensemble.measure) for replicas in ensemble.masked for member in replicas]
        mask_bias = MaskBias.of(members, references_from, count, memory=ensemble.memory, progress=progress)
    whole = [Subnetworks(member, ensemble.measure) for member in ensemble.whole]
    ids: list[Tensor] = []
    outputs: list[Tensor] = []
    targets: list[Any] = []
    with progress_bar(rows.length, progress, "rows") as bar:
        for batch, batch_ids in rows.batches_with_ids():
            finish = _unchanged if mask_bias is not None else predict or _default_prediction(batch.target)
            parts = [finish(_outputs_of(one, batch.to(one.member.device), batch_ids, ("flip",))) for one in whole]
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
            finish, device = predict or _default_prediction(targets[0]), whole[0].member.device
            parts = [finish(part.to(device)).float().cpu() for part in corrected.flatten(0, 1).split(_AT_ONCE)]
            predictions = torch.cat(parts).unflatten(0, corrected.shape[:2])
    return OutOfSample(
        predictions.numpy(),
        **named(row_ids.numpy()),
        labels=_class_labels(targets, predictions.shape[-1]),
        path=path,
    )


def _class_labels(targets: Sequence[Any], classes: int) -> np.ndarray | None:
    if not all(isinstance(part, Tensor) and part.dim() == 1 and not part.is_floating_point() for part in targets):
        return None
    labels = torch.cat(list(targets)).cpu().numpy()
    return labels if labels.min() >= 0 and labels.max() < classes else None


def _unchanged(outputs: Tensor) -> Tensor:
    return outputs


def _is_regression(target: Any) -> bool:
    return isinstance(target, Tensor) and target.is_floating_point()


def _default_prediction(target: Any) -> Callable[[Tensor], Tensor]:
    return _unchanged if _is_regression(target) else _class_probabilities


def _class_probabilities(outputs: Tensor) -> Tensor:
    if outputs.shape[-1] == 1:
        yes = outputs.float().sigmoid()
        return torch.cat([1 - yes, yes], -1)
    return functional.softmax(outputs.float(), -1)
