"""Likely label errors: training rows whose label is more probably wrong than right."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError, TurnOverError
from turnover.influence import Influence
from turnover.scores import OutOfSample

from ._results import Result
from .examples import Instance
from .residuals import Residuals


@dataclass(frozen=True)
class HeldOutExample(Instance):
    """A training example with its held-out prediction, by the subnetwork that was not trained on it.

    Attributes:
        label_quality: held-out probability of the given label.
        by_record: whether the label is a likely error by the record of the training; None: it was not recorded.
        residual: of a number, label minus held-out prediction, in units of the usual distance (`Residuals`).
    """

    _also = ("likely_label_error",)
    _hidden = ("by_record",)

    held_out_label: Any
    held_out_probability: float | None
    label_quality: float | None
    by_record: bool | None = field(default=None, kw_only=True)
    residual: float | None = field(default=None, kw_only=True)

    @property
    def likely_label_error(self) -> bool:
        """Tell whether the label is a likely error; without a record, whether the held-out prediction is another."""
        return self._disagrees if self.by_record is None else self.by_record

    @property
    def _disagrees(self) -> bool:
        return self.held_out_label is not None and self.held_out_label != self.label

    @property
    def prediction_words(self) -> str:
        """Return the given label and the held-out prediction in words; "" where there is none."""
        if self.held_out_label is None:
            return ""
        if self.residual is not None:
            distance = f"{abs(self.residual):.1f} times the usual distance"
            return f"given label {self.label:.6g}, held-out prediction {self.held_out_label:.6g} ({distance})"
        given, other = self.label_quality or 0.0, self.held_out_probability or 0.0
        if not self._disagrees:
            return f"given label {self.label} ({given:.0%}), as the held-out prediction"
        return f"given label {self.label} ({given:.0%}), held-out prediction {self.held_out_label} ({other:.0%})"


@dataclass(frozen=True)
class LabelError(HeldOutExample):
    """A training example whose label is a likely error.

    Attributes:
        wrong_probability: how probably the label is wrong; None: the training was not recorded.
        confident: the other label is at least as probable as it is, on average, for examples that have it.
        duplicates: rows of its first near-duplicates among the training rows: with them it was not truly held out.
    """

    confident: bool
    self_influence: float | None
    stderr: float | None
    duplicates: tuple[int, ...]
    duplicates_disagree: bool
    wrong_probability: float | None = field(default=None, kw_only=True)

    def __str__(self) -> str:
        """Return it in words."""
        words = self.prediction_words
        if self.duplicates_disagree:
            words += "; a near-duplicate has another label"
        elif self.duplicates:
            words += "; not truly held out, as it has a near-duplicate"
        return f"{words}."


@dataclass(frozen=True)
class LabelErrors(Result):
    """Training rows whose label is more probably wrong than right, the likeliest label error first.

    Where the training was not recorded, they are those whose label disagrees with the held-out prediction.

    Attributes:
        expected_errors: how many of them are expected to be wrong labels; None: the training was not recorded.
        expected_errors_range: the least and the largest number of them that are (90 % interval); None: as above.
        unseen_rows: validation and test rows that flipped subnetworks predicted for comparison.
        unseen_disagreements: how many of their labels disagree; of numbers, how many lie as far off as likely errors.
        numeric: labels are numbers, and likely errors by their distance from the held-out prediction (`Residuals`).
    """

    _also = ("expected",)

    rows: int
    count: int
    confident: int
    unseen_rows: int
    unseen_disagreements: int
    items: tuple[LabelError, ...]
    expected_errors: int | None = None
    expected_errors_range: tuple[int, int] | None = None
    numeric: bool = False

    @property
    def expected(self) -> int | None:
        """Return how many would disagree if labels were as good as those of validation and test rows."""
        return round(self.rows * self.unseen_disagreements / self.unseen_rows) if self.unseen_rows else None


def label_margins(out_of_sample: OutOfSample, labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return how much more probable each row's label is than the most probable other one, −1 to 1.

    Args:
        out_of_sample: held-out predictions, averaged over replicas.
        labels: given labels [n].

    Example:
        >>> label_margins(OutOfSample([[0.75, 0.25], [0.25, 0.75]], ids=[7, 8]), np.array([0, 0]))
        array([ 0.5, -0.5], dtype=float32)
    """
    rows = np.arange(len(labels))
    own = out_of_sample.probs[rows, labels]
    others = out_of_sample.probs.copy()
    others[rows, labels] = -np.inf
    return own - others.max(1)


