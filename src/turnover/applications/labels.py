"""Given labels, classes or numbers, and held-out predictions beside them: which of these labels are probably wrong."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError
from turnover.scores import OutOfSample

from .results import Result, checked_labels, entry

LIKELY_ERROR = 3.0
"""From so many times the usual distance on, a number is a likely error: 0.3 % of normally distributed ones are."""

# The usual distance is a median per band of predictions; that of few rows must not decide.
_MOST_BANDS, _ROWS_OF_A_BAND, _LEAST_SHARE = 20, 50, 0.5
# The median of the absolute value of a normal variable, as a share of its standard deviation.
_MEDIAN = 0.6745
# Numbers of near-duplicates agree within this share of their standard deviation.
_NEAR_NUMBERS = 0.5
# With many labels nearly every error is a pair of its own.
_MOST_PAIRS = 500


@dataclass(frozen=True)
class NumberFit(Result):
    """How well numbers are predicted.

    Attributes:
        r2: below 0: worse than the mean of the labels; None: these are all the same.
        baseline_rmse: that of always predicting the mean of the training labels.
    """

    rows: int
    rmse: float
    mae: float
    r2: float | None
    baseline_rmse: float

    @classmethod
    def of(cls, predicted: NDArray[np.floating], labels: NDArray[np.float64], *, baseline: float) -> "NumberFit":
        """Return it for one row or more.

        Example:
            >>> fit = NumberFit.of(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 5.0]), baseline=2.0)
            >>> round(fit.mae, 3), round(fit.r2, 3)
            (0.667, 0.538)
        """
        squared = float(np.square(predicted - labels).mean())
        variance = float(labels.var())
        return cls(
            rows=len(labels),
            rmse=squared**0.5,
            mae=float(np.abs(predicted - labels).mean()),
            r2=1 - squared / variance if variance else None,
            baseline_rmse=float(np.square(labels - baseline).mean()) ** 0.5,
        )


@dataclass(frozen=True)
class ClassSummary(Result):
    """How well one class is predicted.

    Attributes:
        unseen: validation and test rows.
        predicted: validation and test rows that are predicted to be of it.
        likely_label_errors: among its training labels.
    """

    _also = ("recall", "precision")

    label: str
    train: int
    unseen: int
    correct: int
    predicted: int
    likely_label_errors: int = 0

    @property
    def recall(self) -> float | None:
        """Return the share of its rows that are predicted correctly."""
        return self.correct / self.unseen if self.unseen else None

    @property
    def precision(self) -> float | None:
        """Return the share of rows predicted to be of it that are."""
        return self.correct / self.predicted if self.predicted else None


@dataclass(frozen=True)
class Confusion(Result):
    """How many validation and test rows of one label are predicted to have another, or the same."""

    label: str
    predicted: str
    rows: int


@dataclass(frozen=True, eq=False)
class ClassLabels:
    """Class number of each row (−1: no label), and names of the classes (none: numbers are their names)."""

    values: NDArray[np.int64]
    names: tuple[str, ...] = ()
    numeric: ClassVar[bool] = False

    @property
    def known(self) -> NDArray[np.bool_]:
        """Return which rows have a label."""
        return self.values >= 0

    def among(self, rows: NDArray[np.int64]) -> "ClassLabels":
        """Return the labels of some rows."""
        return ClassLabels(self.values[rows], self.names)

    def name(self, number: int) -> str | int | None:
        """Return what a class is called; None: no label."""
        return None if number < 0 else self.names[number] if self.names else int(number)

    def agree(self, rows: Any) -> bool:
        """Tell whether some rows have the same label."""
        return len(np.unique(self.values[list(rows)])) == 1

    def errors(self, probs: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return the places of the rows that are predicted to be of another class, the most confident first."""
        places = np.flatnonzero(probs.argmax(1) != self.values)
        return places[np.argsort(-probs[places].max(1), kind="stable")]

    def beside(self, held_out: NDArray[np.floating], *, like: Any = None) -> "HeldOutLabels":
        """Return the labels beside held-out probabilities of the same rows."""
        return HeldOutLabels(held_out, self)

    def fit(self, unseen: Any, probs: NDArray[np.floating], likely: NDArray[np.bool_]) -> dict[str, Any]:
        """Return how well other rows are predicted, as fields of `Findings`; `likely` are errors among these."""
        given, predicted, train = unseen.values, probs.argmax(1), self.values
        classes = tuple(
            ClassSummary(
                label=name,
                train=int((train == number).sum()),
                unseen=int((given == number).sum()),
                correct=int(((given == number) & (predicted == number)).sum()),
                predicted=int((predicted == number).sum()),
                likely_label_errors=int(likely[train == number].sum()),
            )
            for number, name in enumerate(self.names)
        )
        pairs, counts = np.unique(np.stack([given, predicted], 1), axis=0, return_counts=True)
        confusions = tuple(
            Confusion(self.names[pairs[at, 0]], self.names[pairs[at, 1]], int(counts[at]))
            for at in np.argsort(-counts, kind="stable")[:_MOST_PAIRS]
        )
        baseline = float(np.bincount(train).max() / len(train))
        return {"majority_class_baseline": baseline, "fit": None, "classes": classes, "confusions": confusions}


