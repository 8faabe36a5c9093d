"""How probably each training label is wrong: by the record of a training, or by held-out predictions.

The record is read as a mixture: a share of labels, the rate, was changed to another class, each to any of them equally
likely. With probabilities p of the classes, a given label y has the probability (1 − rate) p_y + rate (1 − p_y) /
(classes − 1). Weights of several predictions and the rate are those of the highest likelihood of the given labels. A
calibrated prediction may become as certain as it likes; labels that still disagree with certain predictions are what
the rate explains.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from turnover.errors import ApplicationError
from turnover.scores import OutOfSample
from turnover.storage import atomic_file, open_arrays

from .labels import RecordedLabels, WrongLabels, labels_of

Doubles = NDArray[np.float64]

FEWEST_VALIDATION = 10
"""Validation rows without which a record cannot be weighed."""

# The full view may be more certain of a row that it was trained on by at most so much, in log-odds.
_MOST_SHIFT = 4.0
# Labels are not changed at random, and a prediction is not what it says: that misleads the rate by about so much of
# the share of errors that the prediction expects of itself, and log-odds by so much (standard deviations).
_RATE_MISLED, _ODDS_MISLED = 0.04, 0.25
# Equally likely rates, scales and errors of log-odds that probabilities are averaged over.
_RATES, _SCALES, _ODDS = 9, 5, 9
_DRAWS, _TAIL = 20, 0.05
# Three numbers need no more rows than this.
_MOST_ROWS = 10_000
_STARTS = (-3.0, -1.0)
# Twice the gain of log-likelihood above which a rate differs from 0 (one-sided, 5 %).
_CRITICAL = 2.71
# How far above the likeliest rate the width of its likelihood is read, at how many widths from it the likelihood is
# computed, and the rates between, where it is interpolated.
_RATE_STEP = 0.02
_WIDTHS = np.array([-4, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4])
_BETWEEN = np.linspace(0, 0.5, 2001)
# Standard deviation of the logarithm of a scale, before any label is seen.
_SCALE_SPREAD = 0.3


@dataclass(frozen=True)
class RowRecord:
    """What one training says of its training rows, and of validation rows, which it was not trained on.

    Attributes:
        full: mean log-probabilities of the full view over epochs [n, classes], each weighted by its number.
        left_out: predictions by heads that were fitted without the row [n, classes]; None: the network has no last
            linear layer over vectors.
        validation_left_out: predictions of the validation rows by the same heads.
    """

    labels: NDArray[np.int64]
    full: NDArray[np.float32]
    left_out: NDArray[np.float32] | None
    validation_labels: NDArray[np.int64]
    validation_full: NDArray[np.float32]
    validation_left_out: NDArray[np.float32] | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an .npz file."""
        with atomic_file(path) as file:
            np.savez(file, **{name: value for name, value in vars(self).items() if value is not None})

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RowRecord":
        """Return what `save` wrote."""
        with open_arrays(path) as kept:
            values = {name: kept[name] for name in kept.files}
        return cls(**{"left_out": None, "validation_left_out": None, **values})


