"""How probably each training label is wrong, and how many of them are: from the record of one training."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError

from ._noise import (
    NoiseFit,
    bent,
    centered,
    expected_error,
    fit_rate,
    fit_scale,
    fit_weights,
    normal_values,
    odds_against,
    rate_is_higher,
    some_of,
    wrong_probability,
)
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


@dataclass(frozen=True)
class WrongLabels:
    """How probably each training label is wrong.

    Attributes:
        probability: of being wrong, of each row's label [n].
        order: places of all rows, the likeliest label error first.
        likely: whether a label is more probably wrong than right [n]: the likely label errors.
        rate: estimated share of wrong labels among all.
        expected_range: how many of the likely label errors are wrong labels at least and at most (90 % interval).
    """

    probability: NDArray[np.float32]
    order: NDArray[np.int64]
    likely: NDArray[np.bool_]
    rate: float
    expected_range: tuple[int, int]

    @property
    def expected(self) -> float:
        """Return how many of the likely label errors are expected to be wrong labels."""
        return float(self.probability[self.likely].astype(np.float64).sum())


def wrong_labels(record: RowRecord) -> WrongLabels:
    """Return how probably each training label is wrong.

    The class scores of a row are a weighted mean of the full view's log-probabilities over epochs and of the left-out
    heads; the weights predict the validation labels best, and so does their scale, which stays near that of either
    prediction where validation labels do not tell. The share of wrong labels is that among the training rows by
    the heads, which never met their labels, and a little less: what they cannot know looks like a wrong label, too.
    Validation labels are taken to be as noisy or correct, whichever is likelier by the heads. Without heads the share
    is that among the validation rows. The full view did meet the label of a training row, and is too certain of it: by
    how much is the shift at which the class scores find that share of wrong labels. Share and scale are not known
    exactly: probabilities are means over what they may be.

    Raises:
        ApplicationError: there are too few validation rows.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> true = rng.integers(0, 2, 400)
        >>> given = np.where(np.arange(400) < 40, 1 - true, true)
        >>> full = np.log(np.where(np.eye(2)[true] > 0, 0.9, 0.1)) * rng.uniform(0.5, 3, (400, 1))
        >>> record = RowRecord(given, full, full, true[40:], full[40:], full[40:])
        >>> int(wrong_labels(record).likely[:40].sum()), int(wrong_labels(record).likely[40:].sum())
        (40, 0)
    """
    if len(record.validation_labels) < FEWEST_VALIDATION:
        raise ApplicationError(
            f"{len(record.validation_labels)} validation rows are too few to weigh predictions by; give "
            f"{FEWEST_VALIDATION} or more: TrainingRecord(model, train=..., validation=...)."
        )
    judged, labels = _judged(record), record.labels
    scale = fit_scale(judged.held_scores, record.validation_labels, judged.held_rate, count=_SCALES)
    odds = odds_against(scale.best * judged.scores, labels)
    rates = np.clip(normal_values(judged.rate, judged.rate_stderr, count=_RATES), 0.0, 0.5)
    beliefs = [
        _Belief.at(odds, rate=rate, scale=factor / scale.best, classes=record.full.shape[1])
        for factor in scale.equally_likely
        for rate in rates
    ]
    probability = np.zeros(len(labels))
    for belief in beliefs:
        probability += belief.wrong(odds) / len(beliefs)
    likely = probability > 0.5
    # By the odds themselves: probabilities of 0 and 1 have no order.
    order = np.lexsort((np.arange(len(labels)), -odds))
    expected_range = _range(np.array([belief.wrong(odds[likely]).sum() for belief in beliefs]), int(likely.sum()))
    return WrongLabels(probability.astype(np.float32), order, likely, judged.rate, expected_range)


@dataclass(frozen=True)
class _Judged:
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
    scores: NDArray[np.float64]
    held_scores: NDArray[np.float64]


def _judged(record: RowRecord) -> _Judged:
    held_labels, full, held_full = record.validation_labels, centered(record.full), centered(record.validation_full)
    if record.left_out is None or record.validation_left_out is None:
        rate, stderr = _with_error(fit_rate([held_full], held_labels), [held_full])
        return _Judged(rate, stderr, rate, full, held_full)
    heads, held_heads = centered(record.left_out), centered(record.validation_left_out)
    rate, stderr, held_rate = _rates(heads, record.labels, held_heads, held_labels)
    alone = fit_weights([heads], record.labels)
    of_full, of_heads = fit_weights([held_full, held_heads], held_labels, rates=(0.0, alone.rate)).weights
    # A mean of two predictions that are probabilities of their own, not their sum: they know much of the same.
    total = of_full + of_heads / alone.weights[0]
    scores, held_scores = of_full * full + of_heads * heads, of_full * held_full + of_heads * held_heads
    return _Judged(rate, stderr, held_rate, scores / total, held_scores / total)


def _rates(
    heads: NDArray[np.float64],
    labels: NDArray[np.int64],
    held_heads: NDArray[np.float64],
    held_labels: NDArray[np.int64],
) -> tuple[float, float, float]:
    """Return the rate of wrong labels among training rows, its error, and the rate among validation rows.

    All are by the heads, which met no row's label.
    """
    chosen, spread = some_of(len(labels)), heads.std() or 1.0
    parts = bent(np.concatenate([heads[chosen], held_heads]) / spread)
    given = np.concatenate([labels[chosen], held_labels])
    training = np.arange(len(given)) < len(chosen)
    same = fit_weights(parts, given).loss < fit_weights(parts, given, noisy=training).loss
    rate, stderr = _with_error(fit_rate(parts, given, noisy=None if same else training), parts)
    return rate, stderr, rate if same else 0.0


def _with_error(fit: NoiseFit, parts: list[NDArray[np.float64]]) -> tuple[float, float]:
    """Return a rate and the standard deviation of its error, by chance and because the model is not the truth.

    What a prediction cannot know of a class, such as irony, looks like a wrong label too: rates come out too high. So
    it is lowered by what the model may mislead it, and by no more than its standard error.
    """
    by_chance, misled = fit.stderr or 0.0, _RATE_MISLED * expected_error(parts, fit.weights)
    return max(0.0, fit.rate - min(by_chance, misled)), float(np.hypot(by_chance, misled))


@dataclass(frozen=True)
class _Belief:
    """One of the equally likely states of what is not known.

    Attributes:
        rate: share of wrong labels.
        scale: factor of the log-odds against a label.
        shift: what is added to them, because the full view met the label, so that they find that rate.
        classes: how many.
    """

    rate: float
    scale: float
    shift: float
    classes: int

    @classmethod
    def at(cls, odds: NDArray[np.float64], *, rate: float, scale: float, classes: int) -> "_Belief":
        """Return the one of a rate and a scale."""
        odds = scale * odds[some_of(len(odds))]
        low, high = 0.0, _MOST_SHIFT if rate else 0.0
        while high - low > 1e-5:
            middle = (low + high) / 2
            enough = rate_is_higher(_probability(odds + middle), rate, classes)
            low, high = (low, middle) if enough else (middle, high)
        return cls(rate, scale, low, classes)

    def wrong(self, odds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how probably labels are wrong that have such log-odds against them."""
        if not self.rate:
            return np.zeros(len(odds))
        return wrong_probability(_probability(self.scale * odds + self.shift), self.rate, self.classes)


def _range(expected: NDArray[np.float64], count: int) -> tuple[int, int]:
    """Return the least and the largest number of wrong labels among so many called ones.

    Args:
        expected: number of them, by belief.
        count: of called labels.
    """
    if not count:
        return 0, 0
    share = np.clip(expected / count, 1e-6, 1 - 1e-6)
    log_odds = np.log(share / (1 - share))[:, None] + normal_values(0.0, _ODDS_MISLED, count=_ODDS)
    # The same draws for the same numbers; with the binomial spread of a count.
    draws = np.random.default_rng(0).binomial(count, _probability(-log_odds), (_DRAWS, *log_odds.shape))
    low, high = np.quantile(draws, [_TAIL, 1 - _TAIL])
    return int(np.floor(low)), int(np.ceil(high))


def _probability(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-np.logaddexp(0.0, odds))
