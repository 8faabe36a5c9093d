"""Self-influence of training rows, in one pass over the data; and whether their ids are those of the training."""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from turnover.batches import IGNORED, Batch, null_ids
from turnover.errors import InfluenceError, WeakSignalWarning
from turnover.layers import View, map_tensors
from turnover.progress import progress_bar
from turnover.scores import Scores, TokenScores

from ._data import TrainRows
from ._setup import Setup
from .blocks import average
from .estimate import Original, OwnScores
from .execution import as_workers
from .measures import Measure
from .members import evaluating
from .paths import Chunk, Forward

_FEWEST_ROWS = 20
# Self-influence is asked of rows that may be few, and judged mildly. Of ids that match the training, scores of all
# rows depend: rows under other ids pass in one case of twenty.
_LEAST_SIGMAS, _LEAST_SIGMAS_OF_IDS = 1.0, 1.64
# So many training rows say whether ids match the training; fewer where they are that clear. With less than a hundred
# ids, an honest but short training would often be suspected.
_FEWEST_CHECKED, _CHECKED_ROWS = 100, 512
_SURE = 5.0


@dataclass(frozen=True)
class _OwnScores:
    """Scores of rows on themselves."""

    rows: Tensor  # [replicas, rows]
    tokens: Tensor | None = None  # mean of all replicas [rows, tokens]; None where a row has one value
    counted: Tensor | None = None  # which of the tokens count [rows, tokens]


