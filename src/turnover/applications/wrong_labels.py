"""How probably each training label is wrong, and how many of them are: from the record of one training."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError

from ._noise import best_rate, centered, fit_weights, wrong_probability
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

    The class scores of a row are a weighted sum of the full view's log-probabilities over epochs and of the left-out
    heads; the weights predict the validation labels best. The share of wrong labels is that among the training rows by
    the heads, which never met their labels; validation labels are taken to be as noisy or correct, whichever is
    likelier. Without heads it is the share among the validation rows. The full view did meet the label of a training
    row, and is too certain of it: by how much is the shift at which the class scores find that share of wrong labels.

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
    labels, classes = record.labels, record.full.shape[1]
    rows, held = [centered(record.full)], [centered(record.validation_full)]
    if record.left_out is not None and record.validation_left_out is not None:
        rows.append(centered(record.left_out))
        held.append(centered(record.validation_left_out))
        rate = fit_weights([rows[1]], labels).rate
        fitted = fit_weights(held, record.validation_labels, rates=(0.0, rate))
    else:
        fitted = fit_weights(held, record.validation_labels)
        rate = fitted.rate
    scores = sum(weight * part for weight, part in zip(fitted.weights, rows, strict=True))
    assert isinstance(scores, np.ndarray)
    probability = wrong_probability(_shifted(scores, labels, rate), rate, classes)
    # By the scores themselves: probabilities of 0 and 1 have no order.
    order = np.lexsort((np.arange(len(labels)), -_odds_against(scores, labels)))
    return WrongLabels(probability.astype(np.float32), order, probability > 0.5, rate)


def _odds_against(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the log-odds of all other classes against the given label."""
    rows = np.arange(len(labels))
    others = scores.copy()
    others[rows, labels] = -np.inf
    return np.logaddexp.reduce(others, axis=1) - scores[rows, labels]


def _shifted(scores: NDArray[np.float64], labels: NDArray[np.int64], rate: float) -> NDArray[np.float64]:
    """Return the probability of each given label, its score being lowered until the labels have that rate of errors."""
    classes, odds = scores.shape[1], _odds_against(scores, labels)
    low, high = 0.0, _MOST_SHIFT
    for _ in range(30):
        middle = (low + high) / 2
        enough = best_rate(_probability(odds + middle), classes) >= rate
        low, high = (low, middle) if enough else (middle, high)
    return _probability(odds + low)


def _probability(odds_against: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-np.logaddexp(0.0, odds_against))