@dataclass(frozen=True, eq=False)
class NumberLabels:
    """Labels of rows that are numbers, which a network learns as their distance from the mean in standard deviations.

    Mean and deviation are those of the training labels.

    Example:
        >>> labels = NumberLabels.of(np.array([10.0, 30.0, 99.0]), train=[0, 1])
        >>> labels.standardized(np.array([20.0, 40.0])).tolist(), labels.restored(np.array([2.0])).tolist()
        ([0.0, 2.0], [40.0])
    """

    values: NDArray[np.float64]
    mean: float
    deviation: float
    names: ClassVar[tuple[str, ...]] = ()
    numeric: ClassVar[bool] = True

    @classmethod
    def of(cls, values: NDArray[np.float64], train: Any = slice(None)) -> "NumberLabels":
        """Return labels whose scale is that of the training rows, which differ."""
        # In units of the largest: squares of very large numbers have no place in a float.
        largest = float(np.abs(values[train]).max())
        scaled = values[train] / largest
        return cls(values, largest * float(scaled.mean()), largest * float(scaled.std()))

    def standardized(self, numbers: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return numbers as the network learns them."""
        return ((numbers - self.mean) / self.deviation).astype(np.float32)

    def restored(self, outputs: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return outputs of the network as numbers."""
        return outputs.astype(np.float64) * self.deviation + self.mean

    @property
    def known(self) -> NDArray[np.bool_]:
        """Return which rows have a label: all."""
        return np.ones(len(self.values), bool)

    def among(self, rows: NDArray[np.int64]) -> "NumberLabels":
        """Return the labels of some rows."""
        return NumberLabels(self.values[rows], self.mean, self.deviation)

    def name(self, number: float) -> float:
        """Return the number itself."""
        return float(number)

    def agree(self, rows: Any) -> bool:
        """Tell whether the numbers of some rows differ by less than half the standard deviation."""
        return bool(np.ptp(self.values[list(rows)]) <= _NEAR_NUMBERS * self.deviation)

    def errors(self, predicted: NDArray[np.floating]) -> NDArray[np.int64]:
        """Return the places of all rows, the largest error first."""
        return np.argsort(-np.abs(predicted.reshape(-1) - self.values), kind="stable")

    def beside(self, held_out: NDArray[np.floating], *, like: Any = None) -> "Residuals":
        """Return the labels beside held-out predictions of the same rows; usual is what is usual `like` there."""
        return Residuals(held_out.reshape(-1).astype(np.float64), self.values, like)

    def fit(self, unseen: Any, predicted: NDArray[np.floating], likely: NDArray[np.bool_]) -> dict[str, Any]:
        """Return how well other rows are predicted, as fields of `Findings`; these are the training labels."""
        fit = NumberFit.of(predicted, unseen.values, baseline=self.mean) if len(unseen.values) else None
        return {"majority_class_baseline": None, "fit": fit, "classes": (), "confusions": ()}


Labels = ClassLabels | NumberLabels


@dataclass(frozen=True, eq=False)
class HeldOutLabels:
    """Labels of rows beside held-out probabilities [n, classes]: P(wrong) is that of all other classes.

    A label is a likely error where another class is more probable.
    """

    probs: NDArray[np.floating]
    labels: ClassLabels
    expected: ClassVar[None] = None
    expected_range: ClassVar[None] = None

    @cached_property
    def _own(self) -> NDArray[np.floating]:
        own = self.probs[np.arange(len(self.probs)), self.labels.values]
        return np.where(self.labels.known, own, np.float32(np.nan))

    @cached_property
    def _others(self) -> NDArray[np.floating]:
        others, labeled = self.probs.copy(), np.flatnonzero(self.labels.known)
        others[labeled, self.labels.values[labeled]] = -np.inf
        return others

    @cached_property
    def p_wrong(self) -> NDArray[np.float32]:
        """Return P(wrong) of each row's label [n]."""
        return (1 - self._own).astype(np.float32)

    @cached_property
    def likely(self) -> NDArray[np.bool_]:
        """Return which labels are likely errors [n]."""
        return self._own < self._others.max(1)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Return the places of all rows, the likeliest label error first.

        Likely errors come before all others, and within both the less probable label is the earlier: with many classes
        a row that two of them share has a small margin, and yet its label may well be right.
        """
        return np.lexsort((np.arange(len(self._own)), np.nan_to_num(self._own, nan=np.inf), ~self.likely))

    @cached_property
    def confident(self) -> NDArray[np.bool_]:
        """Tell for each row whether another label is at least as probable as it is, on average, for rows that have it.

        This is the threshold of confident learning (Northcutt, Jiang and Chuang 2021).
        """
        labels, classes = self.labels.values, self.probs.shape[1]
        counts = np.bincount(labels, minlength=classes)
        own = np.bincount(labels, self._own.astype(np.float64), classes)
        usual = np.where(counts > 0, own / np.maximum(counts, 1), 2.0)
        predicted = self.probs.argmax(1)
        return (predicted != labels) & (self.probs[np.arange(len(labels)), predicted] >= usual[predicted])

    def of_row(self, place: int) -> dict[str, Any]:
        """Return the held-out prediction of a row, as fields of a finding."""
        best, names = int(self.probs[place].argmax()), self.labels.names
        return {
            "held_out_label": self.labels.name(best),
            "held_out_probability": float(self.probs[place, best]),
            "label_quality": entry(self._own, place),
            "suggested": names[int(self._others[place].argmax())] if len(names) > 1 else None,
        }


@dataclass(frozen=True, eq=False)
class Residuals:
    """Labels that are numbers beside their held-out predictions, and how far they lie from them.

    The usual distance is that of rows with about the same prediction: a large number is often less certain than a small
    one. It is a median, so that few wrong labels do not stretch it; that of `usual` where that is given. P(wrong) takes
    correct labels to be normally distributed, and those at three times the usual distance to be wrong as often as not.
    How many labels are wrong is not said: a network does not know what it cannot predict.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> predicted = rng.uniform(0, 10, 200)
        >>> labels = predicted + rng.normal(0, 0.1, 200)
        >>> labels[7] += 3
        >>> likely = Residuals(predicted, labels).likely
        >>> bool(likely[7]), int(likely.sum()) < 6  # three times the usual distance: some correct labels lie as far off
        (True, True)
    """

    predicted: NDArray[np.float64]
    labels: NDArray[np.float64]
    usual: "Residuals | None" = None
    expected: ClassVar[None] = None
    expected_range: ClassVar[None] = None

    @cached_property
    def standardized(self) -> NDArray[np.float64]:
        """Return label minus held-out prediction, in units of the usual distance [n]."""
        centers, spreads = (self.usual or self)._bands
        return (self.labels - self.predicted) / np.interp(self.predicted, centers, spreads)

    @cached_property
    def p_wrong(self) -> NDArray[np.float32]:
        """Return P(wrong) of each row's label [n]."""
        log_odds = (np.square(self.standardized) - LIKELY_ERROR**2) / 2
        return np.exp(-np.logaddexp(0.0, -log_odds)).astype(np.float32)

    @cached_property
    def likely(self) -> NDArray[np.bool_]:
        """Return which labels are likely errors [n]."""
        return np.abs(self.standardized) > LIKELY_ERROR

    @cached_property
    def confident(self) -> NDArray[np.bool_]:
        """Tell for each row whether it lies twice as far off as a likely error."""
        return np.abs(self.standardized) > 2 * LIKELY_ERROR

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Return the places of all rows, the likeliest label error first."""
        return np.argsort(-np.nan_to_num(np.abs(self.standardized), nan=0.0), kind="stable")

    def of_row(self, place: int) -> dict[str, Any]:
        """Return the held-out prediction of a row, as fields of a finding."""
        return {
            "held_out_label": float(self.predicted[place]),
            "held_out_probability": None,
            "label_quality": None,
            "residual": float(self.standardized[place]),
            "suggested": f"{self.predicted[place]:.6g}",
        }

    @cached_property
    def _bands(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        finite = np.isfinite(self.predicted)
        predicted, residuals = self.predicted[finite], (self.labels - self.predicted)[finite]
        order = np.argsort(predicted, kind="stable")
        bands = np.array_split(order, np.clip(len(order) // _ROWS_OF_A_BAND, 1, _MOST_BANDS))
        # A network that predicts most rows to the last bit leaves no distance to compare with.
        least = max(_LEAST_SHARE * _spread(residuals), 1e-9 * float(np.abs(self.labels).max()), np.finfo(float).tiny)
        centers = np.array([np.median(predicted[band]) for band in bands])
        return centers, np.array([max(_spread(residuals[band]), least) for band in bands])


@dataclass(frozen=True, eq=False)
class RecordedLabels:
    """How probably each training label is wrong, by the record of the training: likely errors are more so than not.

    Attributes:
        rate: estimated share of wrong labels among all.
        expected_range: least and largest number of wrong labels among the likely errors (90 % interval).
    """

    p_wrong: NDArray[np.float32]
    order: NDArray[np.int64]
    rate: float
    expected_range: tuple[int, int]

    @cached_property
    def likely(self) -> NDArray[np.bool_]:
        """Return which labels are likely errors [n]."""
        return self.p_wrong > 0.5

    @property
    def expected(self) -> float:
        """Return how many of the likely label errors are expected to be wrong labels."""
        return float(self.p_wrong[self.likely].astype(np.float64).sum())


WrongLabels = RecordedLabels | HeldOutLabels | Residuals
"""How probably each label is wrong, by one of three sources: `p_wrong`, `order`, `likely`, `expected` (None: not known)
and `expected_range`."""


def _spread(residuals: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(residuals - np.median(residuals)))) / _MEDIAN


def labels_of(given: Any, held_out: OutOfSample) -> Labels:
    """Return labels that were given, or those of the data, as what held-out predictions of the same rows are of."""
    if given is None and held_out.labels is None:
        raise ApplicationError(
            "the labels of the rows are not known as classes. Give labels=[...], one per row, from 0 to classes − 1."
        )
    classes = held_out.probs.shape[1]
    values = checked_labels(held_out.labels if given is None else given, len(held_out))
    if values.dtype.kind == "f" and classes == 1:
        if not np.isfinite(values).all():
            raise ApplicationError("labels must be finite numbers, got NaN or infinity. Leave these rows out.")
        return NumberLabels.of(values.astype(np.float64))
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= classes:
        raise ApplicationError(f"labels must be class numbers from 0 to {classes - 1}, one per row.")
    if (values == values[0]).all():
        raise ApplicationError(
            f"all {len(values)} rows have the label {values[0]}, so none can be an error. Give two classes or more."
        )
    return ClassLabels(values.astype(np.int64))