@dataclass(frozen=True)
class _OwnOfBatch:
    """What a batch adds to self-influence: a task of an executor."""

    forwards: Sequence[Forward]

    def __call__(self, item: tuple[Batch, Tensor, int]) -> tuple[Tensor, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return the ids of a batch, scores of its rows and of null ids [networks, rows], and those of its tokens."""
        batch, ids, done = item
        other_ids = null_ids(len(ids)) + done  # another one for each row
        moved = [(forward, batch.to(forward.member.device)) for forward in self.forwards]
        own = [_own_scores(forward, there, ids, tokens=True) for forward, there in moved]
        null = [_own_scores(forward, there, other_ids).rows.numpy() for forward, there in moved]
        return ids, np.concatenate([part.rows.numpy() for part in own]), np.concatenate(null), _token_rows(own)


def self_influence(setup: Setup, rows: TrainRows, progress: bool | None) -> Scores:
    """Return Scores [rows]: by the masks of the models, or by gradients of models without."""
    return (_by_masks if setup.members.have_masks else _by_gradients)(setup, rows, progress)


def _by_masks(setup: Setup, rows: TrainRows, progress: bool | None) -> Scores:
    ids: list[Tensor] = []
    values: list[np.ndarray] = []
    nulls: list[np.ndarray] = []
    tokens: list[np.ndarray] = []
    whole, center = setup.members.whole, setup.options.center
    with evaluating(whole), as_workers(setup.executor), progress_bar(rows.length, progress, "rows") as bar:
        workers = setup.workers(whole, [member.digest() for member in whole])
        for batch_ids, own, null, of_tokens in workers.map(_OwnOfBatch(setup.forwards(whole)), _labeled(rows)):
            values.append(own)
            nulls.append(null)
            tokens.extend(of_tokens)
            ids.append(batch_ids)
            bar.update(len(batch_ids))
    if not ids:
        raise InfluenceError("there are no rows: the data is empty.")
    row_ids, member_nulls = torch.cat(ids), np.concatenate(nulls, 1)
    offsets = member_nulls.astype(np.float64).mean(1).astype(np.float32)
    if not center:
        offsets = np.zeros_like(offsets)
    mean, errors = average(np.concatenate(values, 1) - offsets[:, None])
    raw = replace(setup.options, estimator=Original())
    scores = Scores(
        values=mean,
        **setup.instances.named(row_ids.numpy(), rows),
        stderr=errors,
        offset=offsets.mean() if center else None,
        null=(member_nulls - offsets[:, None]).mean(0) if len(row_ids) > 1 else None,  # one has no standard deviation
        unit=setup.measure.unit,
        path="both views of each row",
        replicas=len(member_nulls),
        provenance=setup.provenance([], row_ids, options=raw),
    )
    if len(tokens) < len(row_ids):
        return scores
    # The same number from each token as from the row, so that the mean of the tokens stays the row's score.
    return scores.with_tokens(TokenScores.of_rows(row - offsets.mean() for row in tokens))


def _by_gradients(setup: Setup, rows: TrainRows, progress: bool | None) -> Scores:
    if setup.measure.kind != "loss":
        raise InfluenceError(
            f"self-influence of a finished model is that of its loss, got measure={setup.measure.unit!r}. Give "
            "measure='loss', or wrap the model before training (turnover.wrap)."
        )
    members = list(setup.members)
    with evaluating(members), progress_bar(rows.length, progress, "rows") as bar:
        weights = [member.digest() for member in members]
        fit = setup.fitted(setup.forwards(members), weights)
        if not isinstance(fit, OwnScores):
            raise InfluenceError(
                f"estimator={setup.options.estimator.name!r} has no self-influence for models without masks. Give "
                "estimator='curvature'."
            )
        own, ids = fit.own_scores(rows, bar.update)
    values, errors = average(own)
    return Scores(
        values=values,
        **setup.instances.named(ids.numpy(), rows),
        stderr=errors,
        unit=setup.measure.unit,
        path=fit.result,
        replicas=len(members),
        provenance=setup.provenance([], ids, weights=weights, train=rows),
    )


def _labeled(rows: TrainRows) -> Iterator[tuple[Batch, Tensor, int]]:
    """Yield batches with their ids and the number of rows before them, or raise where they have no targets."""
    done = 0
    for batch, ids in rows.batches_with_ids():
        if batch.target is None:
            raise InfluenceError("self-influence needs the rows' own targets. Give data with labels: (x, y, id).")
        yield batch, ids, done
        done += len(ids)


def _own_scores(forward: Forward, batch: Batch, ids: Tensor, *, tokens: bool = False) -> _OwnScores:
    """Return the score of every row on itself under the masks of the given ids, and of its tokens if asked for."""
    measure, replicas = forward.measure, forward.member.replicas
    measure.check_shifted(batch.kwargs.get("input_ids"), batch.target)
    if forward.against == "full" and replicas == 1:
        full = forward.run(batch.args, batch.kwargs, batch.rows)
        outputs = torch.cat([full, outputs_of(forward, batch, ids, forward.views)])
    else:
        # The full view of one replica is not that of the model, which is their mean: it takes a row of its own.
        outputs = outputs_of(forward, batch, ids, (forward.against, "flip"))
    targets = _repeated(batch.target, 2 * replicas, len(ids))

    def with_minus_without(values: Tensor) -> Tensor:
        both = values.unflatten(0, (replicas, 2, len(ids)))
        return both[:, 0] - both[:, 1]

    own = with_minus_without(measure(outputs, targets)).cpu()
    token_values = measure.token_values(outputs, targets) if tokens else None
    if token_values is None:
        return _OwnScores(own)
    each = with_minus_without(token_values).mean(0).cpu()
    counted = torch.ones(each.shape, dtype=torch.bool)
    if isinstance(batch.target, Tensor) and batch.target.shape == counted.shape:
        counted = (batch.target != IGNORED).cpu()
    return _OwnScores(own, each, counted)


def outputs_of(forward: Forward, batch: Batch, ids: Tensor, views: tuple[View, ...]) -> Tensor:
    """Return outputs [replicas * views * rows, ...] of a batch under the masks of ids."""
    args, kwargs = _repeated((batch.args, batch.kwargs), len(views), batch.rows)
    with Chunk(ids, views, flip_sites=forward.sites) as chunk:
        return forward.run(args, kwargs, forward.member.replicas * len(chunk))


def _repeated(value: Any, copies: int, rows: int) -> Any:
    """Return the value with every tensor of `rows` rows repeated as a whole."""
    if copies == 1:
        return value

    def repeat(tensor: Tensor) -> Tensor:
        return torch.cat([tensor] * copies) if tensor.dim() > 0 and tensor.shape[0] == rows else tensor

    return map_tensors(value, repeat)


def _token_rows(own: Sequence[_OwnScores]) -> list[np.ndarray]:
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


def warn_of_weak_signal(scores: Scores) -> None:
    """Warn where self-influence cannot be told from that of null ids: then these rows were hardly trained."""
    if scores.null is not None and len(scores) >= _FEWEST_ROWS:
        own = scores.values[np.isfinite(scores.values)]
        _warn_if_weak(own, scores.null, len(scores), least=_LEAST_SIGMAS, stacklevel=4)


def check_ids(setup: Setup) -> None:
    """Look once whether the ids of `train` are those of the training, and warn where scores rest on other masks."""
    if setup.train is None or not setup.options.estimator.needs_masks or setup.are_ids_checked:
        return
    setup.are_ids_checked = True
    forwards = setup.forwards(setup.members.whole)
    if callable(setup.measure.kind):  # a measure of one's own need not be better for having trained on a row
        by_loss = Measure("loss", setup.measure.loss)
        forwards = [replace(forward, measure=by_loss) for forward in forwards]
    with evaluating(setup.members.whole):
        _warn_of_other_ids(forwards, setup.train)


def _warn_of_other_ids(forwards: Sequence[Forward], rows: TrainRows) -> None:
    """Warn where the kept subnetworks of training rows do not know them better than the flipped ones.

    Then ids do not match the training, and all scores of these ids are noise. Few rows are enough to see that they do;
    only where that is not clear, more are looked at.
    """
    # Both halves are alike without training; else null ids say how they differ.
    alike = all(
        forward.against == "keep" and all(site.keep == 0.5 for site in forward.member.masking.recipe.sites)
        for forward in forwards
    )
    own, null, ids = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
    try:
        for batch in rows.sample(_CHECKED_ROWS):
            if batch.ids is None or batch.target is None:
                return
            if not alike:
                null = np.append(null, _mean_scores(forwards, batch, null_ids(batch.rows) + len(own)))
            own = np.append(own, _mean_scores(forwards, batch, batch.ids))
            ids = np.append(ids, batch.ids.cpu().numpy())
            if _sigmas(_of_each_id(own, ids), null)[0] > _SURE:
                return
    except Exception:  # noqa: BLE001 - rows that were given for their ids alone may be anything
        return
    of_ids = _of_each_id(own, ids)
    if len(of_ids) >= _FEWEST_CHECKED:
        _warn_if_weak(of_ids, null, len(own), least=_LEAST_SIGMAS_OF_IDS, stacklevel=6)


def _of_each_id(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the mean score of each id: rows of a group have one mask, and are no independent cases."""
    _, places = np.unique(ids, return_inverse=True)
    return np.bincount(places, scores) / np.bincount(places)


def _mean_scores(forwards: Sequence[Forward], batch: Batch, ids: Tensor) -> np.ndarray:
    """Return the score of every row on itself under the masks of the given ids, the mean over all networks."""
    parts = [_own_scores(forward, batch.to(forward.member.device), ids).rows for forward in forwards]
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
