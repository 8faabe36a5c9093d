"""What the network memorized: self-influence of the training rows, and likely label errors among them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from turnover.errors import ApplicationError
from turnover.influence import Influence
from turnover.scores import OutOfSample, Scores

from ._results import Result, checked_count, checked_labels, entry, significance, table_of
from .examples import Examples, TrainInstances
from .label_errors import (
    HeldOutExample,
    LabelError,
    LabelErrors,
    confident_label_errors,
    held_out_fields,
    held_out_number,
    label_error_order,
    label_margins,
)
from .near_duplicates import Duplicates, labels_agree
from .residuals import LIKELY_ERROR, Residuals
from .trust import Histogram, histogram
from .wrong_labels import WrongLabels

if TYPE_CHECKING:
    import pandas

_MOST_DUPLICATES = 4


@dataclass(frozen=True)
class MemorizedExample(HeldOutExample):
    """A training example with its self-influence.

    Attributes:
        self_influence: how much training on the example improves its own prediction; high: memorized.
        stderr: standard error; None: not known.
        significant: whether it differs from the null ids.
    """

    self_influence: float
    stderr: float | None
    significant: bool


@dataclass(frozen=True)
class MemorizedExamples(Result):
    """Training examples by self-influence, the largest first.

    Attributes:
        count: how many are memorized: their self-influence is positive and significant.
        share_positive: share whose self-influence is positive, significant or not.
        histogram: of all self-influence.
    """

    _also = ("share",)

    rows: int
    count: int
    share_positive: float
    level: float
    unit: str
    histogram: Histogram | None
    items: tuple[MemorizedExample, ...]

    @property
    def share(self) -> float:
        """Return the share of training rows that are memorized."""
        return self.count / max(self.rows, 1)


@dataclass(frozen=True)
class Memorized:
    """How far each training row was memorized, and how far its label agrees with its held-out prediction.

    Attributes:
        margins: of every row's given label [n], see `label_margins`; negative: it is not the most probable. Of numbers:
            how much nearer it is to its held-out prediction than a likely error, in units of the usual distance.
        order: places of all rows, the likeliest label error first: by the record of the training, else by
            `label_error_order`.
        confident: whether each row's held-out prediction confidently disagrees with its label [n]; of numbers, whether
            it is a likely error by twice the distance.
        significant: whether each row's self-influence is significant [n].
        duplicates: near-duplicates among the rows; None: not looked for.
        wrong_labels: how probably each label is wrong; None: the training was not recorded.
        residuals: how far labels that are numbers lie from their held-out predictions; None: for classes.
    """

    self_influence: Scores
    out_of_sample: OutOfSample
    labels: NDArray[Any]
    margins: NDArray[np.float32]
    order: NDArray[np.int64]
    confident: NDArray[np.bool_]
    significant: NDArray[np.bool_]
    level: float
    duplicates: Duplicates | None = None
    examples: Examples | None = None
    wrong_labels: WrongLabels | None = None
    residuals: Residuals | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.labels)

    @property
    def count(self) -> int:
        """Return how many rows are memorized: their self-influence is positive and significant."""
        return int((self.significant & (self.self_influence.values > 0)).sum())

    @property
    def share_positive(self) -> float:
        """Return the share of rows whose self-influence is positive, significant or not."""
        values = self.self_influence.values
        return float((values[np.isfinite(values)] > 0).mean())

    @property
    def likely(self) -> NDArray[np.bool_]:
        """Return whether each row's label is a likely error [n]; without a record, whether it disagrees."""
        return self.margins < 0 if self.wrong_labels is None else self.wrong_labels.likely

    @property
    def disagreements(self) -> int:
        """Return how many labels disagree with their held-out prediction."""
        return int((self.margins < 0).sum())

    def histogram(self, bins: int = 50, *, tails: float = 0.5) -> Histogram | None:
        """Return the histogram of self-influence.

        Args:
            bins: number of bins.
            tails: percent of the rows on either side that the outermost bins hold.
        """
        return histogram(self.self_influence, bins=checked_count(bins, "bins"), tails=tails)

    def memorized_example(self, position: int) -> MemorizedExample:
        """Return one row with its self-influence."""
        own = self.self_influence
        return MemorizedExample(
            **self._held_out(position),
            self_influence=float(own.values[position]),
            stderr=entry(own.stderr, position),
            significant=bool(self.significant[position]),
        )

    def label_error(self, position: int) -> LabelError:
        """Return one row with its label and its held-out prediction."""
        others = [] if self.duplicates is None else list(self.duplicates.twins(int(position)))
        rows = others if self.examples is None else self.examples.train_rows[others].tolist()
        return LabelError(
            **self._held_out(position),
            confident=bool(self.confident[position]),
            self_influence=entry(self.self_influence.values, position),
            stderr=entry(self.self_influence.stderr, position),
            duplicates=tuple(rows[:_MOST_DUPLICATES]),
            duplicates_disagree=not labels_agree(self.labels[[position, *others]], self._deviation),
            wrong_probability=None if self.wrong_labels is None else float(self.wrong_labels.probability[position]),
        )

    def likely_label_errors(self, k: int | None = None) -> tuple[LabelError, ...]:
        """Return the likeliest label errors, the likeliest first.

        Args:
            k: that many rows, whether or not their label is a likely error; None: all whose label is.
        """
        count = int(self.likely.sum()) if k is None else checked_count(k, "k")
        return tuple(self.label_error(int(position)) for position in self.order[:count])

    def most_memorized(self, k: int = 10) -> tuple[MemorizedExample, ...]:
        """Return the k rows of the highest self-influence, the highest first."""
        values = np.nan_to_num(self.self_influence.values, nan=-np.inf)
        order = np.argsort(-values, kind="stable")
        return tuple(self.memorized_example(int(position)) for position in order[: checked_count(k, "k")])

    def find_memorized(self, most: int = 200) -> MemorizedExamples:
        """Return the memorized rows as a finding: its counts, and at most so many rows of positive self-influence."""
        items = tuple(one for one in self.most_memorized(most) if one.self_influence > 0)
        about = self.self_influence.unit, self.histogram(40, tails=0.0)
        return MemorizedExamples(len(self), self.count, self.share_positive, self.level, *about, items)

    def find_label_errors(self, most: int = 500, *, unseen: tuple[int, int] = (0, 0)) -> LabelErrors:
        """Return the likely label errors as a finding: its counts, and at most so many rows.

        Args:
            most: rows.
            unseen: rows that were not trained on and were predicted in the same way, and disagreements among them.
        """
        count = int(self.likely.sum())
        items = self.likely_label_errors(min(most, count)) if count else ()
        confident = int((self.confident & self.likely).sum())
        by_record = self.wrong_labels
        wrong = (None, None) if by_record is None else (round(by_record.expected), by_record.expected_range)
        return LabelErrors(len(self), count, confident, *unseen, items, *wrong, self.residuals is not None)

    def as_dict(self) -> dict[str, Any]:
        """Return memorized rows and likely label errors as JSON could hold them."""
        return {
            "memorized": self.find_memorized().as_dict(),
            "likely_label_errors": self.find_label_errors().as_dict(),
        }

    def table(self) -> "pandas.DataFrame":
        """Return one row per training row, the likeliest label error first: what `LabelError` has."""
        return table_of([self.label_error(int(position)) for position in self.order], LabelError)

    @property
    def _deviation(self) -> float | None:
        return None if self.residuals is None else float(np.std(self.labels))

    def _held_out(self, position: int) -> dict[str, Any]:
        """Return the fields of `HeldOutExample`."""
        place = int(position)
        if self.residuals is not None:
            known = TrainInstances(self.out_of_sample.mask_ids, self.labels, names=self.out_of_sample.names)
            instance = known.instance(place) if self.examples is None else self.examples.training_row(place)
            return instance | held_out_number(self.residuals, place)
        label = int(self.labels[position])
        if self.examples is None:
            known = TrainInstances(self.out_of_sample.mask_ids, self.labels, names=self.out_of_sample.names)
            instance = known.instance(place)
            by_record = None if self.wrong_labels is None else bool(self.likely[place])
            return instance | held_out_fields(self.out_of_sample, place, label, None) | {"by_record": by_record}
        fields = held_out_fields(self.out_of_sample, place, label, self.examples.label_names)
        by_record = None if self.wrong_labels is None else bool(self.likely[place])
        return self.examples.training_row(place) | fields | {"by_record": by_record}