def label_error_order(out_of_sample: OutOfSample, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of all rows, the likeliest label error first.

    Rows whose label is not the most probable come before all others, and within both the less probable the label, the
    earlier: with many classes a row that two of them share has a small margin, and yet its label may well be right.
    With 10 % changed labels, 8 replicas and seeds that are reported nowhere, changed labels among the first tenth, by
    this order / by the margin: 119 / 106 of 130 digits (mean of 3 seeds), 282 / 282 of 500 sentences of SST-2.

    Args:
        out_of_sample: as for `label_margins`.
        labels: given labels [n].

    Example:
        >>> held_out = OutOfSample([[0.4, 0.35, 0.25], [0.1, 0.0, 0.9], [0.3, 0.6, 0.1]], ids=[7, 8, 9])
        >>> label_error_order(held_out, np.array([0, 0, 0]))
        array([1, 2, 0])
    """
    rows = np.arange(len(labels))
    own = np.nan_to_num(out_of_sample.probs[rows, labels], nan=np.inf)
    agrees = ~(label_margins(out_of_sample, labels) < 0)
    return np.lexsort((rows, own, agrees))


def confident_label_errors(out_of_sample: OutOfSample, labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each row whether its held-out prediction confidently disagrees with its label.

    Confidently: the other label is at least as probable as it is, on average, for rows that have it. This is the
    threshold of confident learning (Northcutt, Jiang and Chuang 2021), which takes into account that a network may be
    sure of one class and unsure of another.
    """
    probs, rows = out_of_sample.probs, np.arange(len(labels))
    counts = np.bincount(labels, minlength=probs.shape[1])
    own = probs[rows, labels].astype(np.float64)
    usual = np.where(counts > 0, np.bincount(labels, own, probs.shape[1]) / np.maximum(counts, 1), 2.0)
    predicted = probs.argmax(1)
    return (predicted != labels) & (probs[rows, predicted] >= usual[predicted])


def held_out_fields(
    out_of_sample: OutOfSample | None, place: int, label: int | None, names: tuple[str, ...] | None
) -> dict[str, Any]:
    """Return the fields of `HeldOutExample` at a place of the predictions; all None where these are not known."""
    if out_of_sample is None or label is None or place < 0:
        return {"held_out_label": None, "held_out_probability": None, "label_quality": None}
    probs = out_of_sample.probs[place]
    best = int(probs.argmax())
    return {
        "held_out_label": best if names is None else names[best],
        "held_out_probability": float(probs[best]),
        "label_quality": float(probs[label]) if np.isfinite(probs[label]) else None,
    }


def held_out_number(residuals: Residuals, place: int) -> dict[str, Any]:
    """Return the fields of `HeldOutExample` of a row whose label is a number; all None for a group of rows."""
    if place < 0:
        return dict.fromkeys(("held_out_label", "held_out_probability", "label_quality"))
    return {
        "held_out_label": float(residuals.predicted[place]),
        "held_out_probability": None,
        "label_quality": None,
        "residual": float(residuals.standardized[place]),
        "by_record": bool(residuals.likely[place]),
    }


def held_out_places(
    influence: Influence | None,
    out_of_sample: OutOfSample | None,
    ids: NDArray[np.int64],
    *,
    progress: bool | None = False,
) -> tuple[OutOfSample | None, NDArray[np.int64]]:
    """Return held-out predictions and the places of ids in them; −1 for groups, which are several rows."""
    nothing = np.full(len(ids), -1)
    if out_of_sample is None and influence is not None and len(ids):
        try:
            out_of_sample = influence.out_of_sample(progress=progress)
        except TurnOverError:  # outputs that are no predictions of one thing: there is nothing to say
            return None, nothing
    if out_of_sample is None or not len(ids):
        return None, nothing
    values, first, counts = np.unique(out_of_sample.mask_ids, return_index=True, return_counts=True)
    places = np.minimum(np.searchsorted(values, ids), len(values) - 1)
    if (values[places] != ids).any():
        raise ApplicationError("out_of_sample holds other rows than the training data. Give influence.out_of_sample().")
    return out_of_sample, np.where(counts[places] == 1, first[places], -1)