def wrong_labels(
    record: RowRecord | None = None, *, predictions: OutOfSample | ArrayLike | None = None, labels: Any = None
) -> WrongLabels:
    """Return how probably each training label is wrong, by one of two sources.

    A record of the training gives the better list, and says how many of the listed labels are expected to be wrong.
    The class scores of a row are a weighted mean of the full view's log-probabilities over epochs and of the left-out
    heads; the weights predict the validation labels best, and so does their scale, which stays near that of either
    prediction where validation labels do not tell. The share of wrong labels is that among the training rows by
    the heads, which never met their labels, and a little less: what they cannot know looks like a wrong label, too.
    Validation labels are taken to be as noisy or correct, whichever is likelier by the heads. Without heads the share
    is that among the validation rows. The full view did meet the label of a training row, and is too certain of it: by
    how much is the shift at which the class scores find that share of wrong labels. Share and scale are not known
    exactly: probabilities are means over what they may be.

    Args:
        record: `TrainingRecord.finish()`, or
        predictions: held-out ones: `Influence.out_of_sample()`, or from folds or from elsewhere, [rows, classes]; for
            labels that are numbers [rows, 1].
        labels: given labels of the predicted rows; None: those of the data.

    Raises:
        ApplicationError: neither or both were given, labels do not fit, or there are too few validation rows.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> true = rng.integers(0, 2, 400)
        >>> given = np.where(np.arange(400) < 40, 1 - true, true)
        >>> full = np.log(np.where(np.eye(2)[true] > 0, 0.9, 0.1)) * rng.uniform(0.5, 3, (400, 1))
        >>> found = wrong_labels(RowRecord(given, full, full, true[40:], full[40:], full[40:]))
        >>> int(found.likely[:40].sum()), int(found.likely[40:].sum())
        (40, 0)
        >>> wrong_labels(predictions=[[0.75, 0.25], [0.5, 0.5], [0.875, 0.125]], labels=[0, 1, 1]).p_wrong
        array([0.25 , 0.5  , 0.875], dtype=float32)
    """
    if (record is None) == (predictions is None):
        raise ApplicationError("give either a record, `TrainingRecord.finish()`, or predictions=, with labels=.")
    if record is None:
        if not isinstance(predictions, OutOfSample):
            array = np.asarray(predictions, np.float32)
            predictions = OutOfSample(array, ids=np.arange(len(array)))
        return labels_of(labels, predictions).beside(predictions.probs)
    if len(record.validation_labels) < FEWEST_VALIDATION:
        raise ApplicationError(
            f"{len(record.validation_labels)} validation rows are too few to weigh predictions by; give "
            f"{FEWEST_VALIDATION} or more: TrainingRecord(model, train=..., validation=...)."
        )
    weighed = _weighed(record)
    equally_likely, best = fit_scale(weighed.held_scores, record.validation_labels, weighed.held_rate, count=_SCALES)
    odds = odds_against(best * weighed.scores, record.labels)
    rates = np.clip(normal_values(weighed.rate, weighed.rate_stderr, count=_RATES), 0.0, 0.5)
    classes = record.full.shape[1]
    beliefs = [
        (float(rate), factor / best, _shift(factor / best * odds, float(rate), classes))
        for factor in equally_likely
        for rate in rates
    ]

    def wrong(odds: Doubles, rate: float, scale: float, shift: float) -> Doubles:
        return wrong_probability(right_at(scale * odds + shift), rate, classes)

    p_wrong = np.zeros(len(odds))
    for belief in beliefs:
        p_wrong += wrong(odds, *belief) / len(beliefs)
    # By the odds themselves: probabilities of 0 and 1 have no order.
    order = np.lexsort((np.arange(len(odds)), -odds))
    listed = odds[p_wrong > 0.5]
    expected_range = _range(np.array([wrong(listed, *belief).sum() for belief in beliefs]), len(listed))
    return RecordedLabels(p_wrong.astype(np.float32), order, weighed.rate, expected_range)


@dataclass(frozen=True)
class Mixture:
    """Weights of predictions, and the share of wrong labels beside them with its standard error."""

    weights: tuple[float, ...]
    rate: float
    loss: float
    stderr: float | None = None


@dataclass(frozen=True)
class _Weighed:
    """Shares of wrong labels, and class scores of training and validation rows."""

    rate: float
    rate_stderr: float
    held_rate: float
    scores: Doubles
    held_scores: Doubles


def _weighed(record: RowRecord) -> _Weighed:
    labels, held_labels = record.labels, record.validation_labels
    full, held_full = centered(record.full), centered(record.validation_full)
    if record.left_out is None or record.validation_left_out is None:
        rate, stderr = _lowered(fit_rate([held_full], held_labels), [held_full])
        return _Weighed(rate, stderr, rate, full, held_full)
    heads, held_heads = centered(record.left_out), centered(record.validation_left_out)
    # The rate is by the heads, which met no row's label.
    chosen = some_of(len(labels))
    parts = bent(np.concatenate([heads[chosen], held_heads]) / (heads.std() or 1.0))
    given = np.concatenate([labels[chosen], held_labels])
    training = np.arange(len(given)) < len(chosen)
    same = fit_weights(parts, given).loss < fit_weights(parts, given, noisy=training).loss
    rate, stderr = _lowered(fit_rate(parts, given, noisy=None if same else training), parts)
    # A mean of two predictions that are probabilities of their own, not their sum: they know much of the same.
    alone = fit_weights([heads], labels)
    of_full, of_heads = fit_weights([held_full, held_heads], held_labels, rates=(0.0, alone.rate)).weights
    total = of_full + of_heads / alone.weights[0]
    scores, held_scores = of_full * full + of_heads * heads, of_full * held_full + of_heads * held_heads
    return _Weighed(rate, stderr, rate if same else 0.0, scores / total, held_scores / total)