def memorized(
    influence: Influence,
    *,
    train: Any = None,
    labels: Any = None,
    duplicates: Duplicates | None = None,
    self_influence: Scores | None = None,
    out_of_sample: OutOfSample | None = None,
    wrong_labels: WrongLabels | None = None,
    level: float = 0.05,
    examples: Examples | None = None,
    progress: bool | None = False,
) -> Memorized:
    """Return how far each training row was memorized, and which labels are likely errors.

    A row is memorized where its self-influence is positive and significant. Its label is a likely error where it is
    more probably wrong than right by the record of the training (`TrainingRecord`, `wrong_labels`). Without a record
    it is one where it disagrees with the held-out prediction, and rows are ordered by `label_error_order`. A
    near-duplicate that was trained makes a row less held out than it seems: where both have one label, self-influence
    is too low and the margin too good. Rows that have one name it.

    Labels that are numbers are likely errors where they lie further from their held-out prediction than three times the
    usual distance of labels with about the same prediction (`Residuals`). How many of these are wrong is not said: a
    network does not know what it cannot predict.

    Args:
        influence: of a classifier, or of a network that predicts one number, with its training data.
        train: rows with ids and labels; None: those of `influence`.
        labels: the label of every row, from 0 to classes − 1; None: those of the data. Numbers have to be given.
        duplicates: of `near_duplicates` on the same rows; None: not looked for.
        self_influence: `influence.self_influence(train)` where it is known already; None: it is computed.
        out_of_sample: `influence.out_of_sample(train)` where it is known already; None: it is computed.
        wrong_labels: `wrong_labels(record)` of the same rows; None: those of `examples`, if any.
        level: false discovery rate of the significant rows.
        examples: the rows with their names; None: results have positions and class numbers.
        progress: show a bar; None: on a terminal.

    Raises:
        ApplicationError: labels or duplicates do not fit the rows, or there is only one class.

    Example:
        >>> import turnover
        >>> x, y = torch.randn(40, 4), torch.randint(2, (40,))
        >>> data = turnover.with_instance_ids(torch.utils.data.TensorDataset(x, y))
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> from turnover.training import TrainingRecipe
        >>> trained = TrainingRecipe(lambda: turnover.wrap(net, at=["1"]), x, y, epochs=40).fit()
        >>> found = memorized(turnover.Influence(trained, train=data))
        >>> len(found), len(found.likely_label_errors(3)), 0 <= found.share_positive <= 1
        (40, 3, True)
    """
    own = influence.self_influence(train, progress=progress) if self_influence is None else self_influence
    held_out = influence.out_of_sample(train, progress=progress) if out_of_sample is None else out_of_sample
    if not np.array_equal(own.mask_ids, held_out.mask_ids):
        raise ApplicationError("self_influence and out_of_sample are of different rows. Compute both on the same data.")
    residuals = _residuals(labels, held_out, examples)
    given: NDArray[Any] = _class_labels(labels, held_out) if residuals is None else residuals.labels
    if duplicates is not None and len(duplicates) != len(given):
        raise ApplicationError(
            f"duplicates were looked for among {len(duplicates)} rows, and there are {len(given)}. Give those of the "
            "same rows: near_duplicates(texts)."
        )
    by_record = examples.wrong_labels if wrong_labels is None and examples is not None else wrong_labels
    if by_record is not None and len(by_record.order) != len(given):
        raise ApplicationError(
            f"wrong_labels are of {len(by_record.order)} rows, and there are {len(given)}. Record the same rows: "
            "TrainingRecord(model, train=...)."
        )
    judged = {"self_influence": own, "out_of_sample": held_out, "labels": given}
    judged |= {"significant": significance(own, level)[0], "level": level}
    judged |= {"duplicates": duplicates, "examples": examples}
    if residuals is not None:
        margins = (LIKELY_ERROR - np.abs(residuals.standardized)).astype(np.float32)
        confident = margins < -LIKELY_ERROR
        return Memorized(**judged, margins=margins, order=residuals.order, confident=confident, residuals=residuals)
    return Memorized(
        **judged,
        margins=label_margins(held_out, given),
        order=label_error_order(held_out, given) if by_record is None else by_record.order,
        confident=confident_label_errors(held_out, given),
        wrong_labels=by_record,
    )


