"""How probably each training label is wrong: by the record of a training, or by held-out predictions.

The record is read as a mixture of right and changed labels (`_mixture.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from turnover.errors import ApplicationError
from turnover.scores import OutOfSample

from ._mixture import (
    Doubles,
    Mixture,
    bent,
    centered,
    expected_error,
    fit_rate,
    fit_scale,
    fit_weights,
    normal_values,
    odds_against,
    rate_is_higher,
    right_at,
    some_of,
    wrong_probability,
)
from .labels import RecordedLabels, WrongLabels, labels_of
from .training_record import RowRecord

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
class _Weighed:
    """What a record says before probabilities.

    Attributes:
        rate: share of wrong labels among the training rows.
        rate_stderr: standard deviation of its error.
        held_rate: share of wrong labels among the validation rows.
        scores: of the classes, of the training rows [n, classes].
        held_scores: the same of the validation rows.
    """

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
    """Return what is added to log-odds against labels, because the full view met these, so that they find the rate."""
    some = odds[some_of(len(odds))]
    low, high = 0.0, _MOST_SHIFT if rate else 0.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if rate_is_higher(right_at(some + middle), rate, classes) else (middle, high)
    return low


def _range(expected: Doubles, count: int) -> tuple[int, int]:
    """Return the least and the largest number of wrong labels among so many likely errors, expected by each belief."""
    if not count:
        return 0, 0
    share = np.clip(expected / count, 1e-6, 1 - 1e-6)
    log_odds = np.log(share / (1 - share))[:, None] + normal_values(0.0, _ODDS_MISLED, count=_ODDS)
    # The same draws for the same numbers; with the binomial spread of a count.
    draws = np.random.default_rng(0).binomial(count, right_at(-log_odds), (_DRAWS, *log_odds.shape))
    low, high = np.quantile(draws, [_TAIL, 1 - _TAIL])
    return int(np.floor(low)), int(np.ceil(high))