def _lowered(fit: Mixture, parts: Sequence[Doubles]) -> tuple[float, float]:
    """Return a rate and the standard deviation of its error, by chance and because the model is not the truth.

    What a prediction cannot know of a class, such as irony, looks like a wrong label too: rates come out too high. So
    it is lowered by what the model may mislead it, and by no more than its standard error.
    """
    by_chance, misled = fit.stderr or 0.0, _RATE_MISLED * expected_error(parts, fit.weights)
    return max(0.0, fit.rate - min(by_chance, misled)), float(np.hypot(by_chance, misled))


def _shift(odds: Doubles, rate: float, classes: int) -> float:
    some = odds[some_of(len(odds))]
    low, high = 0.0, _MOST_SHIFT if rate else 0.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if rate_is_higher(right_at(some + middle), rate, classes) else (middle, high)
    return low


def _range(expected: Doubles, count: int) -> tuple[int, int]:
    if not count:
        return 0, 0
    share = np.clip(expected / count, 1e-6, 1 - 1e-6)
    log_odds = np.log(share / (1 - share))[:, None] + normal_values(0.0, _ODDS_MISLED, count=_ODDS)
    # The same draws for the same numbers; with the binomial spread of a count.
    draws = np.random.default_rng(0).binomial(count, right_at(-log_odds), (_DRAWS, *log_odds.shape))
    low, high = np.quantile(draws, [_TAIL, 1 - _TAIL])
    return int(np.floor(low)), int(np.ceil(high))


def centered(values: Any) -> Doubles:
    """Return class scores less their mean over the classes."""
    array = np.asarray(values, np.float64)
    return array - array.mean(-1, keepdims=True)


def bent(scores: Doubles) -> list[Doubles]:
    """Return class scores, in units of their standard deviation, and the same bent down where they are low.

    Scores of ridge regression are nearly probabilities: those of impossible classes end at 0, and their logarithms
    are lower than a line through the others has them.
    """
    return [centered(scores), centered(-np.logaddexp(0.0, -scores))]


def some_of(rows: int) -> NDArray[np.int64]:
    """Return places of rows, evenly spread, as many as a fit needs at most."""
    return np.linspace(0, rows - 1, min(_MOST_ROWS, rows)).astype(np.int64)


def fit_weights(
    parts: Sequence[Doubles],
    labels: NDArray[np.int64],
    *,
    rates: Sequence[float] | None = None,
    noisy: NDArray[np.bool_] | None = None,
    tested: bool = True,
) -> Mixture:
    """Return the weights of class scores [rows, classes] and the rate that make given labels likeliest."""
    chosen = some_of(len(labels))
    labels = labels[chosen]
    scores = torch.from_numpy(np.stack([np.asarray(one, np.float64)[chosen] for one in parts]))
    share = torch.ones(len(labels)) if noisy is None else torch.from_numpy(noisy[chosen])
    share = share.to(scores)
    spread = scores.std(dim=(1, 2)).clamp_min(1e-12)
    scores, given = scores / spread[:, None, None], torch.from_numpy(np.asarray(labels, np.int64))[:, None]
    starts = [(start, None) for start in _STARTS] if rates is None else [(0.0, rate) for rate in rates]
    fits = [_maximize(scores, given, share, *start) for start in starts]
    weights, rate, loss = min(fits, key=lambda fit: fit[2])
    if rates is None and tested and 2 * len(labels) * (_maximize(scores, given, share, 0.0, 0.0)[2] - loss) < _CRITICAL:
        rate = 0.0
    return Mixture(tuple((weights / spread).tolist()), rate, loss)