def _residuals(labels: Any, held_out: OutOfSample, examples: Examples | None) -> Residuals | None:
    """Return the residuals of labels that are numbers; None: they are classes, or not known."""
    if examples is not None:
        return examples.residuals
    if labels is None or np.asarray(labels).dtype.kind != "f" or held_out.probs.shape[1] != 1:
        return None
    given = checked_labels(labels, len(held_out)).astype(np.float64)
    if not np.isfinite(given).all():
        raise ApplicationError("labels must be finite numbers, got NaN or infinity. Leave these rows out.")
    return Residuals(held_out.probs[:, 0].astype(np.float64), given)


def _class_labels(labels: Any, held_out: OutOfSample) -> NDArray[np.int64]:
    if labels is None and held_out.labels is None:
        raise ApplicationError(
            "the labels of the rows are not known as classes. Give labels=[...], one per row, from 0 to classes − 1."
        )
    given = checked_labels(held_out.labels if labels is None else labels, len(held_out))
    classes = held_out.probs.shape[1]
    if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= classes:
        raise ApplicationError(f"labels must be class numbers from 0 to {classes - 1}, one per row.")
    if (given == given[0]).all():
        raise ApplicationError(
            f"all {len(given)} rows have the label {given[0]}, so none can be an error. Give two classes or more."
        )
    return given.astype(np.int64)
