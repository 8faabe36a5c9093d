"""How probably each training label is wrong, and how many of them are: from the record of one training."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError

from ._noise import (
    bent,
    best_rate,
    cautious_fit,
    centered,
    fit_scale,
    fit_weights,
    odds_against,
    some_of,
    wrong_probability,
)
from .training_record import RowRecord

FEWEST_VALIDATION = 10
"""Validation rows without which a record cannot be weighed."""
# The full view may be more certain of a row that it was trained on by at most so much, in log-odds.
_MOST_SHIFT = 4.0


@dataclass(frozen=True)
class WrongLabels:
    """How probably each training label is wrong.

    Attributes:
        probability: of being wrong, of each row's label [n].
        order: places of all rows, the likeliest label error first.
        likely: whether a label is more probably wrong than right [n]: the likely label errors.
        rate: estimated share of wrong labels among all.
    """

    probability: NDArray[np.float32]
    order: NDArray[np.int64]
    likely: NDArray[np.bool_]
    rate: float

    @property
    def expected(self) -> float:
        """Return how many of the likely label errors are expected to be wrong labels."""
        return float(self.probability[self.likely].astype(np.float64).sum())


def wrong_labels(record: RowRecord) -> WrongLabels:
    """Return how probably each training label is wrong.

    The class scores of a row are a weighted mean of the full view's log-probabilities over epochs and of the left-out
    heads; the weights predict the validation labels best, and so does their scale, which stays near that of either
    prediction where validation labels do not tell. The share of wrong labels is that among the training rows by
    the heads, which never met their labels; of all that fit as well, within one standard error, it is the smallest.
    Validation labels are taken to be as noisy or correct, whichever is likelier by the heads. Without heads the share
    is that among the validation rows. The full view did meet the label of a training row, and is too certain of it: by
    how much is the shift at which the class scores find that share of wrong labels.

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
    rate, held_rate, scores, held_scores = _judged(record)
    labels, classes = record.labels, record.full.shape[1]
    odds = odds_against(fit_scale(held_scores, record.validation_labels, held_rate) * scores, labels)
    probability = wrong_probability(_shifted(odds, rate, classes), rate, classes)
    # By the odds themselves: probabilities of 0 and 1 have no order.
    order = np.lexsort((np.arange(len(labels)), -odds))
    return WrongLabels(probability.astype(np.float32), order, probability > 0.5, rate)


def _judged(record: RowRecord) -> tuple[float, float, NDArray[np.float64], NDArray[np.float64]]:
    """Return the rates of wrong labels among training and validation rows, and the class scores of both."""
    held_labels, full, held_full = record.validation_labels, centered(record.full), centered(record.validation_full)
    if record.left_out is None or record.validation_left_out is None:
        rate = cautious_fit([held_full], held_labels).rate
        return rate, rate, full, held_full
    heads, held_heads = centered(record.left_out), centered(record.validation_left_out)
    rate, held_rate = _rates(heads, record.labels, held_heads, held_labels)
    alone = fit_weights([heads], record.labels)
    of_full, of_heads = fit_weights([held_full, held_heads], held_labels, rates=(0.0, alone.rate)).weights
    # A mean of two predictions that are probabilities of their own, not their sum: they know much of the same.
    total = of_full + of_heads / alone.weights[0]
    scores, held_scores = of_full * full + of_heads * heads, of_full * held_full + of_heads * held_heads
    return rate, held_rate, scores / total, held_scores / total


def _rates(
    heads: NDArray[np.float64],
    labels: NDArray[np.int64],
    held_heads: NDArray[np.float64],
    held_labels: NDArray[np.int64],
) -> tuple[float, float]:
    """Return the rates of wrong labels among training and validation rows by the heads, which met neither's label."""
    chosen, spread = some_of(len(labels)), heads.std() or 1.0
    parts = bent(np.concatenate([heads[chosen], held_heads]) / spread)
    given = np.concatenate([labels[chosen], held_labels])
    training = np.arange(len(given)) < len(chosen)
    same = fit_weights(parts, given).loss < fit_weights(parts, given, noisy=training).loss
    rate = cautious_fit(parts, given, noisy=None if same else training).rate
    return rate, rate if same else 0.0


def _shifted(odds: NDArray[np.float64], rate: float, classes: int) -> NDArray[np.float64]:
    """Return the probability of each given label, the odds against it being raised until they have that rate."""
    low, high = 0.0, _MOST_SHIFT
    for _ in range(30):
        middle = (low + high) / 2
        enough = best_rate(_probability(odds + middle), classes) >= rate
        low, high = (low, middle) if enough else (middle, high)
    return _probability(odds + low)


def _probability(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-np.logaddexp(0.0, odds))