def _maximize(
    scores: Tensor, given: Tensor, share: Tensor, start: float, fixed: float | None
) -> tuple[Tensor, float, float]:
    """Return weights, rate and loss, the rate being fixed or found from a start."""
    parameters = torch.tensor([0.0] * len(scores) + [start], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([parameters], max_iter=60, line_search_fn="strong_wolfe")

    def weights_and_rate() -> tuple[Tensor, Any]:
        return parameters[:-1].clamp(-8, 5).exp(), parameters[-1].sigmoid() / 2 if fixed is None else fixed

    def loss() -> Tensor:
        weights, rate = weights_and_rate()
        logs = torch.log_softmax((weights[:, None, None] * scores).sum(0), 1).gather(1, given)[:, 0]
        return -likelihood(logs.exp(), rate * share, scores.shape[2]).log().mean()

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(closure)  # pyright: ignore[reportArgumentType]
    with torch.no_grad():
        weights, rate = weights_and_rate()
        return weights, float(rate), float(loss())


def fit_rate(parts: Sequence[Doubles], labels: NDArray[np.int64], *, noisy: NDArray[np.bool_] | None = None) -> Mixture:
    """Return the likeliest fit with the mean and the standard deviation of what its rate may be.

    Every rate up to one half is as probable before any label is seen. The likeliest one alone misleads where labels
    hardly tell: a weak prediction looks like wrong labels, and then nearly all lower rates are as likely.
    """
    rows = min(_MOST_ROWS, len(labels))

    def loss(rate: float) -> float:
        return rows * fit_weights(parts, labels, rates=(rate,), noisy=noisy).loss

    best = fit_weights(parts, labels, noisy=noisy, tested=False)
    gain = 2 * (loss(best.rate + _RATE_STEP) - rows * best.loss)
    width = _RATE_STEP / np.sqrt(max(gain, _RATE_STEP**2))
    tried = np.concatenate([best.rate * np.linspace(0, 0.75, 4), best.rate + width * _WIDTHS, [0.5]])
    tried = np.unique(np.clip(tried, 0.0, 0.5))
    losses = np.interp(_BETWEEN, tried, [loss(float(rate)) for rate in tried])
    mass = np.exp(losses.min() - losses)
    mean = float(np.average(_BETWEEN, weights=mass))
    return replace(best, rate=mean, stderr=float(np.sqrt(np.average(np.square(_BETWEEN - mean), weights=mass))))


def expected_error(parts: Sequence[Doubles], weights: Sequence[float]) -> float:
    """Return how many of the likeliest classes are not the true one, by weighted class scores themselves."""
    scores = np.asarray(sum(weight * np.asarray(part) for weight, part in zip(weights, parts, strict=True)))
    return 1 - float(right_at(odds_against(scores, np.argmax(scores, 1))).mean())


def fit_scale(scores: Doubles, labels: NDArray[np.int64], rate: float, *, count: int = 1) -> tuple[Doubles, float]:
    """Return factors of class scores that make given labels likely: some of equal probability, and the likeliest.

    It is near 1 where labels do not tell. Some hundred rows do not where nearly all are predicted, or where the rate
    explains those that are not: without a prior the factor would grow without bound.
    """
    chosen = some_of(len(labels))
    scores, labels = scores[chosen], labels[chosen]
    logs = _SCALE_SPREAD * np.linspace(-5, 5, 101)
    rights = (right_at(odds_against(np.exp(log) * scores, labels)) for log in logs)
    fits = [np.log(likelihood(right, rate, scores.shape[1])).sum() for right in rights]
    losses = np.square(logs / _SCALE_SPREAD) / 2 - np.array(fits)
    mass = np.exp(losses.min() - losses)
    below = (mass.cumsum() - mass / 2) / mass.sum()
    return np.exp(np.interp(_middles(count), below, logs)), float(np.exp(logs[losses.argmin()]))


def normal_values(mean: float, deviation: float, *, count: int) -> Doubles:
    """Return values that stand for equal shares of a normal distribution."""
    return mean + deviation * np.array([NormalDist().inv_cdf(share) for share in _middles(count)])


def _middles(count: int) -> Doubles:
    return (np.arange(count) + 0.5) / count


def odds_against(scores: Doubles, labels: NDArray[np.int64]) -> Doubles:
    """Return the log-odds of all other classes against the given label."""
    rows, others = np.arange(len(labels)), scores.copy()
    others[rows, labels] = -np.inf
    return np.logaddexp.reduce(others, axis=1) - scores[rows, labels]


def right_at(odds: Doubles) -> Doubles:
    """Return the probability of labels as the true ones, from log-odds against them."""
    return np.exp(-np.logaddexp(0.0, odds))


def likelihood(right: Any, rate: Any, classes: int) -> Any:
    """Return the probability of given labels, the probability of each as the true one being given."""
    return (1 - rate) * right + rate * (1 - right) / (classes - 1) + 1e-300


def rate_is_higher(right: Doubles, rate: float, classes: int) -> bool:
    """Tell whether the rate that makes given labels likeliest is above one; the likelihood has one maximum."""
    slope = (1 - right) / (classes - 1) - right
    return bool((slope / likelihood(right, rate, classes)).sum() > 0)


def wrong_probability(right: Doubles, rate: float, classes: int) -> Doubles:
    """Return how probably each given label is wrong."""
    if not rate:
        return np.zeros(len(right))
    return 1 - (1 - rate) * right / likelihood(right, rate, classes)
